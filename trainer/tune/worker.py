"""Times a training with one batch size, in a process of its own.

`batch_sizes` starts it by `processes.ask`. When the process ends, the memory of a batch that does
not fit is free again.
"""

import dataclasses
import statistics
from typing import Any

from trainer import errors
from trainer.cli import processes
from trainer.compare import results, worker
from trainer.tune import memory

# Loops of steps in the time of a batch size: enough that most are undisturbed.
_LOOPS = 10
_SECONDS = 2.0  # How long to train with a batch size.


def answer(request: dict[str, Any]) -> dict[str, Any]:
  """Returns the fields of a batch_sizes.Measured, except the size."""
  memory.end_beyond(request["limit_bytes"])
  try:
    return _measure(request)
  # Every failure is a row of the table; the search goes on.
  except Exception as error:
    return worker.failure(error)


def _measure(request):
  from trainer import config, experiment
  from trainer.loop import outer_loop
  from trainer.preflight import bindings

  config.load(request["gin_files"], request["bindings"], modules=request["modules"])
  asked = dataclasses.replace(
    bindings.asked_by_gin(), train_batch_size=request["batch_size"], train_per_core_batch_size=None
  )
  estimator = experiment.make_estimator(
    asked, experiment.Flags(mode="train", dry_run=True, **request["flags"])
  )
  length = outer_loop.LoopLength(None, patience_seconds=_SECONDS / _LOOPS)
  done: list[outer_loop.LoopResult] = []

  def after_loop(result):
    if done:  # The first loop compiles.
      length.took(result.steps, result.seconds)
    done.append(result)
    return sum(each.seconds for each in done[1:]) >= _SECONDS

  estimator.try_training(asked.train_input_fn, 2**62, length, after_loop)
  timed = done[1:]
  if not timed:
    raise errors.InputError(
      f"The train input ended after {len(done)} steps of {request['batch_size']} examples: have "
      "the input_fn repeat its data (dataset.repeat())."
    )
  # The first loops are short, and the input had time to make their batches during the compilation.
  seconds = statistics.median(each.seconds / each.steps for each in timed[len(timed) // 2 :])
  return {
    "status": results.OK,
    "step_seconds": seconds,
    "examples_per_second": request["batch_size"] / seconds,
    "memory_bytes": processes.peak_memory(),
  }


if __name__ == "__main__":
  processes.answer(answer)
