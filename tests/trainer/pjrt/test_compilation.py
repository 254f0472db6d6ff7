"""A program is compiled once: who comes after loads its compiled form, where it can be used."""

import dataclasses

import numpy as np
import pytest

from tests.trainer.pjrt import conftest
from trainer.pjrt import compiled_forms, program

compilation = pytest.importorskip("trainer.pjrt.compilation")  # where jax is installed
device_values = pytest.importorskip("trainer.pjrt.device_values")
jaxlib_internals = pytest.importorskip("trainer.pjrt.jaxlib_internals")


def source(code, digest="of the code", versions=None):
  return program.Source(code, digest, versions or {}, lambda: code)


def results(connected, executable):
  values = device_values.DeviceValues(connected)
  values.put(executable.program.variables, conftest.VALUES)
  inputs = executable.put_inputs({name: list(each) for name, each in conftest.INPUTS.items()})
  found = executable.run(values, inputs, {program.COUNT: np.int32(20)}).read()
  return {**values.read(), **found}


@pytest.fixture
def compile_in(connected, code, caplog, monkeypatch):
  """Function of a folder: what a new process logs that compiles the code, and how often it does."""
  compiled = []
  compile_for = jaxlib_internals.compile_for

  def count(*args):
    compiled.append(args)
    return compile_for(*args)

  monkeypatch.setattr(jaxlib_internals, "compile_for", count)

  def compile_(folder, given=None):
    given = given or source(code)
    caplog.clear()
    compiled.clear()
    with caplog.at_level("INFO", logger="absl"):
      executable = compilation.Compiler(connected, str(folder)).compile(given, "train")
    found = results(connected, executable)
    assert found.keys() == conftest.EXPECTED.keys()
    for name, value in found.items():
      np.testing.assert_array_equal(value, conftest.EXPECTED[name], strict=True)
    return caplog.text, len(compiled)

  return compile_


def test_the_second_process_finds_the_compiled_form(tmp_path, compile_in):
  folder = tmp_path / "compiled"
  log, count = compile_in(folder)
  assert (count, "Compiled the program of train in " in log) == (1, True)
  assert "s: the folder has no compiled form." in log
  log, count = compile_in(folder)
  assert count == 0
  assert f"Found the program of train compiled in {folder}, and loaded it" in log
  assert "Compiled" not in log


def test_without_a_folder_each_compiles(compile_in):
  assert [compile_in("")[1] for _ in range(2)] == [1, 1]


def test_what_is_found_is_never_lowered(tmp_path, compile_in, connected, code):
  lowered = []

  def lower():
    lowered.append(code)
    return code

  unlowered = program.Source(dataclasses.replace(code, code=b""), "of the code", {}, lower)
  for _ in range(2):
    compilation.Compiler(connected, str(tmp_path)).prepare(unlowered)
    compile_in(tmp_path, unlowered)
    assert len(lowered) == 2  # both times at first
  compilation.Compiler(connected).prepare(unlowered)
  assert len(lowered) == 3


@pytest.mark.parametrize(
  "other, why",
  [
    (dict(digest="another"), "the folder has compiled forms of other programs"),
    (
      dict(versions={"tensorflow": "2.20.0"}),
      "the compiled form is for another tensorflow (None, here 2.20.0)",
    ),
  ],
)
def test_other_program_or_versions_get_their_own_form(tmp_path, compile_in, code, other, why):
  compile_in(tmp_path)
  log, count = compile_in(tmp_path, source(code, **other))
  assert (count, f"s: {why}." in log) == (1, True)
  assert len(list(tmp_path.iterdir())) == 2
  assert compile_in(tmp_path, source(code, **other))[1] == 0


def test_what_cannot_be_used_is_told_once_and_written_anew(tmp_path, compile_in):
  compile_in(tmp_path)
  (path,) = tmp_path.iterdir()
  path.write_bytes(path.read_bytes()[:-1])
  log, count = compile_in(tmp_path)
  assert (count, "Compiling the program" in log, "does not have its checksum" in log) == (
    1,
    True,
    True,
  )
  log, count = compile_in(tmp_path)
  assert (count, "Compiling" in log) == (0, False)


def test_a_form_that_jaxlib_refuses_is_compiled_anew(tmp_path, compile_in, connected, code):
  forms = compiled_forms.CompiledForms(tmp_path)
  forms.add("of the code", connected.key, b"no machine code")
  log, count = compile_in(tmp_path)
  assert (count, "Compiling the program" in log) == (1, True)
  assert compile_in(tmp_path)[1] == 0


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, compile_in):
  (tmp_path / "file").write_text("")
  log, count = compile_in(tmp_path / "file" / "compiled")
  assert (count, "Cannot keep the compiled program (--compiled)" in log) == (1, True)
