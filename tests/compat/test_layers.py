"""Layers and cells give what TensorFlow 2.15 gave, in variables of the same names."""

import json
import pathlib
import types

import pytest

import trainer.compat.v1 as tf
from tests import warm
from tests.compat import cases_2_15
from trainer.compat.v1 import layers
from trainer.compat.v1.contrib import framework, slim
from trainer.compat.v1.contrib import layers as contrib_layers

VALUES = json.loads(pathlib.Path(__file__).with_name("values_2_15.json").read_text())

NAMESPACE = types.SimpleNamespace(
  tf=tf,
  layers=layers,
  contrib=contrib_layers,
  slim=slim,
  rnn=tf.nn.rnn_cell,
  arg_scope=framework.arg_scope,
)


@pytest.mark.parametrize("name", cases_2_15.CASES)
def test_as_in_2_15(name):
  found, wanted = cases_2_15.run(NAMESPACE, cases_2_15.CASES[name]), VALUES[name]
  assert found["names"] == wanted["names"]
  assert found["trainable"] == wanted["trainable"]
  for one, other in zip(
    [found["output"], *found["after"]], [wanted["output"], *wanted["after"]], strict=True
  ):
    assert one[0] == other[0]
    assert one[1:] == pytest.approx(other[1:], rel=1e-4, abs=1e-5)


def test_a_class_of_keras_and_tf_layers_needs_no_other_layer():
  """As in EfficientNet, whose file uses no other name of tf.layers before this class."""
  code = """
import trainer.compat.v1 as tf
class Depthwise(tf.keras.layers.DepthwiseConv2D, tf.layers.Layer):
  pass
print(Depthwise.__mro__[1].__module__)
"""
  done = warm.run("-c", code)
  assert (done.returncode, done.stdout) == (0, "trainer.compat.layers.legacy\n"), done.stderr
