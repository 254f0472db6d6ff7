"""ParaDnn's families train, have the sizes that their numbers say, and the recurrent ones have
no loop.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import paradnn
from tests import long
from tests.models import small_runs
from trainer import errors

LABELS = (np.arange(small_runs.EXAMPLES) % 5).astype(np.int32)
VECTOR = {"vector": np.random.RandomState(0).randn(small_runs.EXAMPLES, 12).astype(np.float32)}
# Each token is followed by the next number.
TOKENS = {"tokens": ((np.arange(small_runs.EXAMPLES)[:, None] + np.arange(6)) % 7).astype(np.int32)}

small = functools.partial(
  paradnn.model_fn,
  layers=1,
  units=8,
  classes=5,
  vocabulary_size=7,
  blocks=(1, 1),
  filters=4,
  optimizer=functools.partial(keras.optimizers.Adam, 0.01),
)


def _features(family):
  if family in ("rnn", "lstm", "gru"):
    return TOKENS
  return (
    VECTOR
    if family == "fully_connected"
    else {"image": small_runs.images(16, classes=5)[0]["image"]}
  )


@pytest.mark.parametrize("family", long.except_for(["fully_connected"], paradnn.FAMILIES))
def test_trains_and_serves(tmp_path, family):
  # Whose batch norm has next to no statistics after so few steps.
  convolutional = family in ("residual", "bottleneck")
  small_runs.check(
    functools.partial(small, family=family),
    _features(family),
    LABELS,
    tmp_path,
    steps=6,
    falls=not convolutional,
  )


def test_a_recurrent_network_learns_what_follows(tmp_path):
  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(TOKENS).batch(params["batch_size"])

  model_fn = functools.partial(
    small, family="rnn", layers=1, optimizer=functools.partial(keras.optimizers.Adam, 0.05)
  )
  estimator = small_runs.trained(model_fn, TOKENS, LABELS, tmp_path, steps=80)
  predicted = [prediction["class"] for prediction in estimator.predict(input_fn)]
  np.testing.assert_array_equal(predicted, TOKENS["tokens"][:, 1:])


@pytest.mark.parametrize(
  "family, layers, units, expected",
  [
    ("fully_connected", 3, 10, (12 + 1) * 10 + 2 * (10 + 1) * 10 + (10 + 1) * 5),
    ("rnn", 2, 6, 7 * 6 + 2 * (6 + 6 + 1) * 6 + (6 + 1) * 7),
    ("lstm", 2, 6, 7 * 6 + 2 * 4 * (6 + 6 + 1) * 6 + (6 + 1) * 7),
    ("gru", 1, 6, 7 * 6 + 3 * (6 + 6 + 2) * 6 + (6 + 1) * 7),
  ],
)
def test_width_and_depth_are_what_they_say(family, layers, units, expected):
  graph = _graph(
    functools.partial(small, family=family, layers=layers, units=units), _features(family)
  )
  assert _parameters(graph) == expected


@pytest.mark.parametrize(
  "family, blocks, expected",
  [("residual", (2, 2, 2, 2), 11_689_512), ("bottleneck", (3, 4, 6, 3), 25_557_032)],
)
def test_resnets_have_their_known_sizes(family, blocks, expected):
  """As torchvision documents resnet18 and resnet50."""
  image = {"image": np.zeros((small_runs.EXAMPLES, 32, 32, 3), np.float32)}
  assert (
    _parameters(
      _graph(
        functools.partial(small, family=family, blocks=blocks, filters=64, classes=1000), image
      )
    )
    == expected
  )


@pytest.mark.parametrize("family", ["rnn", "lstm", "gru"])
def test_recurrent_networks_are_unrolled(family):
  graph, _ = _graph(functools.partial(small, family=family), TOKENS)
  assert not [
    operation.type
    for operation in graph.get_operations()
    if operation.type in ("While", "StatelessWhile", "TensorListReserve")
  ]


@pytest.mark.parametrize(
  "settings, features, message",
  [
    (dict(family="cnn"), VECTOR, "family is 'cnn'; expected one of fully_connected, residual"),
    (dict(family="lstm"), VECTOR, r"'lstm' needs features\['tokens'\]; the input_fn gives vector"),
  ],
)
def test_mistakes_are_named(settings, features, message):
  with pytest.raises(errors.SettingError, match=message):
    small(features, LABELS, trainer.ModeKeys.PREDICT, {}, **settings)


def _graph(model_fn, features):
  """(graph, variables) of a prediction."""
  graph = tf.Graph()
  made = []

  def creator(next_creator, **kwargs):
    made.append(next_creator(**kwargs))
    return made[-1]

  with graph.as_default(), tf.variable_creator_scope(creator):
    placeholders = {
      name: tf.compat.v1.placeholder(array.dtype, array.shape) for name, array in features.items()
    }
    model_fn(placeholders, None, trainer.ModeKeys.PREDICT, {})
  return graph, made


def _parameters(graph_and_variables):
  return sum(
    int(np.prod(variable.shape)) for variable in graph_and_variables[1] if variable.trainable
  )
