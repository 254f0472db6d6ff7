"""Finds the failed part of a dataset's pipeline: an operation, or the user's own Python code.

TensorFlow wraps an exception of a generator (Dataset.from_generator) or of a tf.py_function into
the text of an error of its own, between the names of operations:

    Graph execution error:

    Detected at node PyFunc defined at (most recent call last):
    <stack traces unavailable>
    MyError: row 40 has no label
    Traceback (most recent call last):

      File "my_data.py", line 10, in rows
        raise MyError("row 40 has no label")

    MyError: row 40 has no label

         [[{{node PyFunc}}]]
         [[IteratorGetNext]] [Op:__inference_train_998]

With several cores the text repeats this for each of them.
"""

import contextlib
import re
from collections.abc import Callable, Iterator

import tensorflow as tf

from trainer import errors, spec
from trainer.tracing import user_frames

_TRACEBACK = "Traceback (most recent call last):\n"
# Lines of TensorFlow that tell the user nothing, by their beginnings.
_NOISE = ("File ", "Detected at node", "Graph execution error", "<stack traces unavailable>")
_FUNCTION = re.compile(r"^\{\{function_node[^}]*\}*\s*")
_OF_ITERATOR = re.compile(
  r"Error in user-defined function passed to \S+ transformation .*?: Iterator::\S+: "
)
_ROOT_ERRORS = re.compile(r"\d+ root error\(s\) found\.\s*\(0\) \w+:\s*")


@contextlib.contextmanager
def translate(
  input_fn: Callable[..., tf.data.Dataset],
  kind: str,
  failed_in_input: Callable[[], bool | None] = lambda: None,
) -> Iterator[None]:
  """Turns errors of a dataset's operations into errors that name the input_fn.

  Args:
    input_fn: the function that made the dataset.
    kind: "train", "eval" or "predict", for the message.
    failed_in_input: returns whether an error came from the dataset (True) or from the step that
      used its batches (False). None: unknown, so the error's own text decides.

  Raises:
    InputError: an operation of the dataset failed.
  """
  try:
    yield
  except tf.errors.OutOfRangeError:  # the end of the data is no failure
    raise
  except tf.errors.OpError as error:
    if failed_in_input() is False or (
      failed_in_input() is None and "IteratorGetNext" not in error.message
    ):
      raise
    where, said = of_python(error) or ("", of_operation(error))
    raise errors.InputError(
      f"The {kind} input_fn {spec.name_of(input_fn)} failed while Octet read it{where}: {said}"
    ) from error


def of_python(error: tf.errors.OpError) -> tuple[str, str] | None:
  """Finds the exception of Python code that an operation called.

  Returns:
    (where, said): the user's line, " (my_data.py:10)", "" if unknown; the exception's type and
    sentence. None if no Python code failed.
  """
  first = error.message.split("\n\t [[")[0]  # of the first core
  # The last traceback of a chain is the one that the program raised.
  before, _, traceback = first.rpartition(_TRACEBACK)
  lines = traceback.splitlines()
  said = next((i for i, line in enumerate(lines) if line and not line[0].isspace()), None)
  if not before or said is None:
    return None
  frames = re.findall(r'^  File "(.+?)", line (\d+)', "\n".join(lines[:said]), re.MULTILINE)
  return user_frames.where(frames), _joined(lines[said:])


def of_operation(error: tf.errors.OpError) -> str:
  """Returns an operation's own error message, without the names of operations."""
  text = _FUNCTION.sub("", error.message.split("[[", maxsplit=1)[0].strip())
  text = _OF_ITERATOR.sub("", _ROOT_ERRORS.sub("", text))
  return _joined(line for line in text.splitlines() if not line.strip().startswith(_NOISE))


def _joined(lines):
  return " ".join(line.strip() for line in lines if line.strip())[:500]
