"""Ends a training whose loss is no longer a number, before a checkpoint of it is written."""

import math

from trainer import errors


def check(result, latest_checkpoint):
  """Raises NonFiniteError if a step of a loop.LoopResult had a loss that is NaN or infinite.

  Args:
    result: the loop.LoopResult.
    latest_checkpoint: function that returns the path of the newest checkpoint, or None.
  """
  if result.non_finite_step < 0:
    return
  kind = "infinite" if math.isinf(result.loss) else "NaN"
  last_checkpoint = latest_checkpoint()
  kept = f"The last good checkpoint is {last_checkpoint}" if last_checkpoint else "There is no checkpoint yet"
  raise errors.NonFiniteError(
      f"The loss became {kind} at step {result.non_finite_step}. {kept}; nothing was written since. A smaller learning rate, gradient clipping (gin: "
      "minimize.clip_norm) or a look at the input of that step may help.")
