"""python -m trainer.pjrt runs a saved program without TensorFlow."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from tests.trainer.pjrt import conftest
from trainer import errors
from trainer.pjrt import installed, main, saved_program

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _flags_are_parsed():
  if not flags.FLAGS.is_parsed():
    flags.FLAGS(["test"])


@pytest.fixture
def folder(tmp_path, code):
  saved_program.write(
    tmp_path / "saved",
    code,
    values=conftest.VALUES,
    inputs=conftest.INPUTS,
    expected=conftest.EXPECTED,
  )
  return str(tmp_path / "saved")


def printed(capsys):
  return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())


def test_it_runs_and_compares(folder, capsys):
  with flagsaver.flagsaver(runs=3):
    assert main.main(["", folder]) == 0
  out = printed(capsys)
  assert out["devices"].startswith("8 XLA devices (cpu, cpu), jax ")
  assert out["program"].startswith("compiled (the folder has no compiled form) in ")
  assert out["steps"].startswith("20 a run, ")
  assert "fastest of 3" in out["run"]
  assert out["expected"] == "agrees: 0 at the most (all), tolerance 1e-05"
  assert float(out["total"]) == conftest.EXPECTED["total"].mean()


def test_it_says_what_differs(tmp_path, code, capsys):
  expected = {**conftest.EXPECTED, "own": conftest.EXPECTED["own"] * 2}
  saved_program.write(
    tmp_path / "saved", code, values=conftest.VALUES, inputs=conftest.INPUTS, expected=expected
  )
  assert main.main(["", str(tmp_path / "saved")]) == 1
  assert printed(capsys)["expected"] == "differs: 0.5 at the most (own), tolerance 1e-05"


def test_it_keeps_the_compiled_form(folder, capsys):
  with flagsaver.flagsaver(save_compiled=True):
    assert main.main(["", folder]) == 0
  assert printed(capsys)["saved"].startswith("the compiled form, ")
  assert main.main(["", folder]) == 0
  out = printed(capsys)
  assert out["program"].startswith("loaded in ")
  assert out["expected"].startswith("agrees")


def test_a_program_without_values_is_not_run(tmp_path, code):
  saved_program.write(tmp_path / "saved", code)
  with pytest.raises(errors.SettingError, match="without values or without input"):
    main.main(["", str(tmp_path / "saved")])


@pytest.mark.parametrize(
  "arguments, problem",
  [([], "Give one folder"), (["a", "b"], "Give one folder"), (["gs://b/a"], "is a URL")],
)
def test_it_takes_one_folder(arguments, problem):
  with pytest.raises(errors.SettingError, match=problem):
    main.main(["", *arguments])


def test_no_jax_is_said_first(monkeypatch, tmp_path):
  def absent(platform):
    raise errors.VersionError("jax is not installed")

  monkeypatch.setattr(installed, "require", absent)
  with pytest.raises(errors.VersionError, match="jax is not installed"):
    main.main(["", str(tmp_path / "none")])


def test_a_folder_without_a_program(connected, tmp_path):
  with pytest.raises(errors.SettingError, match="has no saved program"):
    main.main(["", str(tmp_path)])


def test_tensorflow_is_not_imported(folder):
  code = """
import sys
from absl import flags
from trainer.pjrt import main
flags.FLAGS(["test"])
assert main.main(["", sys.argv[1]]) == 0
print([name for name in ("tensorflow", "keras") if name in sys.modules])
"""
  done = subprocess.run(
    [sys.executable, "-c", code, folder],
    cwd=ROOT,
    env={**os.environ, "JAX_PLATFORMS": "cpu"},
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )
  assert done.stdout.endswith("[]\n"), done.stdout + done.stderr
  np.testing.assert_equal(done.returncode, 0)
