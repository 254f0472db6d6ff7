"""Compares an export with its model before the publication of the export.

Another process without Octet loads the SavedModel and runs each signature on a real batch. Its
outputs must equal the model's outputs in this process: probabilities up to 1e-5, other floats up to
1e-5 of the largest value, anything else exactly.

That process imports TensorFlow while this one still builds the graph, so the import costs no time.
Afterwards it waits for further exports. The process ends with this one, or after ten minutes
without a request.
"""

import dataclasses
import os
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from trainer import errors
from trainer.cli import kept_process
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


# The process runs exports and must not import Octet, so it is no program of `processes.answer`.
_lock = threading.Lock()
_worker: kept_process.KeptProcess | None = None


def prepare() -> None:
  """Starts the other process if it does not run, and does not wait for it."""
  global _worker
  with _lock:
    if _worker is None or not _worker.is_alive():
      # The process must use CPUs only: this one holds the other devices.
      surroundings = dict(
        os.environ, CUDA_VISIBLE_DEVICES="-1", TPU_LOAD_LIBRARY="0", TF_CPP_MIN_LOG_LEVEL="2"
      )
      # -P: otherwise Python searches this folder first, and finds `tables` and others here.
      command = [sys.executable, "-P", check_saved_model.__file__]
      _worker = kept_process.KeptProcess(command, surroundings, _ANSWER_SECS)


def _ask(request):
  """Sends a request; returns its error as text, or None if it succeeded."""
  assert _worker is not None  # `prepare` has started it
  try:
    return _worker.ask(request)["error"]
  except kept_process.EndedError as error:
    return f"the process of the check {error}"


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
        "inputs": os.path.join(folder, f"{number}-inputs"),
        "outputs": os.path.join(folder, f"{number}-outputs"),
      }
      with open(call["inputs"], "wb") as file:
        file.write(check_saved_model.pack(check.inputs))
      calls.append(call)
    path = saved_model if "://" in saved_model else os.path.abspath(saved_model)
    with _lock, files.plain_path(path) as plain:
      failed = _ask({"saved_model": plain, "calls": calls})
    if failed:
      raise errors.ExportError(f"The export does not work without Octet: {failed}")
    differences = {}
    for check, call in zip(checks, calls, strict=True):
      with open(call["outputs"], "rb") as file:
        found = check_saved_model.unpack(file.read())
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
  """Compares outputs; returns the largest difference of each output by name.

  Args:
    expected: the model's outputs, name → array.
    found: the outputs to check, name → array.
    what: the source of the outputs, for messages.
    tolerance: the largest allowed difference of probabilities and, as a share of the largest value,
      of other floats.

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
