"""What an import of TensorFlow prints of itself is not shown; all else is, also of one that
aborts.
"""

import os
import subprocess
import sys

import pytest

from tests.trainer.internals import names_asked_for
from trainer.internals import import_noise

ROOT = names_asked_for.__file__.rpartition("/tests/")[0]

# Stands for TensorFlow: its libraries write to the file descriptor.
TENSORFLOW = r"""
import os
os.write(2, b'''WARNING: All log messages before absl::InitializeLog() is called
I0000 00:00:1795387201.593981   28629 port.cc:153] oneDNN custom operations are on.
W0000 00:00:1795387201.593982   28629 computation_placer.cc:177] a warning
''')
if os.environ.get("ABORTS"):
  os.write(2, b"The TensorFlow library was compiled to use AVX instructions\n")
  os.abort()
"""

PROGRAM = """
import os, sys
from trainer.internals import import_noise  # with trainer, whose import hides it
if "hide" not in sys.argv: import_noise.show()
print("before", file=sys.stderr)
import tensorflow
print(os.environ["TF_CPP_MIN_LOG_LEVEL"], file=sys.stderr)
left = [finder for finder in sys.meta_path if "noise" in type(finder).__module__]
print("after", tensorflow.__name__, len(left), file=sys.stderr)
"""


@pytest.fixture
def run(tmp_path):
  """Runs PROGRAM with an argument; gives (returncode, lines of stderr)."""
  (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
  (tmp_path / "program.py").write_text(PROGRAM)

  without = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}

  def run(*arguments, **environment):
    done = subprocess.run(
      [sys.executable, "program.py", *arguments],
      cwd=tmp_path,
      env={**without, "PYTHONPATH": ROOT, **environment},
      stderr=subprocess.PIPE,
      text=True,
      timeout=60,
      check=False,
    )
    return done.returncode, [line.split("]")[-1].strip() for line in done.stderr.splitlines()]

  return run


def test_noise_is_hidden_and_warnings_are_shown_in_their_place(run):
  assert run("hide") == (0, ["before", "a warning", "2", "after tensorflow 0"])


def test_the_last_words_of_an_import_that_aborts_are_shown(run):
  code, lines = run("hide", ABORTS="1")
  assert code < 0
  assert lines[-1].endswith("was compiled to use AVX instructions")


def test_without_it_all_is_shown(run):
  lines = run()[1]
  assert len(lines) == 6
  assert lines[-2] == "0"


@pytest.mark.parametrize("level, lines", [("0", 6), ("1", 6), ("3", 4)])
def test_who_has_set_the_variable_sees_what_it_says(run, level, lines):
  assert len(run("hide", TF_CPP_MIN_LOG_LEVEL=level)[1]) == lines


def test_after_the_import_there_is_nothing_to_hide():
  before = list(sys.meta_path)
  import tensorflow  # noqa: F401

  import_noise.hide()
  assert sys.meta_path == before
