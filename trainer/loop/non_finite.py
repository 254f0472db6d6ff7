"""Explains a loss that became NaN or infinite: the step, the first such tensor, the batch.

The device loop reports the step only. To find the tensor, Octet trains again from the last
checkpoint up to that step, with the same data and the same random numbers. Then it runs the step
with a check of every tensor.
"""

import contextlib
import io
import math
import os
import re
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from trainer import errors, storage
from trainer.inputs import elements
from trainer.loop import outer_loop
from trainer.loop import step as step_lib
from trainer.tracing import user_frames

# How often a training may go back to the same checkpoint before it gives up.
ROLLBACKS = 3


class NonFiniteLoss(Exception):
  """The loss of a step is NaN or infinite.

  Args:
    step: the global step.
    loss: the mean loss of the device loop that contains the step.

  Attributes:
    step: the global step.
    kind: "NaN" or "infinite".
  """

  def __init__(self, step: int, loss: float) -> None:
    super().__init__(step)
    self.step = step
    self.kind = "infinite" if math.isinf(loss) else "NaN"


def check(result: outer_loop.LoopResult) -> None:
  """Raises NonFiniteLoss if a step of a device loop had a loss that is NaN or infinite."""
  if result.non_finite_step >= 0:
    raise NonFiniteLoss(result.non_finite_step, result.loss)


def message(found: NonFiniteLoss, checkpoint: str | None, explanation: str) -> str:
  """Writes the message for the user.

  Args:
    found: the error.
    checkpoint: path of the last good checkpoint, or None.
    explanation: the sentences of `explain`, or "".

  Returns:
    The message.
  """
  kept = f"The last good checkpoint is {checkpoint}" if checkpoint else "There is no checkpoint yet"
  return (
    f"The loss became {found.kind} at step {found.step}. "
    f"{explanation}{' ' * bool(explanation)}{kept}; nothing was written since. A smaller "
    "learning rate, gradient clipping (gin: minimize.clip_norm) or a look at the input of that "
    "step may help."
  )


def explain(program: step_lib.Program, batches: Sequence[tuple], step: int, directory: str) -> str:
  """Finds the first tensor of a training step that is not finite, and saves the step's batch.

  Args:
    program: the program. Its variables have the values before the step; the step changes them.
    batches: the step's batches, an element for each replica.
    step: the global step.
    directory: folder for the batch, which is written to step-<step>.npz.

  Returns:
    Sentences for `message`.
  """
  saved = os.path.join(directory, f"step-{step}.npz")
  arrays = {}
  for replica, element in enumerate(batches):
    for path, leaf in elements.named_leaves(element):
      arrays[f"{path}, core {replica}" if len(batches) > 1 else path] = leaf.numpy()
  storage.makedirs(directory)
  buffer = io.BytesIO()
  np.savez(buffer, **arrays)
  storage.write(saved, buffer.getvalue())
  ill = [
    name
    for name, array in arrays.items()
    if array.dtype.kind == "f" and not np.isfinite(array).all()
  ]
  if ill:
    return f"{ill[0]} of its batch has values that are not finite; the batch is in {saved}."
  tensor = first_tensor(program, batches)
  if tensor is None:
    return (
      "When Octet repeats that step from the last checkpoint, all numbers are finite: something in "
      f"the step is not repeatable. Its batch is in {saved}."
    )
  return f"The first tensor that is not finite is {tensor}; the batch is in {saved}."


def first_tensor(program: step_lib.Program, batches: Sequence[tuple]) -> str | None:
  """Does a training step with every tensor checked.

  Args:
    program: the program; the step changes its variables.
    batches: an element for each replica.

  Returns:
    A description of the first tensor that is not finite, or None if all are finite.
  """

  def train():
    with program.calls.wrapped(check_numerics):
      return program.train(batches)[0]

  try:
    tf.function(train, autograph=False)()
  except tf.errors.InvalidArgumentError as error:
    return _described(error.message)
  return None


@contextlib.contextmanager
def check_numerics() -> Iterator[None]:
  """Adds a check to every operation that this thread creates while the context is open.

  The operation fails if its result is not finite.
  """
  tf.debugging.enable_check_numerics(stack_height_limit=100, path_length_limit=1000)
  try:
    yield
  finally:
    tf.debugging.disable_check_numerics()


def _described(text):
  """Shortens the message of TensorFlow's check: "the output of Log, float32 (8, 3) (model.py:34)".

  The message marks the frames of user code with `->`.
  """
  op = re.search(r'graph op "(\w+)"', text)
  if not op:
    raise errors.NonFiniteError(text)
  facts = [
    re.search(pattern, text)
    for pattern in (r"dtype: <dtype: '(\w+)'>", r"shape: (\(.*?\)|\[.*?\])")
  ]
  where = user_frames.where(re.findall(r"\+ (\S+) \(L(\d+)\) .*\n ->", text))
  return f"the output of {op[1]}" + "".join(f", {fact[1]}" for fact in facts if fact) + where
