"""The outer loop in plain Python, around device loops that a test makes up."""

import itertools
import math

import pytest
import tensorflow as tf

from tests import long
from tests.trainer import programs
from trainer.loop import outer_loop


def lengths(length, start, final, seconds_per_step=0.0):
  """The steps at which loops end."""
  ends = []
  while start < final:
    steps = length(start, final)
    length.took(steps, steps * seconds_per_step)
    start += steps
    ends.append(start)
  return ends


SCHEDULES = [
  (4, 0, 10, [4, 8, 10]),
  (4, 3, 13, [7, 11, 13]),
  (4, 3, 10, [7, 10]),
  (40, 0, 12, [12]),
  (1, 5, 8, [6, 7, 8]),
]


@pytest.mark.parametrize("k, start, final, ends", SCHEDULES)
def test_a_fixed_length_is_shortened_at_the_end_only(k, start, final, ends):
  assert (
    lengths(outer_loop.LoopLength(k, cadences=(3,)), start, final, seconds_per_step=100.0) == ends
  )


def test_by_default_loops_grow_and_stop_at_every_cadence():
  ends = lengths(outer_loop.LoopLength(None, cadences=(10, 25)), 0, 100)
  assert ends[:3] == [1, 3, 7]
  assert {10, 20, 25, 30, 40, 50, 60, 70, 75, 80, 90, 100} <= set(ends)
  assert ends[-9:] == [30, 40, 50, 60, 70, 75, 80, 90, 100]


def test_by_default_a_loop_takes_no_longer_than_patience():
  length = outer_loop.LoopLength(None, patience_seconds=10.0)
  ends = lengths(length, 0, 100, seconds_per_step=1.0)
  assert max(end - start for start, end in zip([0, *ends], ends, strict=False)) == 10


def test_a_step_that_takes_longer_than_patience_is_a_loop():
  assert lengths(outer_loop.LoopLength(None), 0, 3, seconds_per_step=60.0) == [1, 2, 3]


def test_a_time_is_the_length_of_a_loop_whatever_the_cadences():
  ends = lengths(outer_loop.LoopLength("30s", cadences=(7,)), 0, 1000, seconds_per_step=0.5)
  assert ends[:6] == [1, 3, 7, 15, 31, 63]
  assert {end - start for start, end in itertools.pairwise(ends[6:-1])} == {60}


def test_a_timed_loop_becomes_shorter_when_steps_become_slower():
  length = outer_loop.LoopLength("10s")
  length.took(100, 1.0)
  assert length(0, 10**6) == 200
  length.took(200, 100.0)
  assert length(0, 10**6) == 20


class Device:
  """Stands for the device loop: counts steps, and has input for `batches` of them."""

  def __init__(self, batches=10**9):
    self.left = batches
    self.asked = []

  def __call__(self, steps):
    self.asked.append(steps)
    done = min(steps, self.left)
    self.left -= done
    values = dict(
      loss=0.5, steps=done, non_finite_step=-1, input_seconds=0.25, scalars={"rate": 0.125}
    )
    return tf.nest.map_structure(tf.constant, values)


def test_train_runs_loops_and_tells_of_each():
  results, seconds = [], iter([0.0, 1.0, 5.0, 7.0, 7.0, 7.5])
  reached = outer_loop.train(
    Device(),
    3,
    10,
    outer_loop.LoopLength(3),
    lambda result: results.append(result),
    clock=lambda: next(seconds),
  )
  assert reached == (10, False)
  assert [(result.step, result.steps, result.seconds) for result in results] == [
    (6, 3, 1.0),
    (9, 3, 2.0),
    (10, 1, 0.5),
  ]
  assert results[0] == outer_loop.LoopResult(6, 3, 1.0, 0.5, -1, 0.25, {"rate": 0.125}, False)


def test_train_at_its_end_runs_nothing():
  device = Device()
  assert outer_loop.train(device, 10, 10, outer_loop.LoopLength(3), None) == (10, False)
  assert device.asked == []


def test_train_stops_where_it_is_asked_to():
  assert outer_loop.train(
    Device(), 0, 100, outer_loop.LoopLength(4), lambda result: result.step >= 6
  ) == (8, False)


