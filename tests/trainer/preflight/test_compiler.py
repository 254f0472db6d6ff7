"""The process around the TPU compiler, with other programs in its place."""

import types

import pytest

from trainer import errors
from trainer.cli import processes
from trainer.pjrt import program
from trainer.preflight import compiler, topology

V3 = topology.find("v3-8")
EMPTY = program.Program(b"", (), (), 8)
NOTHING = program.Source(EMPTY, "", {}, lambda: EMPTY)


@pytest.fixture
def in_its_place(tmp_path, monkeypatch):
  """Puts a shell script in the place of the process that compiles; "$4" is for its answer."""

  def put(script):
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(processes, "sys", types.SimpleNamespace(executable=str(path)))

  return put


def answer(text):
  """A script that answers with a JSON text."""
  return f"""cat > "$4" <<'END'\n{text}\nEND"""


def test_compiler_that_aborts_is_an_error_with_its_last_words(in_its_place):
  in_its_place("echo 'F0101 topology.cc:7] Check failed: HasCore(3)'; echo other; kill -ABRT $$")
  with pytest.raises(compiler.CompileError, match=r"SIGABRT.*\n.*Check failed: HasCore\(3\)"):
    compiler.compile_program(NOTHING, V3, 60)


def test_compiler_that_the_machine_kills(in_its_place):
  in_its_place("kill -KILL $$")
  with pytest.raises(compiler.CompileError, match="SIGKILL.*out of memory"):
    compiler.compile_program(NOTHING, V3, 60)


def test_compiler_that_says_nothing(in_its_place):
  in_its_place("exit 3")
  with pytest.raises(compiler.CompileError, match="exit code 3 and gave no answer"):
    compiler.compile_program(NOTHING, V3, 60)


def test_compiler_that_takes_too_long_is_ended(in_its_place):
  in_its_place("exec sleep 1000")
  with pytest.raises(compiler.CompileError, match="0.2 s.*--timeout_seconds"):
    compiler.compile_program(NOTHING, V3, timeout_seconds=0.2)


def test_refusal_is_told_in_its_words(in_its_place):
  in_its_place(answer('{"error": "INVALID_ARGUMENT: no", "versions": {}}'))
  with pytest.raises(compiler.CompileError, match="refused the program: INVALID_ARGUMENT: no"):
    compiler.compile_program(NOTHING, V3, 60)


def test_a_form_that_cannot_be_kept_is_an_error_of_the_flag(in_its_place):
  in_its_place(answer('{"unkept": "Cannot write out/x: full.", "versions": {}}'))
  with pytest.raises(errors.OutputError, match="Cannot write out/x: full.*--save"):
    compiler.compile_program(NOTHING, V3, 60, "out")


def test_memory_that_is_far_too_small(in_its_place):
  in_its_place(
    answer(
      '{"error": "RESOURCE_EXHAUSTED: the total memory required for HLO temporaries (21.50G) '
      'exceeds available HBM (15.50G). HLO", "versions": {}}'
    )
  )
  result = compiler.compile_program(NOTHING, V3, 60)
  assert (result.needed_bytes, result.available_bytes) == (21.5 * 2**30, 15.5 * 2**30)


def test_memory_that_is_too_small_for_one_array(in_its_place):
  in_its_place(
    answer(
      '{"error": "RESOURCE_EXHAUSTED: Allocation (size=34359738368) would exceed memory '
      '(size=17179869184) :: #allocation112", "versions": {}}'
    )
  )
  result = compiler.compile_program(NOTHING, V3, 60)
  assert (result.needed_bytes, result.available_bytes) == (2**35, V3.memory_bytes)


def test_memory_that_is_just_too_small(in_its_place):
  in_its_place(
    answer(
      '{"error": "RESOURCE_EXHAUSTED: Used 15.50G of 15.50G hbm. Exceeded hbm '
      'capacity by 235.0K.", "versions": {}}'
    )
  )
  result = compiler.compile_program(NOTHING, V3, 60)
  assert result.needed_bytes - result.available_bytes == 235 * 2**10
