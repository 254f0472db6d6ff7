"""Error messages about a failing model_fn, or a step of it: file, line, input."""

import contextlib
import re
import traceback
from collections.abc import Iterator

import tensorflow as tf

from trainer import errors, spec
from trainer.cli import command
from trainer.inputs import elements, read_errors
from trainer.settings.kinds import Kind
from trainer.tracing import user_frames

JOINED = "results_of_the_cores"  # the name of the operation that joins them


@contextlib.contextmanager
def of_model_fn(name: str, mode: str, element: tuple) -> Iterator[None]:
  """Turns errors of a call of the model_fn into errors with its file, its line and its input.

  Args:
    name: the model_fn's name.
    mode: the mode of the call.
    element: its arguments: features, or features and labels.

  Raises:
    ModelFnError: the model_fn raised an error that is not Octet's own.
    OctetError: the model_fn raised it; a SpecError and a SettingError get the file and the line.
  """
  try:
    yield
  except (errors.SpecError, errors.SettingError) as error:
    # An EstimatorSpec, for example, does not know its maker.
    where, said = _where(error), command.original(error)  # gin raises another in its place
    if where and where not in str(said):
      said.args = (f"{said}{where}",)
    raise
  except errors.OctetError:
    raise
  except Exception as error:
    raise errors.ModelFnError(_message(name, mode, element, error)) from error


@contextlib.contextmanager
def of_step(name: str, kind: Kind) -> Iterator[None]:
  """Turns errors of a step's operations into errors that name the model_fn and its line.

  Args:
    name: the model_fn's name.
    kind: the kind, for the message.

  Raises:
    ModelFnError: an operation rejected its input, such as a label out of range; an assertion
      failed; or Python code in a tf.py_function raised.
  """
  try:
    yield
  except tf.errors.OpError as error:
    found = read_errors.of_python(error)
    if found is None and not isinstance(error, tf.errors.InvalidArgumentError):
      raise
    where = user_frames.where(re.findall(r'File "(.+?)", line (\d+)', error.message))
    where, said = found or (where, read_errors.of_operation(error))
    if not found and JOINED in error.message:
      where = ""  # a line of the program that called Octet
      said = (
        "each core returned its predictions or metrics with other sizes, and Octet joins them by "
        f"their first axis. Pad their other axes to the same sizes, or use one core. ({said})"
      )
    raise errors.ModelFnError(
      f"model_fn {name} failed in a step, mode {spec.MODE_OF[kind]!r}{where}: {said}"
    ) from error


def _message(name, mode, element, error):
  shapes = ", ".join(
    f"{path} {leaf.dtype.name}{list(leaf.shape)}" for path, leaf in elements.named_leaves(element)
  )
  said = f"{type(error).__name__}: {error}"
  if isinstance(error, tf.errors.OperatorNotAllowedInGraphError):
    # TensorFlow's own advice is for programs that decorate functions themselves.
    said = (
      "Python's if, while, for, and, or and not need the value of a tensor, and tracing has no "
      "values: use tf.where, tf.cond, tf.while_loop, or tf.logical_and and the like"
    )
  return f"model_fn {name} failed in mode {mode!r}{_where(error)}, given {shapes}: {said}"


def _where(error):
  return user_frames.where(
    [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
  )
