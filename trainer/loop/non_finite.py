"""A loss that is no longer a number: at which step, in which tensor, with which batch.

The device loop only finds the step. The rest is found by training again, from the last checkpoint
to that step, which the same data and the same random numbers make possible; the step itself then
runs with every tensor checked.
"""

import contextlib
import io
import math
import os
import re

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.inputs import elements
from trainer.tracing import user_frames

# How often a training goes back to one and the same checkpoint before it gives up.
ROLLBACKS = 3


class NonFiniteLoss(Exception):
  """The loss of a step (int) is not finite; `loss` is the mean over its loop."""

  def __init__(self, step, loss):
    super().__init__(step)
    self.step = step
    self.kind = "infinite" if math.isinf(loss) else "NaN"


def check(result):
  """Raises NonFiniteLoss if a step of a loop.LoopResult had a loss that is NaN or infinite."""
  if result.non_finite_step >= 0:
    raise NonFiniteLoss(result.non_finite_step, result.loss)


def message(found, checkpoint, explanation):
  """What to tell of it.

  Args:
    found: a NonFiniteLoss.
    checkpoint: path of the last good checkpoint, or None.
    explanation: sentences on where it comes from, or "".
  """
  kept = f"The last good checkpoint is {checkpoint}" if checkpoint else "There is no checkpoint yet"
  return (
    f"The loss became {found.kind} at step {found.step}. "
    f"{explanation}{' ' * bool(explanation)}{kept}; nothing was written since. A smaller "
    "learning rate, gradient clipping (gin: minimize.clip_norm) or a look at the input of that "
    "step may help."
  )


def explain(program, batches, step, directory):
  """Sentences on the first tensor that is not finite in a training step; the batch is written to a
  file.

  Args:
    program: the step.Program, with the values before the step.
    batches: list with an element for each replica.
    step: the global step, which the file is named by.
    directory: folder for it.
  """
  saved = os.path.join(directory, f"step-{step}.npz")
  arrays = {}
  for replica, element in enumerate(batches):
    for path, leaf in elements.named_leaves(element):
      arrays[f"{path}, core {replica}" if len(batches) > 1 else path] = leaf.numpy()
  tf.io.gfile.makedirs(directory)
  buffer = io.BytesIO()
  np.savez(buffer, **arrays)
  with tf.io.gfile.GFile(saved, "wb") as file:
    file.write(buffer.getvalue())
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
      "Done again from the last checkpoint, that step gives finite numbers: something in it is not "
      f"repeatable. Its batch is in {saved}."
    )
  return f"The first tensor that is not finite is {tensor}; the batch is in {saved}."


def first_tensor(program, batches):
  """What the first tensor is that is not finite when a step.Program trains on batches, or None
  if all are. The variables are changed by that.
  """

  def train():
    with program.wrap_model_fn(check_numerics):
      return program.train(batches)[0]

  try:
    tf.function(train, autograph=False)()
  except tf.errors.InvalidArgumentError as error:
    return _described(error.message)
  return None


@contextlib.contextmanager
def check_numerics():
  """Inside, each operation that this thread makes fails when its result is not finite."""
  tf.debugging.enable_check_numerics(stack_height_limit=100, path_length_limit=1000)
  try:
    yield
  finally:
    tf.debugging.disable_check_numerics()


def _described(text):
  """`the output of Log, float32 (8, 3) (model.py:34)`, of what TensorFlow's check says, which
  marks the frames that are not its own by `->`.
  """
  op = re.search(r'graph op "(\w+)"', text)
  if not op:
    raise errors.NonFiniteError(text)
  facts = [
    re.search(pattern, text)
    for pattern in (
      r"dtype: <dtype: '(\w+)'>",
      r"shape: "
      r"(\(.*?\)|\[.*?\])",
    )
  ]
  where = user_frames.where(re.findall(r"\+ (\S+) \(L(\d+)\) .*\n ->", text))
  return f"the output of {op[1]}" + "".join(f", {fact[1]}" for fact in facts if fact) + where
