"""Lowers a traced program to the HLO that a compiler takes, the same for every XLA device.

functionalized = functionalize_traced(traced.concrete)
hlo = lower(functionalized, names)
"""

import re
from collections.abc import Sequence

import tensorflow as tf

from trainer import errors
from trainer.programs import functionalize, graph_operations
from trainer.tracing import user_frames

# Operations that a TPU cannot run → the alternative.
_SUGGESTIONS = {
  r"\w*PyFunc\w*": (
    "Python cannot run on a TPU: do it in the input_fn, where the host runs it, or write it with "
    "TensorFlow ops."
  ),
  r"Print\w*|StringFormat|PrintV2": (
    "printing cannot run on a TPU: use tf.summary.scalar, or print in the input_fn."
  ),
  r"String\w*|AsString|\w*Regex\w*|Decode\w*|\w*ToHashBucket\w*|Substr|Unicode\w*": (
    "strings stay on the host: turn them into numbers in the input_fn."
  ),
  r"Iterator\w*|\w*Dataset\w*": (
    "model_fn cannot read a dataset: return the dataset from the input_fn."
  ),
  r"CropAndResize\w*": "crop in the input_fn, or take a slice and resize it with tf.image.resize.",
  r"Ragged\w*|Sparse(?!Softmax)\w*": (
    "ragged and sparse tensors must become dense: pad them in the input_fn."
  ),
  r"LookupTable\w*|\w*HashTable\w*": "look-up tables stay on the host: look up in the input_fn.",
}


# XLA's message → Octet's message, the operation if XLA names none, and the remedy; "" for
# _SUGGESTIONS.
_KNOWN = (
  (r"No registered '(\w+)' OpKernel", "{} does not compile", "", ""),
  (
    r"Input \d+ to node `[^`]+` with op (\w+) must be a compile-time constant",
    "The shape that {} asks for depends on the data",
    "",
    "XLA needs all shapes when it compiles: pad to a fixed size and mask",
  ),
  (
    r"fixed tensor list size",
    "XLA cannot compile the gradient of a loop without a known bound",
    "While",
    "give tf.while_loop maximum_iterations",
  ),
  (
    r"Only support static input shape",
    "An input of the step has an unknown shape",
    "",
    "batch with drop_remainder=True",
  ),
)


class LowerError(errors.OctetError, RuntimeError):
  """XLA cannot compile a step.

  Attributes:
    file: the user's file that makes the op; "" if unknown.
    line: the line in this file; 0 if unknown.
    op: the op's name, or "".
    suggestion: the remedy, or "".
  """

  def __init__(
    self, message: str, file: str = "", line: int = 0, op: str = "", suggestion: str = ""
  ) -> None:
    super().__init__(
      message + (f" ({file}:{line})" if file else "") + (f": {suggestion}" if suggestion else "")
    )
    self.file, self.line, self.op, self.suggestion = file, line, op, suggestion


def functionalize_traced(
  traced: tf.types.experimental.ConcreteFunction, step: tf.Tensor | None = None
) -> functionalize.Functionalized:
  """Removes the variables of a traced program.

  Args:
    traced: the program, with flat arguments.
    step: the handle of the global step, see functionalize.Functionalized.

  Raises:
    LowerError: an operation uses a variable in an unknown way.
  """
  try:
    return functionalize.Functionalized(traced, step)
  except functionalize.ImpureError as error:
    raise LowerError(str(error), op=error.operation.type) from error


def lower(functionalized: functionalize.Functionalized, names: Sequence[str]) -> bytes:
  """Lowers a function without variables; returns a serialised HloModuleProto.

  Its arguments are the variables and then the function's arguments; its results are the next values
  of the assigned variables and then the function's results.

  Args:
    functionalized: the function.
    names: the names of its variables, for messages.

  Raises:
    LowerError: XLA cannot compile the function.
  """
  specs = [*functionalized.specs, *functionalized.arguments]
  count = len(functionalized.specs)

  def pure(*given):
    return functionalized.call(given[:count], given[count:])

  function = tf.function(pure, jit_compile=True, autograph=False)
  try:
    outputs = function.get_concrete_function(*specs).outputs
    for index, output in zip(functionalized.assigned, outputs, strict=False):
      if tf.get_static_value(output) is not None:
        raise LowerError(
          f"The variable {names[index]} gets a value that does not depend on the step or the "
          "batch: XLA leaves it out of the program. Assign it before the training"
        )
    return function.experimental_get_compiler_ir(*specs)(stage="hlo_serialized")
  except functionalize.ImpureError as error:
    raise LowerError(str(error), op=error.operation.type) from error
  except (ValueError, TypeError, tf.errors.OpError) as error:
    # Not chained: TensorFlow's message is long, and ours has its useful parts.
    raise lower_error(str(error), functionalized) from None


def lower_error(
  text: str, functionalized: functionalize.Functionalized | None = None
) -> LowerError:
  """Returns the LowerError for a message of TensorFlow.

  Args:
    text: the message.
    functionalized: the function to lower, if it had no variables.
  """
  file, line = _place(text, functionalized)
  for pattern, message, of_op, suggestion in _KNOWN:
    if found := re.search(pattern, text):
      op = found[1] if found.groups() else of_op
      return LowerError(message.format(op), file, line, op, suggestion or _suggestion(op))
  said = (
    re.sub(r"^Failed getting HLO text: '", "", text)
    .split("\n\nStack trace")[0]
    .split("\nThis line creates the op:")[0]
  )
  return LowerError(f"XLA cannot compile the step: {said[:1000]}", file, line)


def _suggestion(op):
  advices = (advice for pattern, advice in _SUGGESTIONS.items() if re.fullmatch(pattern, op))
  return next(advices, "XLA has no such op: compute it in another way.")


def _place(text, functionalized):
  """Returns the file and line of the user's program that a message is about."""
  operation = functionalized and functionalized.operation_in(text)
  if operation is not None:
    return user_frames.innermost(graph_operations.frames_of(operation))
  # For an op in a loop, the stack trace of the op comes first, then the loop's.
  of_op = text.split("tf2xla conversion failed while converting", 1)[0]
  return user_frames.innermost(
    [(match[1], int(match[2])) for match in re.finditer(r'File "([^"]+)", line (\d+)', of_op)]
  )
