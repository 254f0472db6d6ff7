"""The function of a host_call, with the tensors of the scheduled steps."""

import pytest
import tensorflow as tf

from trainer.programs import host_call


def seen_by(every, tensors):
  """The arguments of the calls in seven steps."""
  seen = []
  host = host_call.HostCall(every)

  def note(x, y):
    tf.numpy_function(lambda *values: seen.append([float(value) for value in values]), [x, y], [])

  @tf.function(autograph=False)
  def step(number):
    host.add(note, number, tensors(tf.cast(number, tf.float32)))

  for number in range(1, 8):
    step(tf.constant(number, tf.int64))
  return seen


@pytest.mark.parametrize(("every", "steps"), [(1, range(1, 8)), (3, [3, 6]), (8, [])])
def test_the_function_gets_the_tensors_of_due_steps(every, steps):
  assert seen_by(every, lambda x: [x, 2 * x]) == [[x, 2 * x] for x in steps]


def test_a_dict_is_passed_by_name():
  assert seen_by(3, lambda x: {"y": 2 * x, "x": x}) == [[3, 6], [6, 12]]


def test_without_a_function_nothing_is_added():
  graph = tf.Graph()
  with graph.as_default():
    host_call.HostCall(2).add(None, tf.constant(1, tf.int64), [])
  assert [operation.type for operation in graph.get_operations()] == ["Const"]


def test_writers_of_the_function_live_as_long_as_the_loop(tmp_path):
  host = host_call.HostCall(1)

  def write(x):
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(step=1):
      tf.summary.scalar("x", x[0])

  tf.function(
    lambda x: host.add(write, tf.constant(1, tf.int64), [x]), autograph=False
  ).get_concrete_function(tf.TensorSpec([1], tf.float32))
  assert len(host.writers) == 1
