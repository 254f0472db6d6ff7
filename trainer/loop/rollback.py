"""Handles a loss that is NaN or infinite.

The reason is looked for. Then the training ends, or goes back to its last checkpoint.
"""

import collections
import os
from collections.abc import Callable

from absl import logging

from trainer import errors, run_config
from trainer.checkpoints import data_position, model_values
from trainer.devices import device as device_lib
from trainer.kinds import Kind
from trainer.loop import loop_input, non_finite
from trainer.loop import step as step_lib


class Rollback:
  """Handles the non-finite losses of one training.

  Args:
    config: the RunConfig, whose on_non_finite says what to do.
    model_dir: gets the batch of the step, in a folder non_finite/.
    device: the Device.
    program: the step.Program.
    values: the ModelValues.
    position: the DataPosition.
    inputs: the LoopInputs.
    batch_size: examples in a step.
  """

  def __init__(
    self,
    *,
    config: run_config.RunConfig,
    model_dir: str,
    device: device_lib.Device,
    program: step_lib.Program,
    values: model_values.ModelValues,
    position: data_position.DataPosition,
    inputs: loop_input.LoopInputs,
    batch_size: int,
  ) -> None:
    self._config = config
    self._model_dir = model_dir
    self._device = device
    self._program = program
    self._values = values
    self._position = position
    self._inputs = inputs
    self._batch_size = batch_size
    self._counts: collections.Counter = collections.Counter()  # how often by checkpoint

  def handle(self, found: non_finite.NonFiniteLoss, input_fn: Callable) -> int:
    """Goes back to the last good checkpoint where RunConfig.on_non_finite is "rollback".

    Returns the step of that checkpoint.

    Args:
      found: the loss.
      input_fn: the train input_fn, from which the step is done again to find the reason.

    Raises:
      NonFiniteError: the policy is another one, or going back did not help.
    """
    latest = self._values.latest()
    text = non_finite.message(found, latest, self._explain(found, latest, input_fn))
    self._counts[latest] += 1
    if self._config.on_non_finite == "stop" or latest is None:
      raise errors.NonFiniteError(text)
    if self._counts[latest] > non_finite.ROLLBACKS:
      raise errors.NonFiniteError(
        f"{text} The training went back to that checkpoint "
        f"{non_finite.ROLLBACKS} times; it does not help."
      )
    self._values.load(latest)
    step = int(self._program.global_step.numpy())
    logging.warning(
      "%s Going back to step %d, and on with the examples that follow "
      "(RunConfig.on_non_finite = 'rollback').",
      text,
      step,
    )
    return step

  def _explain(self, found, latest, input_fn):
    """Returns sentences on where the loss comes from, found by training again from a checkpoint.

    They are "" where that cannot be done.
    """
    # A TPU's compiler has no checks of tensors, and one worker alone cannot run a step of several.
    if latest is None or self._device.is_multi_worker or self._device.kind == "tpu":
      return ""
    self._values.load(latest)
    steps = found.step - 1 - int(self._program.global_step.numpy())
    logging.info(
      "Doing %d steps again from %s, to find what was not finite at step %d.",
      steps,
      latest,
      found.step,
    )
    start = self._position.of(latest, input_fn, self._batch_size)
    again = self._inputs.get(Kind.TRAIN, input_fn, start=start)
    self._values.invalidate()
    if steps:
      again.traced.run(again.iterator, steps)
    batches = again.next_step(self._device.local_replicas)
    return non_finite.explain(
      self._program, batches, found.step, os.path.join(self._model_dir, "non_finite")
    )
