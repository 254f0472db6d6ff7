"""A function without its variables gives what the function gives, to the bit."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.programs import functionalize, portable_operations

SPEC = tf.TensorSpec([4], tf.float32)


def loop(w, count, x):
  def body(i, total):
    w.assign(w * 0.5 + total)
    count.assign_add(1)
    return i + 1, total + tf.reduce_sum(w) * x

  return tf.while_loop(lambda i, _: i < tf.cast(w[0], tf.int32) + 3, body, (0, x))[1]


def gradient_of_a_loop(w, count, x):
  with tf.GradientTape() as tape:
    body = lambda i, y: (i + 1, tf.sin(y * w))
    y = tf.while_loop(lambda i, _: i < 3, body, (0, x), maximum_iterations=3)[1]
  w.assign_sub(0.1 * tape.gradient(y, w))
  return y


def branch(w, count, x):
  def yes():
    w.assign_add(x)
    return tf.reduce_sum(w)

  def no():
    count.assign_add(5)
    return 0.0

  return tf.cond(x[0] > 0, yes, no) + tf.cond(x[0] > 9, yes, no)


def cases(w, count, x):
  def case(number):
    return lambda: count.assign_add(number)

  tf.switch_case(tf.cast(x[1], tf.int32), [case(10), case(20), case(30)])
  return count.read_value()


def called_function(w, count, x):
  @tf.function(autograph=False)
  def inner(y):
    w.assign(w + y)
    return w.read_value() * y

  return inner(x) + inner(2 * x)


def rows(w, count, x):
  taken = tf.gather(w, [2, 0])
  w.scatter_add(tf.IndexedSlices(x[:2], tf.constant([1, 1])))
  w.scatter_update(tf.IndexedSlices(5.0 * taken, [3, 2]))
  return taken


def of_an_unknown_shape(w, count, x):
  tf.while_loop(
    lambda i: i < 3, lambda i: (w.assign(tf.boolean_mask(w + x, tf.less(w, 1e9))), i + 1)[1:], [0]
  )
  return w.read_value()


def captured_constant(w, count, x):
  return x + CONSTANT + w


CONSTANT = tf.constant(np.arange(4, dtype=np.float32))


def drawn(w, count, x):
  seed = tf.stack([tf.constant(7, tf.int64), count.read_value()])
  count.assign_add(1)
  return x + tf.random.stateless_uniform([4], seed) + tf.random.stateless_uniform([4], 2 * seed)


@pytest.mark.parametrize(
  "function",
  [
    loop,
    gradient_of_a_loop,
    branch,
    cases,
    called_function,
    rows,
    of_an_unknown_shape,
    captured_constant,
    drawn,
  ],
)
def test_the_same_results_and_the_same_variables_afterwards(function, monkeypatch):
  monkeypatch.setattr(portable_operations, "RULES", {})  # TensorFlow's own random numbers
  w = tf.Variable([1.0, 0.5, -0.25, 2.0])
  count = tf.Variable(3, dtype=tf.int64)
  traced = tf.function(lambda x: function(w, count, x), autograph=False).get_concrete_function(SPEC)
  made = functionalize.Functionalized(traced)
  first = [_read(made, index) for index in range(len(made.handles))]
  x = tf.constant([1.5, 1.0, 0.75, -3.0])
  given = tf.function(lambda values, x: made.call(values, [x]), autograph=False)
  *changed, result = given(first, x)
  for value, before in zip((_read(made, i) for i in range(len(first))), first, strict=True):
    np.testing.assert_array_equal(value, before)  # no variable has changed so far
  np.testing.assert_array_equal(result, traced(x))
  assert len(changed) == len(made.assigned)
  for index, value in zip(made.assigned, changed, strict=True):
    np.testing.assert_array_equal(value, _read(made, index))
  for index in set(range(len(first))) - set(made.assigned):
    np.testing.assert_array_equal(first[index], _read(made, index))


def _read(made, index):
  return tf.raw_ops.ReadVariableOp(resource=made.handles[index], dtype=made.specs[index].dtype)


def test_an_operation_without_a_rule_is_named_with_its_place():
  state = tf.random.Generator.from_seed(1).state
  draw = tf.raw_ops.StatefulStandardNormalV2
  function = lambda: draw(resource=state.handle, algorithm=1, shape=[2])
  traced = tf.function(function, autograph=False).get_concrete_function()
  made = functionalize.Functionalized(traced)
  with pytest.raises(
    functionalize.ImpureError, match=rf"StatefulStandardNormalV2 \({__file__}:\d+\) uses"
  ):
    tf.function(lambda values: made.call(values, []), autograph=False).get_concrete_function(
      made.specs
    )


@pytest.mark.parametrize("first", [5, -3])  # the latter carries into the counter's upper half
def test_a_generator_draws_on(first):
  generator = tf.random.Generator.from_state([first, 7, 9], alg="philox")
  function = lambda: (generator.normal([2]), generator.uniform([3]))
  traced = tf.function(function, autograph=False).get_concrete_function()
  made = functionalize.Functionalized(traced)
  given = tf.function(lambda values: made.call(values, []), autograph=False)
  after, *drawn = given([generator.state.value()])
  for found, expected in zip(drawn, traced(), strict=True):
    np.testing.assert_array_equal(found, expected)
  np.testing.assert_array_equal(after, generator.state)


def test_operations_are_found_by_the_names_that_errors_have():
  w = tf.Variable(1.0)

  def function(x):
    with tf.name_scope("inner"):
      return tf.sin(x, name="sine") * w

  made = functionalize.Functionalized(
    tf.function(function, autograph=False).get_concrete_function(SPEC)
  )
  tf.function(made.call, autograph=False).get_concrete_function(made.specs, [SPEC])
  assert made.operations["inner/sine"].type == "Sin"
