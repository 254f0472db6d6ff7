"""What a tracking hook has its thread do, and when."""

import types

import pytest

from trainer.loop import preemption
from trainer.tracking import hook, run_files, sender


class Tracker:
  """Notes what it is asked for."""

  def __init__(self, calls):
    self.calls = calls

  def set_parameters(self, parameters):
    self.calls.append(("parameters", parameters))

  def close(self, status):
    self.calls.append(("close", status))


class Sender:
  """Runs what it is asked at once."""

  def __init__(self, calls, tracker, model_dir, step, seconds):
    self.calls = calls
    calls.append(("begin", step, seconds))

  def start(self):
    pass

  def ask(self, function):
    function()

  def wait(self, patience):
    self.calls.append(("wait", patience))

  def stop(self):
    self.calls.append("stop")


@pytest.fixture
def calls(monkeypatch):
  calls = []
  monkeypatch.setattr(sender, "Sender", lambda *args: Sender(calls, *args))
  monkeypatch.setattr(run_files, "parameters", lambda model_dir: {"lr": "0.1"})
  monkeypatch.setattr(run_files, "send", lambda tracker, folder, wanted: calls.append(list(wanted)))
  return calls


def make(calls, artifacts=run_files.ALL):
  made = hook.TrackingHook()
  made.artifacts = artifacts
  made.make_tracker = lambda model_dir: Tracker(calls)
  return made


def estimator(is_chief=True, step=10):
  device = types.SimpleNamespace(is_chief=is_chief)
  return types.SimpleNamespace(device=device, model_dir="/run", latest_step=lambda: step)


BEGIN = ("begin", 10, 5.0)
PARAMETERS = ("parameters", {"lr": "0.1"})
FINISHED = [("close", "FINISHED"), ("wait", 60.0)]


def test_parameters_are_sent_after_the_second_loop_once(calls):
  made, one = make(calls), estimator()
  made.begin(one)
  made(20, {}, one)
  assert calls == [BEGIN]
  for step in (30, 40):
    made(step, {}, one)
  made.end(40, one)
  assert calls == [BEGIN, PARAMETERS, ["config"], *FINISHED]


def test_a_training_of_one_loop_sends_them_at_its_end(calls):
  made, one = make(calls, artifacts=["report"]), estimator(step=None)
  made.begin(one)
  made(20, {}, one)
  made.end(20, one)
  assert calls == [("begin", 0, 5.0), PARAMETERS, *FINISHED]


def test_files_come_after_the_last_export_and_the_thread_ends(calls):
  made, one = make(calls), estimator()
  made.begin(one)
  made.end(20, one)
  calls.clear()
  made.finished(one)
  assert calls == [["config", "report", "export"], *FINISHED, "stop"]


def test_a_process_that_only_exports_sends_all(calls):
  make(calls).finished(estimator())
  assert calls == [
    ("begin", None, 5.0),
    PARAMETERS,
    ["config"],
    ["config", "report", "export"],
    *FINISHED,
    "stop",
  ]


@pytest.mark.parametrize(
  ("error", "status"),
  [
    (ValueError("x"), "FAILED"),
    (KeyboardInterrupt(), "KILLED"),
    (preemption.Preempted(), "KILLED"),
  ],
)
def test_a_failure_hurries(calls, error, status):
  made, one = make(calls), estimator()
  made.begin(one)
  made.failed(error, one)
  made.failed(error, one)
  assert calls == [BEGIN, ("close", status), ("wait", 2.0), "stop"]


def test_only_the_chief_sends(calls):
  made, one = make(calls), estimator(is_chief=False)
  made.begin(one)
  made(20, {}, one)
  made(30, {}, one)
  made.end(30, one)
  made.failed(ValueError("x"), one)
  made.finished(one)
  assert calls == []


def test_a_second_training_has_its_own_thread_and_parameters(calls):
  made, one = make(calls, artifacts=()), estimator()
  for _ in range(2):
    made.begin(one)
    for step in (20, 30):
      made(step, {}, one)
    made.end(30, one)
  training = [BEGIN, PARAMETERS, *FINISHED]
  assert calls == [*training, "stop", *training]
