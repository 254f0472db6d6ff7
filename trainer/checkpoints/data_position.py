"""A training's position in its data: how many examples it has seen.

A checkpoint has that number beside its variables, so that a resumed training reads on where it
stopped:

    examples_seen    the examples of the data that the training has seen; 0 where the data ended
    input_ended      only where the data ended, and a restart must not begin them anew: max_steps of
                     the training, or 0 if it had none
"""

from collections.abc import Callable

import tensorflow as tf

from trainer.checkpoints import reader


class DataPosition:
  """The place of one Estimator's trainings in their data.

  Attributes:
    examples: how many examples of its data the newest training has seen; 0 at the end of the data,
      since the next training reads them from the beginning.
  """

  def __init__(self) -> None:
    self.examples = 0
    self._input_fn: Callable | None = None  # The input_fn of the newest training.
    self._ended: int | None = None  # The next checkpoint's reader.INPUT_ENDED.

  def of(self, checkpoint: str | None, input_fn: Callable, batch_size: int) -> int:
    """The first example of a training that resumes from a checkpoint.

    The checkpoint may be of another process, or of an earlier call with the same input_fn. Another
    input_fn in the same process begins at its first example.

    Args:
      checkpoint: its path; None for a training from the start.
      input_fn: the train input_fn.
      batch_size: examples in a step, for a checkpoint of another program, which has only its step.
    """
    if checkpoint is None or self._input_fn not in (None, input_fn):
      return 0
    if reader.EXAMPLES_SEEN in reader.shapes(checkpoint):
      return int(reader.read(checkpoint, [reader.EXAMPLES_SEEN])[reader.EXAMPLES_SEEN])
    return reader.read_step(checkpoint) * batch_size

  def begin(self, input_fn: Callable, start: int) -> None:
    """A training begins at an example of an input_fn's data."""
    self._input_fn, self.examples, self._ended = input_fn, start, None

  def advance(self, examples: int) -> None:
    """The training has seen so many further examples."""
    self.examples += examples

  def mark_ended(self, is_last: bool = False, max_steps: int | None = None) -> None:
    """Notes that the data has ended. The next training reads it from its beginning.

    Args:
      is_last: whether a restart must find that the training has ended, see `has_ended`.
      max_steps: of the training, or None.
    """
    self.examples = 0
    self._ended = (max_steps or 0) if is_last else None

  def stored(self) -> dict[str, tf.Tensor]:
    """Returns the position for a checkpoint, by name."""
    numbers = {reader.EXAMPLES_SEEN: self.examples, reader.INPUT_ENDED: self._ended}
    return {
      name: tf.constant(number, tf.int64) for name, number in numbers.items() if number is not None
    }


def has_ended(checkpoint: str, max_steps: int | None) -> bool:
  """Returns whether a checkpoint is the end of a training that used up its data.

  Args:
    checkpoint: its path.
    max_steps: of the restart. If it differs from the ended training's, the user wants to train
      more, with the data from their beginning.
  """
  if reader.INPUT_ENDED not in reader.shapes(checkpoint):
    return False
  ended = int(reader.read(checkpoint, [reader.INPUT_ENDED])[reader.INPUT_ENDED])
  return max_steps is None or max_steps == ended
