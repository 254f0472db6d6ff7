"""Keeps messages of TensorFlow's C++ libraries about themselves and the machine off the terminal.

    import_noise.hide()
    import tensorflow  # some seconds later: prints nothing

TF_CPP_MIN_LOG_LEVEL does not affect messages during their loading (TensorFlow 2.21), before there
is a log. Standard error therefore passes through a separate process during the import. That process
also shows the last words of an import that aborts, as on a CPU that lacks an instruction.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

from trainer.internals import first_import

_VARIABLE = "TF_CPP_MIN_LOG_LEVEL"

_FILTER = r"""
import re, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
noise = re.compile(
  rb"WARNING: All log messages before absl::InitializeLog"
  rb"|I0000 "  # information, and the second line of one that has two
  rb"|To enable the following instructions: "
)
for line in sys.stdin.buffer:
  if not noise.match(line):
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()
"""


def hide() -> None:
  """Hides TensorFlow's messages below an error, before its import.

  A user who has set TF_CPP_MIN_LOG_LEVEL to 0 or 1 wants to see them.
  """
  if "tensorflow" in sys.modules or _finders():
    return
  # TensorFlow reads the variable at its import.
  if os.environ.setdefault(_VARIABLE, "2") not in ("0", "1"):
    sys.meta_path.insert(0, _Finder())


def show() -> None:
  """Undoes `hide`, before TensorFlow's import."""
  for finder in _finders():
    sys.meta_path.remove(finder)
    os.environ[_VARIABLE] = "0"


def _finders():
  return [finder for finder in sys.meta_path if isinstance(finder, _Finder)]


class _Finder(first_import.Finder):
  """Has TensorFlow loaded without noise."""

  def __init__(self) -> None:
    super().__init__("tensorflow", _filtered)


@contextlib.contextmanager
def _filtered() -> Iterator[None]:
  """Sends the process's standard error through the filter while the context is open."""
  try:
    kept = os.dup(2)
  except OSError:  # it is closed
    yield
    return
  command = [sys.executable, "-I", "-S", "-c", _FILTER]
  with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
    assert process.stdin is not None
    os.dup2(process.stdin.fileno(), 2)
    try:
      yield
    finally:
      sys.stderr.flush()
      os.dup2(kept, 2)
      os.close(kept)  # then the pipe, at whose end the filter ends; Popen waits for it
