"""What a JSON file must look like, and the error where it does not."""

import itertools
import json
import re

import pytest

from trainer import errors
from trainer.io import json_form, storage

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
    ("[]", "it is [], expected a dict"),
    ("null", "it is null, expected a dict"),
    ("{}", "'folder' is missing in it"),
    ('{"folder": 3, "metrics": {}, "there": []}', "['folder'] is 3, expected a string"),
    (
      '{"folder": "", "metrics": {"a": "low"}, "there": []}',
      """['a'] is "low", expected a number""",
    ),
    ('{"folder": "", "metrics": {"a": true}, "there": []}', "['a'] is true, expected a number"),
    ('{"folder": "", "metrics": {}, "there": ["", 3]}', "['there'][1] is 3, expected a string"),
    ('{"folder": "", "metrics": {}, "there": [], "n": ""}', """is "", expected an int, or None"""),
    ("[" * 100_000, "too many brackets"),
  ],
)
def test_what_has_not(text, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    json_form.parse(text, RECORD)


def test_a_key_that_nobody_expects():
  with pytest.raises(ValueError, match="'b' is unknown in it"):
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


def test_a_file_is_written_and_read_and_damage_names_it(tmp_path):
  for path in (f"{tmp_path}/a.json", "ram://json_form/a.json"):
    assert json_form.read(path, dict, "remove it") is None
    json_form.write(path, {20: {"loss": 0.5}})
    assert json_form.read(path, dict[int, dict[str, float]], "remove it") == {20: {"loss": 0.5}}
    storage.write(path, storage.read(path).replace("0.5", "0.7"))
    with pytest.raises(errors.FileDamagedError, match=r"a\.json is damaged \(.*\): remove it\.$"):
      json_form.read(path, dict, "remove it")


def test_a_file_that_cannot_be_read_or_written(tmp_path):
  with pytest.raises(errors.FileDamagedError, match=f"^Cannot read {tmp_path}: Is a directory"):
    json_form.read(str(tmp_path), dict, "remove it")
  with pytest.raises(errors.OutputError, match=r"Cannot write .*a\.json "):
    json_form.write(f"{tmp_path}/gone/a.json", {})


def test_a_key_that_is_no_number():
  with pytest.raises(ValueError, match=r"\['eval'\] has the key 'last', expected int"):
    json_form.parse('{"eval": {"last": 1}}', dict[str, dict[int, int]])


def test_a_damaged_line_is_named_by_its_number_or_left_out(caplog):
  lines = ['{"step": 1}', "", '{"step": "2"}', '{"step": 3}']
  with pytest.raises(errors.FileDamagedError, match=r"a\.jsonl, line 3 is damaged .*: remove it"):
    list(json_form.parse_lines(lines, {"step": int}, "a.jsonl", "remove it"))
  assert list(json_form.parse_lines(lines, {"step": int}, "a.jsonl")) == [{"step": 1}, {"step": 3}]
  assert "a.jsonl, line 3 is damaged" in caplog.text