@pytest.mark.parametrize("batches, told", [(6, [4, 6]), (8, [4, 8]), (0, [])])
def test_input_that_ends(batches, told):
  results = []
  assert outer_loop.train(
    Device(batches), 0, 100, outer_loop.LoopLength(4), lambda result: results.append(result)
  ) == (batches, True)
  assert [result.step for result in results] == told
  assert results == [] or results[-1].exhausted == (batches % 4 != 0)


def test_loops_learn_from_the_clock():
  """One step takes 2 s: loops of "8s" come to 4 steps."""
  device, now, length = Device(), [0.0], outer_loop.LoopLength("8s")

  def run_loop(steps):
    now[0] += 2.0 * steps
    return device(steps)

  outer_loop.train(
    run_loop,
    0,
    20,
    length,
    lambda result: length.took(result.steps, result.seconds),
    clock=lambda: now[0],
  )
  assert device.asked == [1, 2, 4, 4, 4, 4, 1]


# ------------------------------------------------------------- on the device


def test_hooks_are_called_after_each_loop(tmp_path):
  estimator = programs.estimator(tmp_path, **programs.fixed_loops(4))
  for arguments, steps in [
    ({"steps": 3}, [3]),
    ({"steps": 10}, [7, 11, 13]),
    ({"max_steps": 20}, [17, 20]),
    ({"max_steps": 20}, []),
  ]:
    seen = []
    hook = lambda step, metrics, _, seen=seen: seen.append(step)
    estimator.train(programs.train_input, hooks=[hook], **arguments)
    assert seen == steps
    assert estimator.traces["train"] == 1


@long.ON_TWO_CORES
def test_the_loss_of_a_loop_is_the_mean_over_its_steps(tmp_path, device):
  def losses(name, steps):
    seen = []
    programs.estimator(tmp_path / name, device=device, **programs.fixed_loops(steps)).train(
      programs.train_input, steps=4, hooks=[lambda step, metrics, _: seen.append(metrics["loss"])]
    )
    return seen

  single, together = losses("single", 1), losses("together", 4)
  assert len(single) == 4
  assert len(together) == 1
  assert together[0] == pytest.approx(math.fsum(single) / 4, rel=1e-5)


# ------------------------------------------------------------------ the wait for input


@pytest.mark.of_tensorflows_replicas
def test_no_replica_works_before_the_end_of_the_wait_is_noted(tmp_path, device):
  """Else the note itself would wait for a free thread, and the replicas' work would pass for
  the input's.
  """
  estimator = programs.estimator(tmp_path, device=device)
  traced = estimator.trace("train", programs.train_input).traced.function
  (while_loop,) = (
    operation for operation in traced.graph.get_operations() if operation.type == "While"
  )
  body = while_loop.graph._get_function(while_loop.get_attr("body").name).graph
  clocks = [operation for operation in body.get_operations() if operation.type == "Timestamp"]
  batches = [
    operation for operation in body.get_operations() if operation.type == "IteratorGetNext"
  ]
  assert len(batches) == estimator.device.replicas

  def after_the_note(operation):
    return any(clock in clocks for clock in operation.control_inputs)

  def working(tensor):
    """The operations that make something of a batch, its copies followed."""
    for operation in tensor.consumers():
      if operation.type == "Identity" and not after_the_note(operation):
        yield from working(operation.outputs[0])
      else:
        yield operation

  users = [
    operation for batch in batches for tensor in batch.outputs for operation in working(tensor)
  ]
  assert len(users) >= 2 * estimator.device.replicas
  assert all(after_the_note(operation) for operation in users)


@pytest.mark.parametrize(
  ("input_fn", "says"), [(programs.train_input, 1), (programs.batches(9), 0)]
)
def test_a_training_without_an_end_says_so_once(tmp_path, caplog, input_fn, says):
  estimator = programs.estimator(tmp_path)
  with caplog.at_level("WARNING", logger="absl"):
    estimator.train(input_fn, hooks=[lambda step, metrics, estimator: step >= 2])
    estimator.train(input_fn, steps=1)
  assert caplog.text.count("This training has no end") == says
