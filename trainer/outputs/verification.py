"""Compares an export with its model before the publication of the export.

Another process without Octet loads the SavedModel and runs each signature on a real batch. Its
outputs must equal the model's outputs in this process: probabilities up to 1e-5, other floats up to
1e-5 of the largest value, anything else exactly.

That process imports TensorFlow while this one still builds the graph, so the import costs no time.
Afterwards it waits for further exports. The process ends with this one, or after ten minutes
without a request.
"""

import atexit
import dataclasses
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from trainer import errors
from trainer.cli import json_lines, processes
from trainer.io import files
from trainer.outputs import check_saved_model

TOLERANCE = 1e-5
_PROBABILITIES = ("probabilities", "scores")
_ANSWER_SECS = 600.0


@dataclasses.dataclass(frozen=True)
class Check:
  """A call of a signature with its expected outputs.

  Attributes:
    signature: the signature's name.
    inputs: name → array. Strings are bytes in an array of objects.
    expected: name → array.
  """

  signature: str
  inputs: Mapping[str, np.ndarray]
  expected: Mapping[str, np.ndarray]


class _Worker:
  """The process that runs exports, see `check_saved_model`.

  `processes.ask` does not fit. The process answers many requests, since it takes seconds to import
  TensorFlow; and it must not import Octet, as a program of `processes.answer` does.
  """

  def __init__(self):
    # The process must use CPUs only: this one holds the other devices.
    surroundings = dict(
      os.environ, CUDA_VISIBLE_DEVICES="-1", TPU_LOAD_LIBRARY="0", TF_CPP_MIN_LOG_LEVEL="2"
    )
    self.owner = os.getpid()
    self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115  open as long as the process runs
    ours, theirs = socket.socketpair()
    ours.settimeout(_ANSWER_SECS)
    self._connection = json_lines.Connection(ours)
    with theirs:
      self._process = subprocess.Popen(
        [sys.executable, "-P", check_saved_model.__file__],
        stdin=theirs,
        stdout=self._printed,
        stderr=self._printed,
        env=surroundings,
      )

  def is_alive(self):
    return self._process.poll() is None

  def ask(self, request):
    """Sends a request; returns its error as text, or None if it succeeded."""
    try:
      self._connection.send(request)
      while (answers := self._connection.receive()) == []:
        pass
    except TimeoutError:
      self.end()
      return f"no answer for {_ANSWER_SECS:.0f} s"
    except OSError:  # The process ended.
      answers = None
    except BaseException:
      # KeyboardInterrupt: the next request must not get the answer to this one.
      self.end()
      raise
    if answers:
      return answers[0]["error"]
    self.end()
    self._printed.seek(0)
    printed = self._printed.read().strip().splitlines()[-3:]
    ended = processes.how_it_ended(self._process.returncode)
    return f"the process of the check {ended}: {' '.join(printed)}"

  def end(self):
    """Ends the process, if it still runs."""
    self._connection.close()
    self._process.kill()
    self._process.wait()


_lock = threading.Lock()
_worker: _Worker | None = None


def prepare() -> None:
  """Starts the other process if it does not run, and does not wait for it."""
  global _worker
  with _lock:
    # A fork inherits this object, but the pipe belongs to its parent.
    if _worker is None or _worker.owner != os.getpid() or not _worker.is_alive():
      _worker = _Worker()


@atexit.register
def _end():
  if _worker is not None and _worker.owner == os.getpid():
    _worker.end()


def verify(saved_model: str, checks: Sequence[Check]) -> dict[str, dict[str, float]]:
  """Runs checks in the other process.

  Args:
    saved_model: the SavedModel's folder.
    checks: the calls. Without calls, the process only loads the SavedModel.

  Returns:
    Signature → {output: largest difference}.

  Raises:
    ExportError: an output differs (the message names it and the difference), or the SavedModel does
      not load or run.
  """
  prepare()
  with tempfile.TemporaryDirectory() as folder:
    calls = []
    for number, check in enumerate(checks):
      call = {
        "signature": check.signature,
        "inputs": os.path.join(folder, f"{number}-inputs.npz"),
        "outputs": os.path.join(folder, f"{number}-outputs.npz"),
      }
      np.savez(call["inputs"], **check_saved_model.pack(check.inputs))
      calls.append(call)
    path = saved_model if "://" in saved_model else os.path.abspath(saved_model)
    assert _worker is not None  # `prepare` has started the process.
    with _lock, files.plain_path(path) as plain:
      failed = _worker.ask({"saved_model": plain, "calls": calls})
    if failed:
      raise errors.ExportError(f"The export does not work without Octet: {failed}")
    differences = {}
    for check, call in zip(checks, calls, strict=True):
      with np.load(call["outputs"]) as file:
        found = check_saved_model.unpack(file)
      differences[check.signature] = compare(
        check.expected, found, f"The export's signature {check.signature!r}"
      )
  return differences


def compare(
  expected: Mapping[str, np.ndarray],
  found: Mapping[str, np.ndarray],
  what: str,
  tolerance: float = TOLERANCE,
) -> dict[str, float]:
  """Compares outputs.

  Args:
    expected: the model's outputs, name → array.
    found: the outputs to check, name → array.
    what: the source of the outputs, for messages.
    tolerance: the largest allowed difference of probabilities and, as a share of the largest value,
      of other floats.

  Returns:
    Output → largest difference.

  Raises:
    ExportError: the names or shapes differ, or a difference is too large.
  """
  if set(expected) != set(found):
    raise errors.ExportError(
      f"{what} gives {', '.join(sorted(found))}; the model gives {', '.join(sorted(expected))}."
    )
  return {
    name: _difference(name, np.asarray(expected[name]), np.asarray(found[name]), what, tolerance)
    for name in sorted(expected)
  }


def _difference(name, expected, found, what, tolerance):
  if expected.shape != found.shape:
    raise errors.ExportError(
      f"{what}: the output {name!r} has the shape {list(found.shape)}; the model gives "
      f"{list(expected.shape)}."
    )
  if expected.dtype.kind not in "fV":
    wrong = int(np.sum(expected != found))
    if wrong:
      raise errors.ExportError(
        f"{what}: the output {name!r} differs from the model's in {wrong} of {found.size} values."
      )
    return 0.0
  expected, found = expected.astype(np.float64), found.astype(np.float64)
  finite = np.isfinite(expected)
  if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
    raise errors.ExportError(
      f"{what}: the output {name!r} has NaN or infinite values at other places than the model's."
    )
  largest = float(np.max(np.abs(expected[finite]), initial=0.0))
  difference = float(np.max(np.abs(expected[finite] - found[finite]), initial=0.0))
  allowed = tolerance if name in _PROBABILITIES else tolerance * largest
  if not difference <= allowed:
    raise errors.ExportError(
      f"{what}: the output {name!r} differs from the model's by {difference:.3g}, more than "
      f"{allowed:.3g} (the largest value is {largest:.3g})."
    )
  return difference
