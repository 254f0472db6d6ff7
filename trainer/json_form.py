"""Parses JSON whose form is known, so that a damaged file is told from a sound one at once.

    json_form.parse('{"": {"20": {"loss": 0.5}}}', dict[str, dict[str, dict[str, float]]])
    json_form.parse('{"folder": 3}', {"folder": str, ...: float})  # ValueError

A form is bool, int, float, str or dict; a union of these and None; list[form]; dict[str, form]; or
a dict of the keys that must be there with their forms. `...` in such a dict gives the form of all
other keys; without it there may be none.
"""

import json
import types
import typing
from collections.abc import Mapping
from typing import Any

_SHOWN = 40  # letters of a value in a message


def parse(text: str | bytes, form: Any) -> Any:
  """Parses JSON, and checks the result.

  Args:
    text: the JSON.
    form: see the module.

  Raises:
    ValueError: the text is no JSON, or has another form.
  """
  try:
    value = json.loads(text)
  except RecursionError:
    raise ValueError("too many brackets within brackets") from None
  _check(value, form, "")
  return value


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
    return kind is bool
  return isinstance(value, int | float if kind is float else kind)


def _wrong(value, kind, place):
  expected = getattr(kind, "__name__", str(kind))
  found = json.dumps(value)
  found = found if len(found) <= _SHOWN else found[:_SHOWN] + "..."
  return ValueError(f"{place or 'it'} is {found}, expected {expected}")
