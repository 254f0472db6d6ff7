"""Processes that measure one case: every failure is an answer."""

import pytest
import tensorflow as tf

from trainer import errors
from trainer.compare import machine, measure, results, worker


def caused(error, cause):
  error.__cause__ = cause
  return error


@pytest.mark.parametrize(
  ("error", "status", "problem"),
  [
    (
      errors.SettingError("--batch is 3:\n  expected 8"),
      results.FAILED,
      "--batch is 3: expected 8",
    ),
    (KeyError("x"), results.FAILED, "KeyError: 'x'"),
    (MemoryError(), results.OUT_OF_MEMORY, "MemoryError:"),
    (
      caused(
        errors.ModelFnError("The step failed"), tf.errors.ResourceExhaustedError(None, None, "OOM")
      ),
      results.OUT_OF_MEMORY,
      "The step failed caused by ResourceExhaustedError: OOM",
    ),
    (ValueError("x" * 900), results.FAILED, f"ValueError: {'x' * 488}"),
  ],
)
def test_a_failure_is_a_status_and_one_line(error, status, problem, capsys):
  assert worker.failure(error) == {"status": status, "problem": problem}
  assert type(error).__name__ in capsys.readouterr().err  # the traceback, for the log


def test_a_failed_case_tells_its_machine(monkeypatch):
  monkeypatch.setattr(machine, "describe", lambda: {"cpu": "x"})
  monkeypatch.setattr(measure, "measure", lambda request: 1 / 0)
  found = worker.answer({"mode": "train"})
  assert (found["status"], found["machine"]) == (results.FAILED, {"cpu": "x"})


def test_devices_are_asked_for_without_a_measurement(monkeypatch):
  monkeypatch.setattr(machine, "devices", lambda: {"devices": ["cpu"]})
  monkeypatch.setattr(measure, "measure", lambda request: 1 / 0)
  assert worker.answer({"mode": "devices"}) == {"devices": ["cpu"]}
