"""A saved program comes back as it was, or not at all. None of this needs jax."""

import dataclasses
import json

import numpy as np
import pytest

from tests.trainer.pjrt import conftest
from trainer import __version__, errors
from trainer.io import json_form
from trainer.pjrt import program, saved_program

KEY = {"platform": "cpu", "devices": "cpu", "jaxlib": "0.10.2"}


@pytest.fixture
def folder(tmp_path, untested_code):
  saved_program.write(
    tmp_path / "saved",
    untested_code,
    values=conftest.VALUES,
    inputs=conftest.INPUTS,
    expected=conftest.EXPECTED,
    versions={"tensorflow": "2.21.0"},
  )
  return tmp_path / "saved"


def test_round_trip(folder, untested_code):
  saved = saved_program.read(folder)
  assert saved.program == untested_code
  assert saved.versions == {"octet": __version__, "tensorflow": "2.21.0"}
  for given, found in (
    (conftest.VALUES, saved.values),
    (conftest.INPUTS, saved.inputs),
    (conftest.EXPECTED, saved.expected),
  ):
    assert given.keys() == found.keys()
    for name, value in given.items():
      np.testing.assert_array_equal(found[name], value)
      assert found[name].dtype == value.dtype
  assert {path.name for path in folder.parent.iterdir()} == {"saved"}


def test_bfloat16_and_names_with_slashes(tmp_path):
  spec = dict(name="dense/kernel", shape=(2,), dtype="bfloat16")
  code = program.Program(
    b"code",
    (program.Argument(**spec, role=program.Role.VARIABLE),),
    (program.Result(**spec, updates=True),),
    1,
  )
  value = np.array([1.5, -2], "bfloat16")
  saved_program.write(tmp_path / "saved", code, values={"dense/kernel": value})
  saved = saved_program.read(tmp_path / "saved")
  assert saved.values["dense/kernel"].dtype == value.dtype
  np.testing.assert_array_equal(saved.values["dense/kernel"], value)
  assert saved.program == code
  assert saved.inputs == {}


def test_a_folder_that_is_there_is_left_alone(folder, untested_code):
  before = {path.name: path.read_bytes() for path in folder.iterdir()}
  with pytest.raises(errors.SettingError, match="is there already"):
    saved_program.write(folder, untested_code)
  assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_cannot_be_written_leaves_nothing(tmp_path, untested_code):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.OutputError, match="Cannot write"):
    saved_program.write(tmp_path / "file" / "saved", untested_code)
  assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_values_that_do_not_fit_are_not_written(tmp_path, untested_code):
  with pytest.raises(errors.SettingError, match="w is float32\\[2\\], expected float32\\[3\\]"):
    saved_program.write(
      tmp_path / "saved", untested_code, values={**conftest.VALUES, "w": np.zeros(2, np.float32)}
    )
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
  "name", ["program.json", "program.stablehlo", "values.npz", "inputs.npz", "expected.npz"]
)
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_damage_is_one_sentence(folder, name, damage):
  path = folder / name
  content = path.read_bytes()
  if damage == "gone":
    path.unlink()
  else:
    changed = content[:-1] + bytes([content[-1] ^ 1])
    if name == "program.json":  # whose last letter is a line end
      changed = content.replace(b'"w"', b'"v"')
    path.write_bytes(content[: len(content) // 2] if damage == "cut" else changed)
  is_absent = damage == "gone" and name == "program.json"
  error = errors.SettingError if is_absent else errors.FileDamagedError
  with pytest.raises(error) as caught:
    saved_program.read(folder)
  assert str(path) in str(caught.value)
  assert "\n" not in str(caught.value)


def test_a_record_whose_parts_do_not_fit_is_damaged(folder):
  record = json.loads((folder / "program.json").read_text())
  del record[json_form.CHECKSUM]
  record["arguments"][0]["role"] = "what"
  (folder / "program.json").write_text(json.dumps(record))
  with pytest.raises(errors.FileDamagedError, match="'what' is not a valid Role"):
    saved_program.read(folder)


def test_a_later_format_is_told(folder):
  (folder / "program.json").write_text(json_form.dump({"format": 2, "all": "new"}))
  with pytest.raises(errors.SettingError, match="format 2, and this Octet reads format 1"):
    saved_program.read(folder)


def test_a_compiled_form_is_for_its_devices_and_versions(folder):
  saved = saved_program.read(folder)
  assert saved.compiled_for(KEY) == (None, "the folder has no compiled form")
  saved.add_compiled(KEY, b"machine code")
  assert saved_program.read(folder).compiled_for(KEY) == (b"machine code", "")
  form, why = saved.compiled_for({**KEY, "jaxlib": "0.8.1"})
  assert form is None
  assert why == "the compiled form is for another jaxlib (0.10.2, here 0.8.1)"


def test_a_compiled_form_is_for_its_program(folder):
  saved = saved_program.read(folder)
  saved.add_compiled(KEY, b"machine code")
  other = dataclasses.replace(
    saved, program=dataclasses.replace(saved.program, code=b"another code")
  )
  assert other.compiled_for(KEY) == (None, "the folder has compiled forms of other programs")


def test_a_damaged_compiled_form_is_told(folder):
  saved = saved_program.read(folder)
  saved.add_compiled(KEY, b"machine code")
  (path,) = (folder / "compiled").iterdir()
  path.write_bytes(b"machine")
  with pytest.raises(
    errors.FileDamagedError, match="remove it; the next run compiles the program again"
  ):
    saved.compiled_for(KEY)
