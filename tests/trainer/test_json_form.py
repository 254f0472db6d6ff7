"""What JSON must look like, and what is said where it does not."""

import re

import pytest

from trainer import json_form

RECORD = {"folder": str, "metrics": dict[str, float], "there": list[str], ...: int | None}


@pytest.mark.parametrize(
  "text",
  [
    '{"folder": "a", "metrics": {}, "there": []}',
    '{"folder": "", "metrics": {"a": 1, "b": 2.5, "c": NaN}, "there": ["x"], "n": 3, "m": null}',
  ],
)
def test_what_has_the_form(text):
  assert json_form.parse(text, RECORD)["folder"] in ("a", "")


@pytest.mark.parametrize(
  "text, message",
  [
    ("{", "Expecting property name"),
    ("[]", "it is [], expected dict"),
    ("null", "it is null, expected dict"),
    ("{}", "'folder' is missing in it"),
    ('{"folder": 3, "metrics": {}, "there": []}', "['folder'] is 3, expected str"),
    ('{"folder": "", "metrics": {"a": "low"}, "there": []}', """['a'] is "low", expected float"""),
    ('{"folder": "", "metrics": {"a": true}, "there": []}', "['a'] is true, expected float"),
    ('{"folder": "", "metrics": {}, "there": ["", 3]}', "['there'][1] is 3, expected str"),
    ('{"folder": "", "metrics": {}, "there": [], "n": ""}', """is "", expected int | None"""),
    ("[" * 100_000, "too many brackets"),
  ],
)
def test_what_has_not(text, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    json_form.parse(text, RECORD)


def test_a_key_that_nobody_expects():
  with pytest.raises(ValueError, match="'b' is not expected in it"):
    json_form.parse('{"a": 1, "b": 2}', {"a": int})
