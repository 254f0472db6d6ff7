"""Reads and writes JSON files, and detects a damaged file at once.

    metrics = json_form.read(path, dict[int, dict[str, float]], "remove it") or {}  # None: no file
    json_form.write(path, {20: {"loss": 0.5}})
    rows = json_form.parse_lines(text.splitlines(), {"step": int, ...: float}, path, "remove it")

A damaged file is a FileDamagedError: "<path> is damaged (<problem>): <remedy>."

A record has its checksum under the key CHECKSUM: the SHA-256 of its other keys as compact JSON with
sorted keys. Spaces, line ends and the order of the keys therefore do not matter. Records of earlier
versions have no checksum, and need none.

A form is bool, int, float, str, dict or object; a union of forms and None; list[form]; dict[str,
form]; dict[int, form] (the keys become ints); or a dict of the required keys with their forms.
`...` in such a dict gives the form of all other keys; without it there may be no other keys.
"""

import hashlib
import json
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from absl import logging

from trainer import errors
from trainer.cli import formatting
from trainer.settings import setting_types

# Evaluations' names are keys here. A relative path does not begin with a slash, so no evaluation
# has this name.
CHECKSUM = "/checksum"

_SHOWN = 40  # Letters of a value in a message.


def read(path: str, form: Any, remedy: str) -> Any:
  """Reads a JSON file, and checks its form and, if present, its checksum.

  Args:
    path: local or a URL; only a URL needs TensorFlow.
    form: see the module.
    remedy: what to do about a damaged file, for the message: "remove it".

  Returns:
    The value, without the checksum; None if the file is missing.

  Raises:
    FileDamagedError: the file is not JSON, has another checksum or form, or is unreadable.
  """
  data = _content(path)
  return None if data is None else parse(data, form, path, remedy)


def parse_lines(
  lines: Iterable[str], form: Any, path: str, remedy: str | None = None
) -> Iterator[Any]:
  """Parses JSON lines and skips empty lines.

  Args:
    lines: the lines of the file, from the first.
    form: the form of each line, see the module.
    path: the file's path, for messages.
    remedy: see `read`. None: skip a damaged line with a warning.

  Yields:
    The value of each line.

  Raises:
    FileDamagedError: a line is not JSON or has another form, and there is a remedy.
  """
  for number, line in enumerate(lines, 1):
    if not line:
      continue
    try:
      yield parse(line, form, f"{path}, line {number}", remedy or "Octet skips this line")
    except errors.FileDamagedError as error:
      if remedy:
        raise
      logging.warning("%s", error)


def write(path: str, record: Mapping[str, Any]) -> None:
  """Writes a record with its checksum, completely or not at all.

  Args:
    path: local or a URL, in an existing folder.
    record: a value that JSON can represent.

  Raises:
    OutputError: it cannot write the file.
  """
  from trainer.io import files  # This imports TensorFlow.

  files.write(path, dump(record))


def _content(path):
  """Returns the bytes of a file; None without a file."""
  if "://" not in path:
    try:
      with open(path, "rb") as file:
        return file.read()
    except (FileNotFoundError, NotADirectoryError):
      return None
    except OSError as error:
      raise errors.FileDamagedError(f"Cannot read {path}: {error.strerror}.") from error
  import tensorflow as tf

  from trainer.io import storage

  try:
    return storage.read(path, "rb")
  except tf.errors.NotFoundError:
    return None
  except storage.DeniedError:  # An OpError too; it already says what to do.
    raise
  except tf.errors.OpError as error:
    raise errors.FileDamagedError(f"Cannot read {path}: {errors.first_line(error)}.") from error


def dump(record: Mapping[str, Any]) -> str:
  """Returns the JSON of a record, with its checksum."""
  plain = json.loads(json.dumps(record))  # As JSON returns it: each key is a text.
  plain[CHECKSUM] = _checksum(plain)
  return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def parse(text: str | bytes, form: Any, source: str = "the text", remedy: str = "mend it") -> Any:
  """Parses JSON like `read`; `source` names it in messages.

  Raises:
    FileDamagedError: the text is not JSON, or has another checksum or form.
  """
  try:
    return _parsed(text, form)
  except RecursionError:
    problem: object = "too many brackets within brackets"
  except ValueError as error:
    problem = error
  raise errors.FileDamagedError(f"{source} is damaged ({problem}): {remedy}.")


def _parsed(text, form):
  value = json.loads(text)
  told = value.pop(CHECKSUM, None) if isinstance(value, dict) else None
  if told is not None and told != _checksum(value):
    raise ValueError(
      f"its content does not have its checksum; after an edit by hand, remove {CHECKSUM!r} from it"
    )
  return _checked(value, form, "")


def _checksum(record):
  text = json.dumps(record, sort_keys=True, separators=(",", ":"))
  return hashlib.sha256(text.encode()).hexdigest()


def _checked(value, form, place):
  """Returns a value after a check of its form; the keys of a dict[int, ...] become ints."""
  if isinstance(form, Mapping):
    return _checked_keys(_checked(value, dict, place), form, place)
  kind, of = typing.get_origin(form), typing.get_args(form)
  if kind is list and isinstance(value, list):
    return [_checked(each, of[0], f"{place}[{index}]") for index, each in enumerate(value)]
  if kind is dict and isinstance(value, dict):
    return {
      _key(name, of[0], place): _checked(each, of[1], f"{place}[{name!r}]")
      for name, each in value.items()
    }
  if not setting_types.fits(value, form):
    shown = formatting.shorten(json.dumps(value), _SHOWN)
    raise ValueError(f"{place or 'it'} is {shown}, expected {setting_types.words(form)}")
  return value


def _key(name, kind, place):
  try:
    return kind(name)
  except ValueError:
    raise ValueError(f"{place or 'it'} has the key {name!r}, expected {kind.__name__}") from None


def _checked_keys(value, form, place):
  missing = [key for key in form if key is not ... and key not in value]
  unknown = [] if ... in form else [key for key in value if key not in form]
  if missing or unknown:
    problem = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r} is unknown"
    raise ValueError(f"{problem} in {place or 'it'}")
  return {
    key: _checked(item, form[key] if key in form else form[...], f"{place}[{key!r}]")
    for key, item in value.items()
  }
