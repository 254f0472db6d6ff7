"""Values as gin writes them, with references and macros that stay as they stand in the sweep file.

Example:
    text(("it's", 1e-3))                         # ("it's", 0.001)
    text([Written("@keras.optimizers.Adam")])    # [@keras.optimizers.Adam]
"""

import dataclasses

from gin import config_parser

from trainer import errors
from trainer.config import files
from trainer.config import text as config_text

_BRACKETS = {list: "[]", tuple: "()", dict: "{}"}


@dataclasses.dataclass(frozen=True)
class Written:
  """Gin as it was written, such as `@keras.optimizers.Adam` or `%BATCH`: it means what it means
  in the run that it is given to.
  """

  text: str


def text(value):
  """The value as gin writes it; SettingError if gin has no literal for it."""
  if isinstance(value, Written):
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


def binding(key, value):
  """ "key = value", where value is gin as `text` gives it; SettingError if key is not the name
  of one parameter or macro.
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
