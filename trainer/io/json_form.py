"""Writes and parses JSON records so that a damaged file is told from a sound one at once.

    text = json_form.dump({"": {"20": {"loss": 0.5}}})
    json_form.parse(text, dict[str, dict[str, dict[str, float]]])
    json_form.parse(text.replace("0.5", "0.7"), dict)              # ValueError
    json_form.parse('{"folder": 3}', {"folder": str, ...: float})  # ValueError

A record has its checksum under the key CHECKSUM: the SHA-256 of its other keys as compact JSON with
sorted keys. So spaces, line ends and the order of the keys do not count. A record without a
checksum, as earlier versions wrote it, is read as it is.

A form is bool, int, float, str, dict or object; a union of these and None; list[form]; dict[str,
form]; or a dict of the keys that must be there with their forms. `...` in such a dict gives the
form of all other keys; without it there may be none.
"""

import hashlib
import json
import types
import typing
from collections.abc import Mapping
from typing import Any

# No name of an evaluation, which is a key beside this one: such names are relative paths.
CHECKSUM = "/checksum"

_SHOWN = 40  # letters of a value in a message


def dump(record: Mapping[str, Any]) -> str:
  """Returns the JSON of a record, with its checksum."""
  plain = json.loads(json.dumps(record))  # as it is read: each key is a text
  plain[CHECKSUM] = _checksum(plain)
  return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def parse(text: str | bytes, form: Any) -> Any:
  """Parses JSON, and checks its checksum, if it has one, and its form.

  Args:
    text: the JSON.
    form: see the module.

  Returns:
    The value, without the checksum.

  Raises:
    ValueError: the text is no JSON, or has another checksum or form.
  """
  try:
    value = json.loads(text)
  except RecursionError:
    raise ValueError("too many brackets within brackets") from None
  told = value.pop(CHECKSUM, None) if isinstance(value, dict) else None
  if told is not None and told != _checksum(value):
    raise ValueError(
      f"its content does not have its checksum; after an edit by hand, remove {CHECKSUM!r} from it"
    )
  _check(value, form, "")
  return value


def _checksum(record):
  text = json.dumps(record, sort_keys=True, separators=(",", ":"))
  return hashlib.sha256(text.encode()).hexdigest()


def _check(value, form, place):
  if isinstance(form, Mapping):
    _check_keys(value, form, place)
  elif isinstance(form, types.UnionType):
    if not any(_is_a(value, one) for one in typing.get_args(form)):
      raise _wrong(value, form, place)
  elif typing.get_origin(form) is list:
    _require(value, list, place)
    for index, item in enumerate(value):
      _check(item, *typing.get_args(form), f"{place}[{index}]")
  elif typing.get_origin(form) is dict:
    _require(value, dict, place)
    for key, item in value.items():
      _check(item, typing.get_args(form)[1], f"{place}[{key!r}]")
  else:
    _require(value, form, place)


def _check_keys(value, form, place):
  _require(value, dict, place)
  missing = [key for key in form if key is not ... and key not in value]
  unknown = [] if ... in form else [key for key in value if key not in form]
  if missing or unknown:
    problem = f"{missing[0]!r} is missing" if missing else f"{unknown[0]!r} is not expected"
    raise ValueError(f"{problem} in {place or 'it'}")
  for key, item in value.items():
    _check(item, form[key] if key in form else form[...], f"{place}[{key!r}]")


def _require(value, kind, place):
  if not _is_a(value, kind):
    raise _wrong(value, kind, place)


def _is_a(value, kind):
  if isinstance(value, bool):  # which is an int for Python
    return kind in (bool, object)
  return isinstance(value, int | float if kind is float else kind)


def _wrong(value, kind, place):
  expected = getattr(kind, "__name__", str(kind))
  found = json.dumps(value)
  found = found if len(found) <= _SHOWN else found[:_SHOWN] + "..."
  return ValueError(f"{place or 'it'} is {found}, expected {expected}")
