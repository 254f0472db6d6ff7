"""Operations of a graph and of the functions that it calls, with their places in a program."""

import pathlib

import tensorflow as tf

from trainer.programs import graph_operations


@tf.function
def inner(x):
  return tf.math.sin(x)


@tf.function(input_signature=[tf.TensorSpec([])])
def outer(x):
  _, y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.math.cos(y)), [0, x])
  return inner(y) + inner(x)


GRAPH = outer.get_concrete_function().graph


def test_the_walk_enters_each_called_function_once():
  types = [operation.type for operation in graph_operations.walk(GRAPH)]
  assert (types.count("Cos"), types.count("Sin")) == (1, 1)
  assert types.index("AddV2") < types.index("Cos")  # a graph comes before its functions


def test_functions_that_were_seen_are_left_out():
  [loop] = [each for each in GRAPH.get_operations() if each.type.endswith("While")]
  seen = set()
  assert len(graph_operations.called_graphs(loop, seen)) == 2  # the condition and the body
  assert graph_operations.called_graphs(loop, seen) == []


def test_an_operation_has_the_line_of_the_program():
  [cos] = [each for each in graph_operations.walk(GRAPH) if each.type == "Cos"]
  lines = pathlib.Path(__file__).read_text().splitlines()
  line = next(number for number, text in enumerate(lines, 1) if "tf.math.cos" in text)
  assert graph_operations.place_of(cos) == f"{__file__}:{line}"
