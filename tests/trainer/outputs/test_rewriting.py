"""A GraphDef is rewritten: identities and constants go, and what is left is what outputs need."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.outputs import rewriting


@pytest.fixture
def graph():
  with tf.Graph().as_default() as made:
    x = tf.compat.v1.placeholder(tf.float32, [None, 2], name="x")
    scale = tf.add(tf.constant([1.0, 2.0], name="one"), tf.constant(1.0, name="two"), name="sum")
    between = tf.identity(tf.multiply(x, scale, name="product"), name="between")
    tf.negative(between, name="unused")
    tf.add(between, 0.5, name="y")
  return rewriting.Graph(made.as_graph_def(), ["x:0"], ["y:0"])


def test_identities_are_skipped_and_unused_nodes_pruned(graph):
  assert "between" not in graph.nodes
  assert graph.nodes["y"].input[0] == "product"
  names = {node.name for node in graph.prune().node}
  assert "unused" not in names
  assert names >= {"x", "sum", "product", "y"}


def test_operations_on_constants_become_constants(graph):
  graph.compute_constants()
  name = graph.nodes["product"].input[1]
  np.testing.assert_array_equal(graph.value(name), [2.0, 3.0])
  assert "sum" not in {node.name for node in graph.prune().node}


def test_a_constant_gets_a_free_name_and_replaces_a_tensor(graph):
  name = graph.add_constant("one", np.float32([5.0, 6.0]))
  assert name == "one_"
  graph.replace("sum", name)
  assert graph.nodes["product"].input[1] == "one_"
  assert graph.value("x") is None


def test_a_node_is_used_once_unless_it_is_an_output(graph):
  assert graph.is_used_once(graph.nodes["sum"])
  assert not graph.is_used_once(graph.nodes["product"])  # by `y` and by `unused`
  assert not graph.is_used_once(graph.nodes["y"])


def test_ranks_are_inferred_or_given(graph):
  assert (graph.rank("product:0"), graph.rank("no such node")) == (2, None)
  graph.add_node(tf.compat.v1.NodeDef(name="more", op="Relu"), rank=4)
  assert graph.rank("more") == 4
