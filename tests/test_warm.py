"""A fork of the warm process is what `python` is: arguments, path, streams, signals, exit code."""

import os
import signal
import subprocess
import sys

import pytest

from tests import warm

SHOWN = """
import os, sys
print(__name__, sys.argv, sys.path[0], os.getcwd(), os.environ.get("HERE"))
print("aside", file=sys.stderr)
"""


@pytest.mark.parametrize("how", ["-c", "-m", "-P", "a file"])
def test_a_program_is_started_as_python_starts_it(how, tmp_path):
  (tmp_path / "shown.py").write_text(SHOWN)
  path = tmp_path / "shown.py"
  program = {"-c": ["-c", SHOWN], "-m": ["-m", "shown"], "-P": ["-P", path], "a file": [path]}[how]
  environment = {**os.environ, "HERE": "1"}
  done = warm.run(*program, "--a=1", 2, cwd=tmp_path, env=environment)
  command = [sys.executable, *map(str, program), "--a=1", "2"]
  wanted = subprocess.run(
    command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
  )
  assert (done.returncode, done.stdout, done.stderr) == (0, wanted.stdout, wanted.stderr)


def test_tensorflow_is_there_and_nothing_of_octet():
  code = "import sys; print([name in sys.modules for name in ('tensorflow', 'keras', 'trainer')])"
  assert warm.run("-c", code).stdout == "[True, True, False]\n"


@pytest.mark.parametrize(
  ("code", "exit_code", "said"),
  [
    ("raise SystemExit(3)", 3, ""),
    ("raise SystemExit('no')", 1, "no\n"),
    ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
    ("import os; os.abort()", -signal.SIGABRT, ""),
    ("import atexit, os; atexit.register(os.write, 2, b'at exit')", 0, "at exit"),
  ],
)
def test_how_it_ends(code, exit_code, said):
  done = warm.run("-c", code)
  assert done.returncode == exit_code
  assert done.stderr.endswith(said)


def test_signals_and_times_are_its_own():
  before = warm.spent_seconds
  code = "import time; print(1, flush=True)\nwhile True: time.sleep(0.01)"
  first, second = (warm.start("-c", code) for _ in range(2))
  assert [first.stdout.readline(), second.stdout.readline()] == ["1\n", "1\n"]
  first.send_signal(signal.SIGINT)
  _, error = first.communicate(timeout=60)
  assert error.endswith("KeyboardInterrupt\n")
  assert first.returncode in (1, -signal.SIGINT)
  assert second.poll() is None
  with pytest.raises(subprocess.TimeoutExpired):
    second.communicate(timeout=0.01)
  assert second.wait(60) == -signal.SIGKILL
  assert warm.spent_seconds > before


def test_no_two_draw_the_same():
  code = "import random, numpy; print(random.random(), numpy.random.rand())"
  assert len({number for _ in range(2) for number in warm.run("-c", code).stdout.split()}) == 4
