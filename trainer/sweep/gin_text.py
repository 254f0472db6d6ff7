"""Writes values as gin text; references and macros stay as they are in the sweep file.

Example:
    text(("it's", 1e-3))                         # ("it's", 0.001)
    text([Verbatim("@keras.optimizers.Adam")])    # [@keras.optimizers.Adam]
"""

import dataclasses
from typing import Any

from gin import config_parser

from trainer import errors
from trainer.config import files
from trainer.config import text as config_text

_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", dict: "{}"}


@dataclasses.dataclass(frozen=True)
class Verbatim:
  """A reference or macro as written, such as `@keras.optimizers.Adam` or `%BATCH`.

  It is looked up in the run that gets it, not while the sweep file is read.
  """

  text: str


def text(value: Any) -> str:
  """Returns a value as gin text.

  Raises:
    SettingError: gin has no literal for the value.
  """
  if isinstance(value, Verbatim):
    return value.text
  if type(value) in _BRACKETS:
    items = [
      f"{text(key)}: {text(value[key])}" if isinstance(value, dict) else text(key) for key in value
    ]
    comma = "," if type(value) is tuple and len(items) == 1 else ""
    return _BRACKETS[type(value)][0] + ", ".join(items) + comma + _BRACKETS[type(value)][1]
  written = config_text.value_text(value)
  if written is None:
    raise errors.SettingError(
      f"Gin has no literal for {value!r}: a value of a sweep is a number, "
      "string, bool, None, @reference, or lists of these."
    )
  return written


def binding(key: str, value: str) -> str:
  """Returns the binding "key = value".

  Args:
    key: of a parameter or macro.
    value: what `text` returns.

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
