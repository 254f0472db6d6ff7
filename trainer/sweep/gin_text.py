"""Writes values as gin text; references and macros keep their text in the sweep file.

Example:
    text(("it's", 1e-3))                         # ("it's", 0.001)
    text([config_text.Verbatim("@keras.optimizers.Adam")])    # [@keras.optimizers.Adam]
"""

from typing import Any

from gin import config_parser

from trainer import errors
from trainer.config import files
from trainer.config import text as config_text


def text(value: Any) -> str:
  """Returns a value as gin text.

  Raises:
    SettingError: gin has no literal for the value.
  """
  written = config_text.value_text(value)
  if written is None:
    raise errors.SettingError(
      f"Gin has no literal for {value!r}: a value of a sweep is a number, string, bool, None, "
      "@reference, or a list of values."
    )
  return written


def binding(key: str, value: str) -> str:
  """Returns the binding "key = value".

  Args:
    key: of a parameter or macro.
    value: from `text`.

  Raises:
    SettingError: key is not the name of one parameter or macro.
  """
  line = f"{key} = {value}"
  try:
    statements = files.parse(line).statements
  except errors.SettingError as error:
    raise errors.SettingError(
      f"{key!r} is not the name of a gin parameter such as "
      f"'run.train_steps', or of a macro ({error})."
    ) from None
  if len(statements) != 1 or not isinstance(statements[0], config_parser.BindingStatement):
    raise errors.SettingError(
      f"{key!r} is not the name of a gin parameter such as 'run.train_steps', or of a macro."
    )
  return line
