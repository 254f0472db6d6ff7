"""A frozen graph gives what the signature gives, and batch norm is gone from it."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.outputs import freezing


def norm(channels, name, rank=4):
  """A batch norm in inference whose four vectors are far from those that change nothing."""
  layer = keras.layers.BatchNormalization(name=name)
  layer.build((*[None] * (rank - 1), channels))
  random = np.random.RandomState(channels)
  layer.set_weights(
    [
      random.uniform(0.5, 2, channels) * random.choice([-1, 1], channels),
      random.randn(channels),
      random.randn(channels),
      random.uniform(0.2, 3, channels),
    ]
  )
  return layer


def signature(layers, shape):
  """The serving signature of layers in a row, as tf.saved_model has it."""
  keras.utils.set_random_seed(1)
  module = tf.Module()
  layers = [make() for make in layers]

  def apply(x):
    for layer in layers:
      x = (
        layer(x, training=False) if isinstance(layer, keras.layers.BatchNormalization) else layer(x)
      )
    return x

  apply(tf.zeros([1, *shape]))
  module.layers = [
    variable.value for layer in layers for variable in getattr(layer, "variables", [])
  ]
  module.serve = tf.function(
    lambda x: {"second": 2 * (y := apply(x)), "first": y},
    input_signature=[tf.TensorSpec([None, *shape], tf.float32, "x")],
  )
  return module, module.serve.get_concrete_function()


def conv(filters, padding="same", **settings):
  return lambda: keras.layers.Conv2D(
    filters, 3, padding=padding, bias_initializer="random_normal", **settings
  )


CASES = {
  "after a convolution": ([conv(4), lambda: norm(4, "a"), keras.layers.ReLU], (8, 8, 3), 2),
  "after one without a bias": ([conv(4, use_bias=False), lambda: norm(4, "a")], (8, 8, 3), 2),
  "before one that pads": ([lambda: norm(3, "a"), conv(4), keras.layers.ReLU], (8, 8, 3), 1),
  "before one that does not": ([lambda: norm(3, "a"), conv(4, "valid")], (8, 8, 3), 1),
  "before a matrix": (
    [lambda: norm(6, "a", 2), lambda: keras.layers.Dense(5, use_bias=False)],
    (6,),
    1,
  ),
  "after a depthwise one": (
    [lambda: keras.layers.DepthwiseConv2D(3, depth_multiplier=2), lambda: norm(6, "a")],
    (8, 8, 3),
    2,
  ),
  "between two": ([conv(4), lambda: norm(4, "a"), conv(2)], (8, 8, 3), 2),
  "behind a pooling": (
    [conv(4), keras.layers.MaxPooling2D, lambda: norm(4, "a"), conv(2)],
    (8, 8, 3),
    1,
  ),
  "of what is no convolution's": ([keras.layers.ReLU, lambda: norm(3, "a")], (8, 8, 3), 0),
}


@pytest.mark.parametrize(
  ("layers", "shape", "folded"), [pytest.param(*case, id=name) for name, case in CASES.items()]
)
def test_folded_graphs_give_the_same(layers, shape, folded):
  module, served = signature(layers, shape)
  frozen = freezing.freeze(served)
  x = tf.constant(np.random.RandomState(4).randn(5, *shape).astype(np.float32))
  wanted, found = served(x=x), frozen(x=x)
  assert set(found) == {"first", "second"}
  for name, tensor in wanted.items():
    scale = np.abs(tensor).max()
    np.testing.assert_allclose(found[name], tensor, atol=2e-6 * scale, err_msg=name)
  operations = collections.Counter(node.op for node in frozen.graph_def.node)
  assert frozen.folded == folded
  # Without folding there is a Mul for each norm, and one is the model's own.
  assert operations["Mul"] == (1 if folded else 2)
  assert not operations["VarHandleOp"] + operations["Rsqrt"]
  del module


def test_what_is_used_elsewhere_too_is_not_folded():
  keras.utils.set_random_seed(1)
  layer, batch_norm = conv(4)(), norm(4, "a")
  module = tf.Module()
  batch_norm(layer(tf.zeros([1, 8, 8, 3])))
  module.kept = [variable.value for part in (layer, batch_norm) for variable in part.variables]

  @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 3], tf.float32, "x")])
  def serve(x):
    y = layer(x)
    return {"before": y, "after": batch_norm(y, training=False)}

  frozen = freezing.freeze(serve.get_concrete_function())
  x = tf.constant(np.random.RandomState(4).randn(2, 8, 8, 3).astype(np.float32))
  assert frozen.folded == 0
  for name, tensor in serve(x).items():
    np.testing.assert_allclose(frozen(x=x)[name], tensor, atol=1e-5)


def test_a_scale_of_zero_is_left_where_it_would_be_divided_by():
  batch_norm = norm(3, "a")
  batch_norm.gamma.assign([1.0, 0.0, 1.0])
  _, served = signature([lambda: batch_norm, conv(4)], (8, 8, 3))
  frozen = freezing.freeze(served)
  x = tf.constant(np.random.RandomState(4).randn(2, 8, 8, 3).astype(np.float32))
  assert frozen.folded == 0
  np.testing.assert_allclose(frozen(x=x)["first"], served(x=x)["first"], atol=1e-5)
