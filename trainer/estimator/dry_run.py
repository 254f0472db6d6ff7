"""Steps that write nothing: one of a kind on its first batch, and a training that keeps none."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from trainer import errors, spec
from trainer.checkpoints import model_values
from trainer.evaluation import batches as batches_lib
from trainer.inputs import elements, read_errors
from trainer.loop import outer_loop
from trainer.programs import loop_input, step_errors
from trainer.settings.kinds import Kind


def try_step(
  kind: Kind,
  source: Callable | loop_input.LoopInput,
  inputs: loop_input.LoopInputs,
  values: model_values.ModelValues,
  model_name: str,
  start: int = 0,
) -> str:
  """Runs one step with the current variables; returns a sentence on it.

  Args:
    kind: the kind.
    source: the input_fn of the kind, or its LoopInput.
    inputs: the LoopInputs.
    values: the ModelValues; they must know that a training step has changed the variables.
    model_name: the model_fn's, for messages.
    start: the example to begin at, in training.

  Raises:
    InputError: there is no batch, or reading it fails.
    ModelFnError: an operation of the step failed.
  """
  runs: dict[str, Any] = {Kind.TRAIN: _train, Kind.EVAL: _evaluate, Kind.PREDICT: _predict}
  run = runs[kind]
  batches = inputs.call_and_trace(kind, source, start=start)
  clock = time.monotonic()
  if kind == Kind.TRAIN:
    values.invalidate()
  failed_in_input = batches.traced.failed_in_input if kind == Kind.TRAIN else lambda: None
  with (
    step_errors.of_step(model_name, Kind(kind)),
    read_errors.translate(batches.input_fn, kind, failed_in_input),
  ):
    what = run(batches)
  if what is None:
    raise errors.InputError(
      f"The {kind} input_fn {spec.name_of(batches.input_fn)} gave no batch: its "
      "dataset is empty or too small."
    )
  return f"one {kind} step in {time.monotonic() - clock:.2f} s: {what}"


def try_training(
  source: Callable,
  steps: int,
  loop_length: Callable[[int, int], int],
  after_loop: Callable[[outer_loop.LoopResult], bool],
  inputs: loop_input.LoopInputs,
  values: model_values.ModelValues,
) -> None:
  """Trains from the values and the data of a new training.

  Args:
    source: the train input_fn.
    steps: the most steps.
    loop_length: see outer_loop.train.
    after_loop: the same.
    inputs: the LoopInputs.
    values: the ModelValues.

  Raises:
    InputError: the input is unusable.
    ModelFnError: the model_fn raised, or an operation of a step failed.
  """
  # Do not keep the traces: a scope around this call, such as one that replaces learning rates, must
  # not reach a later training.
  inputs = dataclasses.replace(inputs, loops=inputs.loops.without_traces())
  batches = inputs.call_and_trace(Kind.TRAIN, source)
  program = inputs.loops.program
  program.calls.call_scaffold_fn(Kind.TRAIN)
  values.load(model_values.WARM_START)
  values.invalidate()

  def run_loop(wanted):
    with (
      step_errors.of_step(program.calls.model_name, Kind.TRAIN),
      read_errors.translate(batches.input_fn, Kind.TRAIN, batches.traced.failed_in_input),
    ):
      return batches.traced.run(batches.iterator, wanted)

  outer_loop.train(run_loop, 0, steps, loop_length, after_loop)


def _train(batches):
  result = batches.traced.run(batches.iterator, 1)
  return f"loss {float(result['loss']):.5g}" if int(result["steps"]) else None


def _evaluate(batches):
  result = batches_lib.evaluate(batches.traced, batches.iterator, steps=1)
  if not result.examples:
    return None
  return ", ".join(
    f"{name} {value:.5g}" for name, value in result.values.items() if isinstance(value, float)
  )


def _predict(batches):
  result = next(batches.traced.run(batches.iterator), None)
  if result is None:
    return None
  return ", ".join(
    f"{path} {leaf.dtype.name}{list(leaf.shape)}"
    for path, leaf in elements.named_leaves(result[:1], ["predictions"])
  )
