"""What JSON must look like, and what is said where it does not."""

import itertools
import json
import re

import pytest

from trainer.io import json_form

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


DUMPED = {"": {"20": {"loss": 0.9722, "n": float("inf")}}, "Ä": {"10": {"on": True, "off": None}}}


def test_what_is_dumped_is_parsed_again_and_is_plain_json():
  text = json_form.dump(DUMPED)
  assert json_form.parse(text, dict) == DUMPED
  plain = json.loads(text)
  assert plain.pop(json_form.CHECKSUM)
  assert plain == DUMPED
  # Formatting is nobody's damage, and neither are keys that JSON turns into texts.
  assert json_form.parse(json.dumps(json.loads(text), sort_keys=True), dict) == DUMPED
  assert json_form.parse(json_form.dump({20: 1, 3: 2}), dict[str, int]) == {"20": 1, "3": 2}


def test_a_record_without_a_checksum_is_read():
  assert json_form.parse('{"folder": "a"}', {"folder": str}) == {"folder": "a"}


def test_each_bit_that_flips_is_found_or_changes_nothing():
  data = json_form.dump(DUMPED).encode()
  form = dict[str, dict[str, dict[str, float | bool | None]]]
  for place, bit in itertools.product(range(len(data)), range(8)):
    flipped = bytearray(data)
    flipped[place] ^= 1 << bit
    try:
      assert json_form.parse(bytes(flipped), form) == DUMPED
    except ValueError:  # UnicodeDecodeError and JSONDecodeError are such too
      continue


def test_the_message_says_what_to_do_after_an_edit_by_hand():
  text = json_form.dump({"loss": 0.9722}).replace("0.9722", "0.9723")
  with pytest.raises(ValueError, match="after an edit by hand, remove '/checksum' from it"):
    json_form.parse(text, dict[str, float])
  edited = json.loads(text)
  del edited["/checksum"]
  assert json_form.parse(json.dumps(edited), dict[str, float]) == {"loss": 0.9723}
