"""A digest is of what a program computes, whatever TensorFlow calls its functions."""

import pytest
import tensorflow as tf

from trainer.programs import graph_digest

SPEC = tf.TensorSpec([4, 3])
VARIABLE = tf.Variable(tf.ones([3]), name="kernel")


def traced(function, *specs):
  return tf.function(function, autograph=False).get_concrete_function(*(specs or [SPEC]))


def loop(times=3, factor=2.0):
  """A loop with a branch, a called function and a gradient inside."""

  @tf.custom_gradient
  def doubled(x):
    return factor * x, lambda upstream: factor * upstream

  def body(i, x):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = tf.cond(i > 1, lambda: doubled(x), lambda: x + VARIABLE)
    return i + 1, y + tape.gradient(y, x)

  return lambda x: tf.while_loop(lambda i, _: i < times, body, [0, x])[1]


def test_the_numbers_of_functions_do_not_count():
  first = graph_digest.of(traced(loop()))
  traced(loop(5))  # TensorFlow counts on
  again = traced(loop())
  names = str(again.graph.as_graph_def())
  assert graph_digest.of(again) == first
  assert names != str(traced(loop()).graph.as_graph_def())


@pytest.mark.parametrize(
  "other",
  [
    traced(loop(times=4)),
    traced(loop(factor=3.0)),
    traced(loop(), tf.TensorSpec([5, 3])),
    traced(lambda x: loop()(x) + 1.0),
    traced(lambda x: (loop()(x), x)),
  ],
  ids=["condition", "body", "shape", "more", "results"],
)
def test_what_is_computed_counts(other):
  assert graph_digest.of(other) != graph_digest.of(traced(loop()))


def test_the_order_of_operands_and_of_arguments_counts():
  found = [
    graph_digest.of(traced(function, SPEC, SPEC))
    for function in (lambda x, y: x - y, lambda x, y: y - x, lambda y, x: y - x)
  ]
  assert found[0] != found[1]
  assert found[0] == found[2]


def test_the_values_of_captured_tensors_count():
  def digest(values):
    table = tf.constant(values)
    return graph_digest.of(traced(lambda x: x * table))

  digests = [digest(values) for values in ([1.0, 2, 3], [1.0, 2, 4], [1.0, 2, 3])]
  assert digests[0] == digests[2] != digests[1]


def test_what_else_it_depends_on_counts():
  function = traced(loop())
  assert graph_digest.of(function, 8) != graph_digest.of(function, 4)
