"""A training loop in one call of the device: its steps, its loss, and the end of its input.

The steps are a program's in its place, which has no model.
"""

import types

import numpy as np
import pytest
import tensorflow as tf

from trainer.internals import tensorflow_internals
from trainer.programs import host_call, train_loop


class Program:
  """Steps whose loss is the mean of the replicas' batches."""

  def __init__(self, check=lambda loss: ()):
    self.global_step = tf.Variable(10, dtype=tf.int64)
    self.newest = tf.Variable(0.0)
    self.check = check
    self.host_fn = None

  def run_step(self, kind, batches):
    loss = tf.add_n([batch[0] for batch in batches]) / len(batches)
    with tf.control_dependencies(self.check(loss)):
      self.newest.assign(loss)
    traced = types.SimpleNamespace(host_fn=self.host_fn, scalars={"newest": self.newest})
    return (loss, [loss]), traced


def traced_for(values, program, replicas=1, is_one_cpu=True, is_endless=False):
  """(the traced loop, its iterator) over batches of these values."""
  dataset = tf.data.Dataset.from_tensor_slices(np.float32(values)).map(lambda value: (value,))
  if is_endless:
    dataset = dataset.repeat()
  loop = train_loop.TrainLoop(program, replicas, is_one_cpu, host_call.HostCall(1))
  traced = loop.trace(dataset.element_spec, is_endless)
  return traced, traced.read(dataset)


def numbers(result):
  return {name: float(result[name]) for name in ("loss", "steps", "non_finite_step")}


@pytest.mark.parametrize(("is_one_cpu", "is_endless"), [(True, True), (False, False)])
def test_a_loop_takes_the_batches_after_those_of_the_last(is_one_cpu, is_endless):
  program = Program()
  traced, iterator = traced_for([1, 2, 3, 6], program, 1, is_one_cpu, is_endless)
  first, second = traced.run(iterator, 3), traced.run(iterator, 1)
  assert numbers(first) == {"loss": 2.0, "steps": 3, "non_finite_step": -1}
  assert numbers(second) == {"loss": 6.0, "steps": 1, "non_finite_step": -1}
  assert int(program.global_step) == 14
  assert float(second["scalars"]["newest"]) == 6.0
  assert first["input_seconds"] >= 0


@pytest.mark.parametrize(("replicas", "steps", "loss"), [(1, 5, 3.0), (2, 2, 2.5)])
def test_a_step_needs_a_batch_for_each_replica(replicas, steps, loss):
  program = Program()
  traced, iterator = traced_for([1, 2, 3, 4, 5], program, replicas, is_one_cpu=replicas == 1)
  assert numbers(traced.run(iterator, 9)) == {"loss": loss, "steps": steps, "non_finite_step": -1}
  assert numbers(traced.run(iterator, 9)) == {"loss": 0.0, "steps": 0, "non_finite_step": -1}
  assert int(program.global_step) == 10 + steps


def test_the_first_loss_that_is_not_finite_has_its_global_step():
  program = Program()
  traced, iterator = traced_for([1, np.nan, 1, np.inf, np.nan, 1, 1, 1, -np.inf], program)
  found = [int(traced.run(iterator, 3)["non_finite_step"]) for _ in range(3)]
  assert found == [12, 14, 19]


def test_a_long_loop_loses_no_small_loss():
  traced, iterator = traced_for([2.0**25, 1, 1, 1], Program())
  assert float(traced.run(iterator, 4)["loss"]) == np.float32((2.0**25 + 3) / 4)


def test_the_host_call_gets_the_number_of_its_step():
  seen = []
  program = Program()
  program.host_fn = lambda loss: tf.numpy_function(
    lambda *pair: seen.append([float(each) for each in pair]), [program.global_step, loss], []
  )
  traced, iterator = traced_for([1, 2], program)
  traced.run(iterator, 2)
  assert seen == [[10, 1], [11, 2]]  # the count comes after the call


def refuse_five(value):
  with tf.control_dependencies([tf.debugging.assert_none_equal(value, 5.0, message="a five")]):
    return (tf.identity(value),)


def test_an_error_of_the_input_is_not_one_of_the_step():
  for_input = tf.data.Dataset.from_tensor_slices(np.float32([1, 5])).map(refuse_five).repeat()
  loop = train_loop.TrainLoop(Program(), 1, True, host_call.HostCall(1))
  traced = loop.trace(for_input.element_spec, is_endless=True)
  with pytest.raises(tf.errors.InvalidArgumentError, match="a five"):
    traced.run(traced.read(for_input), 2)
  assert traced.failed_in_input() is True

  # An assertion would be no light step, which one thread runs.
  program = Program(check=lambda loss: [tf.debugging.check_numerics(loss, "no number")])
  traced, iterator = traced_for([1, np.nan], program, is_endless=True)
  with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
    traced.run(iterator, 2)
  assert traced.failed_in_input() is False


def test_several_threads_cannot_tell_where_an_error_came_from():
  traced, _ = traced_for([1], Program(), is_one_cpu=False)
  assert traced.failed_in_input() is None


@pytest.mark.parametrize("is_one_cpu", [True, False])
@pytest.mark.parametrize("is_endless", [True, False])
def test_the_clock_is_read_before_a_batch_is_asked_for(is_one_cpu, is_endless):
  traced, _ = traced_for([1, 2], Program(), 1 if is_one_cpu else 2, is_one_cpu, is_endless)
  (loop,) = (each for each in traced.function.graph.get_operations() if "While" in each.type)
  body = tensorflow_internals.function_named(traced.function.graph, loop.get_attr("body").name)
  requests = [
    each for each in body.graph.get_operations() if each.type.startswith("IteratorGetNext")
  ]
  assert len(requests) == (1 if is_one_cpu else 2)
  for request in requests:
    assert "Timestamp" in [each.type for each in request.control_inputs]
