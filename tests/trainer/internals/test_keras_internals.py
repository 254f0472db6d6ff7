"""The installed Keras has what Octet needs of it, and it does what is written of it."""

import keras
import numpy as np
import tensorflow as tf

from tests.trainer.internals import names_asked_for

# Before the file itself is imported, which fails where anything is missing.
MISSING = names_asked_for.missing("keras_internals.py")
if not MISSING:
  from trainer.internals import keras_internals


def test_nothing_is_missing_in_this_version():
  assert MISSING == []
  assert len(names_asked_for.paths("keras_internals.py")) > 10


def test_losses_are_divided_from_version_3_8_on():
  version = tuple(map(int, keras.__version__.split(".")[:2]))
  assert (keras_internals.SCALE_LOSS is not None) == (version >= (3, 8))


def test_global_state_is_set_and_put_back():
  names = {"object_name_uids": None}
  before = keras.layers.Dense(1).name
  with keras_internals.global_state(names):
    assert keras.layers.Dense(1).name == "dense"
  assert keras.layers.Dense(1).name not in ("dense", before)


def test_which_initializers_lack_a_seed():
  assert keras_internals.lacks_seed(keras.initializers.GlorotUniform())
  assert not keras_internals.lacks_seed(keras.initializers.GlorotUniform(seed=3))
  assert not keras_internals.lacks_seed(keras.initializers.Zeros())
  assert not keras_internals.lacks_seed(tf.zeros)


def test_seeds_of_generators_and_of_operations():
  assert keras_internals.initial_seed(keras.random.SeedGenerator(5)) == 5
  assert keras_internals.draw_seed(7).numpy().tolist() == [7, 0]
  assert keras_internals.draw_seed(keras.random.SeedGenerator(5)).dtype == tf.int32


def test_adam_averages_are_of_the_gradient_and_its_square():
  variable = keras.Variable([1.0])
  optimizer = keras.optimizers.Adam(beta_1=0.5, beta_2=0.75)
  optimizer.apply_gradients([(tf.constant([2.0]), variable)])
  found = [average.numpy() for average in keras_internals.averages(optimizer, variable)]
  np.testing.assert_allclose(found, [[1.0], [1.0]])


def test_whose_moments_a_layer_has():
  class Own(keras.layers.BatchNormalization):
    def _moments(self, inputs, mask):
      return super()._moments(inputs, mask)

  assert keras_internals.has_own_moments(keras.layers.BatchNormalization())
  assert not keras_internals.has_own_moments(Own())
  assert not keras_internals.renormalizes(keras.layers.BatchNormalization())


def test_a_model_gets_a_loss_and_tells_its_metrics():
  model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, kernel_initializer="ones")])
  assert keras_internals.compiled_metrics(model) == (None, None)
  keras_internals.set_loss(model, "mse", None)
  x, y = tf.constant([[1.0], [2.0]]), tf.constant([[1.0], [4.0]])
  assert float(model.compute_loss(x, y, model(x))) == 2.0
  model.compile(loss="mse", metrics=["mae"])
  assert keras_internals.compiled_metrics(model) == (["mae"], None)
  metrics = keras_internals.updated_metrics(["mae"], None, y, model(x), None, None)
  assert {name: float(metric.result()) for name, metric in metrics.items()} == {"mae": 1.0}


def test_keras_scope_opens_the_given_tensorflow_scope():
  with tf.Graph().as_default(), tf.name_scope("outer"):
    scope = keras.name_scope("inner")
    keras_internals.set_scope_of_tensorflow(scope, "other/")
    with scope:
      assert tf.get_current_name_scope() == "other"
    assert tf.get_current_name_scope() == "outer"
