"""What the engine ONNX Runtime changes before and after the conversion; `test_choose` converts."""

import logging
import types

import numpy as np
import pytest
import tensorflow as tf

from trainer.outputs import engines


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_erfc_becomes_operations_with_the_same_values(dtype):
  with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(dtype, [None], name="x")
    tf.identity(tf.math.erfc(x) + tf.math.erfc(2 * x), name="y")
  before = graph.as_graph_def()
  after = engines._without_erfc(before)
  values = np.linspace(-3, 3, 13)
  results = []
  for graph_def in (before, after):
    with tf.Graph().as_default() as made, tf.compat.v1.Session() as session:
      tf.import_graph_def(graph_def, name="")
      results.append(session.run("y:0", {"x:0": values}))
    operations = {node.op for node in made.as_graph_def().node}
    assert ("Erfc" in operations) is (graph_def is before)
  np.testing.assert_allclose(*results, atol=1e-6)


def node(inputs, outputs):
  return types.SimpleNamespace(input=list(inputs), output=list(outputs))


def test_inputs_and_outputs_get_their_names_everywhere():
  graph = types.SimpleNamespace(
    node=[node(["x:0", "w"], ["y"]), node(["y"], ["Identity:0"]), node(["x:0"], ["x/inside"])]
  )
  inputs = [types.SimpleNamespace(name="x:0")]
  outputs = [types.SimpleNamespace(name="Identity:0")]
  engines._rename(graph, inputs, {"x:0": "image"})
  # A tensor inside of the graph is called "y" already.
  engines._rename(graph, outputs, {"Identity:0": "y"})
  assert [each.name for each in (*inputs, *outputs)] == ["image", "y"]
  assert [(each.input, each.output) for each in graph.node] == [
    (["image", "w"], ["y/inside"]),
    (["y/inside"], ["y"]),
    (["image"], ["x/inside"]),
  ]


def test_a_right_name_stays():
  graph = types.SimpleNamespace(node=[node(["x"], ["y"])])
  engines._rename(graph, [types.SimpleNamespace(name="x")], {"x": "x"})
  assert (graph.node[0].input, graph.node[0].output) == (["x"], ["y"])


@pytest.mark.parametrize(
  ("message", "arguments", "is_shown"),
  [
    ("%s is deprecated", ("tf2onnx.tf_loader",), False),
    ("%s is deprecated", ("extract_sub_graph",), False),
    ("%s is deprecated", ("my_module",), True),
    ("100 %", None, True),
  ],
)
def test_only_messages_about_the_converter_are_hidden(message, arguments, is_shown):
  record = logging.LogRecord("tensorflow", 30, "", 1, message, arguments, None)
  assert engines._is_ours(record) is is_shown
