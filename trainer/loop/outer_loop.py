"""The outer loop in plain Python: it chooses the length of each device loop, and runs it."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import run_config


@dataclasses.dataclass
class LoopLength:
  """The number of steps in the next device loop.

  The choice changes no numbers, only the steps of the hooks' calls.

  Args:
    iterations_per_loop: see run_config.TPUConfig.
    cadences: numbers of steps; without iterations_per_loop, a loop ends at each multiple of them.
    next_steps: functions of a step that return the next step at which a loop must end, or None;
      without iterations_per_loop.
  """

  iterations_per_loop: int | str | None
  cadences: tuple[int, ...] = ()
  next_steps: tuple = ()
  # If Octet chooses the length, a loop must not delay Ctrl-C, a progress bar or a time-based
  # checkpoint for longer.
  patience_seconds: float = 10.0
  _length: int = 1

  def __call__(self, step: int, final_step: int) -> int:
    """Steps in the loop that starts at `step`."""
    left = final_step - step
    loop = self.iterations_per_loop
    if loop is not None and not isinstance(loop, str):  # an int, also one of numpy's
      return min(loop, left)
    length = min(self._length, left)
    if self.iterations_per_loop is None:
      ends = [ask(step) for ask in self.next_steps]
      length = min(
        [length]
        + [cadence - step % cadence for cadence in self.cadences]
        + [end - step for end in ends if end is not None]
      )
    return length

  def took(self, steps: int, seconds: float) -> None:
    """Learns from a loop: twice its length next time, until a loop takes as long as it may."""
    loop = self.iterations_per_loop
    if loop is not None and not isinstance(loop, str):
      return
    limit = self.patience_seconds
    if loop is not None:
      limit = run_config.seconds_of(loop, "iterations_per_loop", "steps")
    fits = int(limit * steps / max(seconds, 1e-9))
    self._length = max(1, min(2 * max(self._length, steps), fits))


@dataclasses.dataclass(frozen=True)
class LoopResult:
  """What a loop did: see train_loop.TracedLoop.run; on the host, with its wall-clock seconds."""

  step: int
  steps: int
  seconds: float
  loss: float
  non_finite_step: int
  input_seconds: float
  scalars: dict[str, float]
  exhausted: bool


def train(
  run_loop: Callable[[int], dict[str, Any]],
  step: int,
  final_step: int,
  loop_length: Callable[[int, int], int],
  after_loop: Callable[[LoopResult], bool],
  clock: Callable[[], float] = time.monotonic,
) -> tuple[int, bool]:
  """Trains from `step` to `final_step`, or until the input ends or after_loop returns true.

  Args:
    run_loop: function of a number of steps that runs the device loop and returns the result of
      train_loop.TracedLoop.run.
    step: the first global step.
    final_step: the last global step.
    loop_length: function of the step and final_step that returns the length of the next loop.
    after_loop: called with the LoopResult of each loop; returns whether to stop.
    clock: seconds.

  Returns:
    (step, exhausted): the last step, and whether the input ended before final_step.
  """
  while step < final_step:
    wanted = loop_length(step, final_step)
    start = clock()
    result = tf.nest.map_structure(lambda tensor: tensor.numpy(), run_loop(wanted))
    seconds = clock() - start
    done = int(result["steps"])
    step += done
    exhausted = done < wanted
    if done:
      scalars = {tag: float(value) for tag, value in result["scalars"].items()}
      stop = after_loop(
        LoopResult(
          step,
          done,
          seconds,
          float(result["loss"]),
          int(result["non_finite_step"]),
          float(result["input_seconds"]),
          scalars,
          exhausted,
        )
      )
      if stop:
        return step, False
    if exhausted:
      return step, True
  return step, False
