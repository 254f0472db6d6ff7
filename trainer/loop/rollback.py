"""Handles a loss or a variable that is NaN or infinite.

It finds the cause, then ends the training or returns to its last checkpoint.
"""

import collections
import dataclasses
import os
from collections.abc import Callable

from absl import logging

from trainer import errors, run_config
from trainer.checkpoints import data_position, model_values
from trainer.devices import device as device_lib
from trainer.loop import non_finite, variable_check
from trainer.programs import loop_input
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind


@dataclasses.dataclass(kw_only=True)
class Rollback:
  """Handles the non-finite losses and variables of one training.

  Attributes:
    config: the RunConfig, with on_non_finite.
    model_dir: gets the batch of the step, in a folder non_finite/.
    batch_size: examples in a step.
  """

  config: run_config.RunConfig
  model_dir: str
  device: device_lib.Device
  program: step_lib.Program
  variables: variable_check.VariableCheck
  values: model_values.ModelValues
  position: data_position.DataPosition
  inputs: loop_input.LoopInputs
  batch_size: int

  def __post_init__(self) -> None:
    self._counts: collections.Counter = collections.Counter()  # how often by checkpoint
    # The example at which the training continued after it returned to a checkpoint.
    self._went_on: dict[str, int] = {}

  def handle(self, found: non_finite.NonFinite, input_fn: Callable) -> int:
    """Returns to the last good checkpoint if RunConfig.on_non_finite is "rollback".

    Returns the step of that checkpoint.

    Args:
      found: the fault.
      input_fn: the train input_fn, for repeating steps to find the cause.

    Raises:
      NonFiniteError: the policy is another one, or returning did not help.
    """
    latest = self.values.latest()
    found, explanation = self._explain(found, latest, input_fn)
    text = non_finite.message(found, latest, explanation)
    self._counts[latest] += 1
    if self.config.on_non_finite == "stop" or latest is None:
      raise errors.NonFiniteError(text)
    if self._counts[latest] > non_finite.ROLLBACKS:
      raise errors.NonFiniteError(
        f"{text} The training went back to that checkpoint {non_finite.ROLLBACKS} times without "
        "success."
      )
    self.values.load(latest)
    self._went_on[latest] = self.position.examples
    step = self._step()
    logging.warning(
      "%s Going back to step %d and continuing with the next examples (RunConfig.on_non_finite = "
      "'rollback').",
      text,
      step,
    )
    return step

  def _explain(self, found, latest, input_fn):
    """Finds the step and the cause by training again from a checkpoint.

    Returns:
      (found, explanation): the first fault; sentences on its cause, "" if the cause is unknown.
    """
    # XLA's programs have no checks of tensors. A hook's change is in no step.
    if latest is None or self.device.runs_by_pjrt or found.step == found.good_step:
      return found, ""
    logging.info(
      "Repeating steps from %s, to find the first tensor of step %d with NaN or infinite values.",
      latest,
      found.step,
    )
    again = self._train_again(latest, input_fn, found.step - 1 if found.loss else found.good_step)
    # Variables may be NaN for many steps before the loss is.
    if not found.loss or self.variables.faults():
      if found.loss:
        again = self._train_again(latest, input_fn, found.good_step)
      first = self._first_step(again, found)
      if first is None:
        return found, (
          "When Octet repeats these steps from the last checkpoint, all variables stay finite: "
          "something in them is not repeatable, or a hook changes variables."
        )
      found = first
      again = self._train_again(latest, input_fn, found.step - 1)
    batches = [next(again.iterator) for _ in range(self.device.replicas)]
    folder = os.path.join(self.model_dir, "non_finite")
    return found, non_finite.explain(self.program, batches, found, folder)

  def _train_again(self, checkpoint, input_fn, last_step):
    """Trains from a checkpoint up to a step; returns the LoopInput for the next batch."""
    self.values.load(checkpoint)
    start = self._went_on.get(checkpoint)
    if start is None:
      start = self.position.of(checkpoint, input_fn, self.batch_size)
    again = self.inputs.call_and_trace(Kind.TRAIN, input_fn, start=start)
    self.values.invalidate()
    if last_step > self._step():
      again.traced.run(again.iterator, last_step - self._step())
    return again

  def _first_step(self, again, found):
    """Runs single steps up to found.step; returns a NonFinite of the first faulty step."""
    for step in range(self._step() + 1, found.step + 1):
      again.traced.run(again.iterator, 1)
      if variables := self.variables.faults():
        return non_finite.NonFinite(step, step - 1, found.loss, variables)
    return None

  def _step(self):
    return int(self.program.global_step.numpy())
