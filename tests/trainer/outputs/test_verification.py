"""How large a difference may be, and what is said of one that is larger."""

import os
import signal
import threading

import numpy as np
import pytest

from trainer import errors
from trainer.outputs import verification


def compared(expected, found, name="logits"):
  return verification.compare({name: np.array(expected)}, {name: np.array(found)}, "It")[name]


def test_what_is_allowed():
  assert compared([1000.0, 1.0], [1000.009, 1.0]) == pytest.approx(0.009)
  assert compared([0.5, 0.5], [0.500009, 0.5], "probabilities") == pytest.approx(9e-6)
  assert compared([np.nan, np.inf, 1.0], [np.nan, np.inf, 1.0]) == 0
  assert compared([3, 4], [3, 4], "class") == 0
  assert compared([], []) == 0


@pytest.mark.parametrize(
  ("expected", "found", "name", "message"),
  [
    (
      [1000.0, 1.0],
      [1000.02, 1.0],
      "logits",
      r"'logits' differs from the model's by 0\.02, more "
      r"than 0\.01",
    ),
    (
      [0.5, 0.5],
      [0.50002, 0.5],
      "probabilities",
      "differs from the model's by 2e-05, more than 1e-05",
    ),
    ([3, 4], [3, 5], "class", "'class' differs from the model's in 1 of 2 values"),
    ([3, 4], [[3, 4]], "class", r"has the shape \[1, 2\]; the model gives \[2\]"),
    ([np.nan, 1.0], [1.0, 1.0], "y", "NaN or infinite values at other places"),
    ([1.0, 1.0], [np.nan, 1.0], "y", "by nan"),
  ],
)
def test_what_is_not(expected, found, name, message):
  with pytest.raises(errors.ExportError, match=f"It: the output .*{message}|{message}"):
    compared(expected, found, name)


def test_other_outputs():
  with pytest.raises(errors.ExportError, match="It gives b; the model gives a"):
    verification.compare({"a": np.zeros(1)}, {"b": np.zeros(1)}, "It")


def test_what_cannot_be_loaded(tmp_path):
  with pytest.raises(errors.ExportError, match="does not work without Octet: .*nowhere"):
    verification.verify(str(tmp_path / "nowhere"), [])


def test_ctrl_c_is_for_the_process_that_exports(tmp_path):
  """A terminal sends it to both."""
  for _ in range(2):
    with pytest.raises(errors.ExportError, match="nowhere"):
      verification.verify(str(tmp_path / "nowhere"), [])
    os.kill(verification._worker.pid, signal.SIGINT)


def test_a_process_that_dies_is_said_and_replaced(tmp_path, monkeypatch):
  # The process that other tests use has imported TensorFlow, and goes on. These two need not.
  program = tmp_path / "program.py"
  program.write_text("import sys; sys.stdin.read()")
  monkeypatch.setattr(verification.check_saved_model, "__file__", str(program))
  monkeypatch.setattr(verification, "_worker", None)
  verification.prepare()
  worker = verification._worker
  os.kill(worker.pid, signal.SIGSTOP)  # it dies while the request waits
  killed = threading.Timer(0.2, os.kill, (worker.pid, signal.SIGKILL))
  killed.start()
  with pytest.raises(errors.ExportError, match="process of the check died of SIGKILL"):
    verification.verify(str(tmp_path), [])
  verification.prepare()
  assert verification._worker is not worker
  assert verification._worker.is_alive()
  verification._worker.end()
