"""Explains a loss or a variable that became NaN or infinite: the step, the first tensor, the batch.

The device loop reports the step of a loss, and `variable_check` several steps, one of which changed
a variable. To find the tensor, Octet trains again from the last checkpoint up to that step, with
the same data and the same random numbers (see `rollback`). Then it runs the step with a check of
every tensor.
"""

import contextlib
import io
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.inputs import elements
from trainer.io import storage
from trainer.loop import outer_loop
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind
from trainer.tracing import user_frames

# How often a training may go back to the same checkpoint before it gives up.
ROLLBACKS = 3


class NonFinite(Exception):
  """The loss of a step, or a variable after it, is NaN or infinite.

  Args:
    step: the global step. For variables the last step that may have changed them.
    good_step: the newest step with only finite variables after it. The same as `step` if something
      other than a step changed them.
    loss: "NaN" or "infinite" for a loss; "" if the loss stayed finite.
    variables: "NaN" or "infinite" for each such variable, by name.

  Attributes:
    step, good_step, loss, variables: see Args.
  """

  def __init__(
    self, step: int, good_step: int, loss: str = "", variables: Mapping[str, str] | None = None
  ) -> None:
    super().__init__(step)
    self.step = step
    self.good_step = good_step
    self.loss = loss
    self.variables = dict(variables or {})


def check_loss(result: outer_loop.LoopResult, good_step: int) -> None:
  """Raises NonFinite if a step of a device loop had a loss that is NaN or infinite."""
  if result.non_finite_step >= 0:
    kind = "infinite" if math.isinf(result.loss) else "NaN"
    raise NonFinite(result.non_finite_step, good_step, loss=kind)


def message(found: NonFinite, checkpoint: str | None, explanation: str) -> str:
  """Returns the message for the user.

  Args:
    found: the error.
    checkpoint: path of the last good checkpoint, or None.
    explanation: the sentences of `explain`, or "".
  """
  kept = f"The last good checkpoint is {checkpoint}" if checkpoint else "There is no checkpoint yet"
  return (
    f"{_what_became(found)}. {explanation}{' ' * bool(explanation)}{kept}; the training wrote no "
    "file since. A smaller learning rate, gradient clipping (gin: minimize.clip_norm) or a look "
    "at the input of that step may help."
  )


def message_at_start(variables: Mapping[str, str], checkpoint: str | None) -> str:
  """Writes the message for a training that cannot begin, since variables are NaN already.

  Args:
    variables: the kind of each, by name.
    checkpoint: path of the checkpoint that the training would go on from, or None.
  """
  if checkpoint is None:
    return (
      f"The {_named(variables)} NaN before the first step: look at the initial value, or at the "
      "checkpoint of the warm start."
    )
  return (
    f"The {_named(variables)} NaN in {checkpoint}: no training can resume from it. Move the files "
    f"{os.path.basename(checkpoint)}.* away to resume from the checkpoint before it."
  )


def _what_became(found):
  if not found.variables:
    return f"The loss became {found.loss} at step {found.step}"
  if found.step == found.good_step:
    when = f"after step {found.step}, by a hook"
  elif found.step == found.good_step + 1:
    when = f"at step {found.step}"
  else:
    when = f"between step {found.good_step + 1} and step {found.step}"
  loss = f"and the loss became {found.loss} later" if found.loss else "while the loss stayed finite"
  kind = next(iter(found.variables.values()))
  return f"The {_named(found.variables, 'became')} {kind} {when}, {loss}"


def _named(variables, verb=""):
  """'variable dense/kernel and 2 others became': the subject of a sentence and its verb."""
  first, *others = variables
  if not others:
    return f"variable {first} {verb or 'is'}"
  several = "another one" if len(others) == 1 else f"{len(others)} others"
  return f"variable {first} and {several} {verb or 'are'}"


def explain(
  program: step_lib.Program, batches: Sequence[tuple], found: NonFinite, directory: str
) -> str:
  """Finds the first tensor of a training step that is not finite, and saves the step's batch.

  Args:
    program: the program. Its variables have the values before the step; the step changes them.
    batches: the step's batches, one element per replica.
    found: the step's fault; its `step` is exact.
    directory: folder for the batch, in step-<step>.npz.

  Returns:
    Sentences for `message`.
  """
  saved = os.path.join(directory, f"step-{found.step}.npz")
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
    return f"{ill[0]} of its batch has NaN or infinite values; the batch is in {saved}."
  tensor = first_tensor(program, batches)
  if tensor is None and found.variables:  # which the repeated step made, too
    return f"All tensors of that step are finite, but its update is not; the batch is in {saved}."
  if tensor is None:
    return (
      "When Octet repeats that step from the last checkpoint, all numbers are finite: something in "
      f"the step is not repeatable. Its batch is in {saved}."
    )
  return f"The first tensor with NaN or infinite values is {tensor}; the batch is in {saved}."


def first_tensor(program: step_lib.Program, batches: Sequence[tuple]) -> str | None:
  """Runs a training step with a check of every tensor.

  Args:
    program: the program; the step changes its variables.
    batches: one element per replica.

  Returns:
    A description of the first tensor that is not finite, or None if all are finite.
  """

  def train():
    with program.calls.wrapped(check_numerics):
      (loss, _), _ = program.run_step(Kind.TRAIN, batches)
      return loss

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
