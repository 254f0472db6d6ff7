"""Where a training is in its data: how many examples it has seen.

A checkpoint has that number beside its variables, so that a training that goes on from it reads on
where it stopped.
"""

from collections.abc import Callable

from trainer.checkpoints import reader


class DataPosition:
  """The place of one Estimator's trainings in their data.

  Attributes:
    examples: how many examples of its data the newest training has seen; 0 once that has ended,
      since the next training reads it from the beginning.
  """

  def __init__(self) -> None:
    self.examples = 0
    self._input_fn: Callable | None = None  # that of the newest training

  def of(self, checkpoint: str | None, input_fn: Callable, batch_size: int) -> int:
    """The example at which a training begins that goes on from a checkpoint.

    The checkpoint may be of another process, or of an earlier call with the same input_fn. Another
    input_fn in the same process begins at its first example.

    Args:
      checkpoint: its path; None for a training from the start.
      input_fn: the train input_fn.
      batch_size: examples in a step, for a checkpoint of another program, which knows no more than
        its step.
    """
    if checkpoint is None or self._input_fn not in (None, input_fn):
      return 0
    if reader.EXAMPLES_SEEN in reader.shapes(checkpoint):
      return int(reader.read(checkpoint, [reader.EXAMPLES_SEEN])[reader.EXAMPLES_SEEN])
    return reader.read_step(checkpoint) * batch_size

  def begin(self, input_fn: Callable, start: int) -> None:
    """A training begins at an example of an input_fn's data."""
    self._input_fn, self.examples = input_fn, start

  def advance(self, examples: int) -> None:
    """The training has seen so many more."""
    self.examples += examples

  def reached_end(self) -> None:
    """The data has ended: the next training reads it from its beginning, as one epoch a call."""
    self.examples = 0
