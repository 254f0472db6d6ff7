"""Which cases are measured, and what a process that dies leaves. No process measures here."""

import signal

import pytest

from trainer import errors
from trainer.compare import results, runner, workloads

NET = workloads.Workload("net", "net.gin", batch_sizes=[8, 16])
CASES = [workloads.Case(NET, size) for size in NET.batch_sizes]
GOOD = {
  "status": results.OK,
  "seconds": 0.5,
  "low": 0.4,
  "high": 0.6,
  "examples_per_second": 16.0,
  "hardware": "a CPU",
  "machine": {"host": "laptop"},
}
BAD = {"status": results.OUT_OF_MEMORY, "problem": "no room"}


class Worker:
  """Stands in for the processes: gives answers by (device, batch size), and notes the requests."""

  def __init__(self, monkeypatch, answers=(), there=None):
    self.requests = []
    self.answers = dict(answers)
    self.there = there
    monkeypatch.setattr(runner.Runner, "_ask", self.ask)

  def ask(self, request, name, environment):
    if request["mode"] == "devices":
      return dict(self.there)
    case = request["device"], request["batch_size"]
    self.requests.append((*case, environment))
    return self.answers.get(case, GOOD)


def quiet(tmp_path, **more):
  return runner.Runner(str(tmp_path), tell=lambda line: None, **more)


def test_a_case_that_fails_has_a_row_and_the_others_go_on(tmp_path, monkeypatch):
  Worker(monkeypatch, {("cpu", 8): BAD})
  rows = quiet(tmp_path).measure_missing(CASES, ["cpu", "gpu"])
  assert [(row.device, row.batch_size, row.status, row.problem) for row in rows] == [
    ("cpu", 8, "out of memory", "no room"),
    ("gpu", 8, "ok", ""),
    ("cpu", 16, "ok", ""),
    ("gpu", 16, "ok", ""),
  ]
  assert results.read(str(tmp_path / "results.jsonl")) == rows


def test_a_comparison_goes_on_where_it_stopped(tmp_path, monkeypatch):
  worker = Worker(monkeypatch)
  quiet(tmp_path).measure_missing(CASES[:1], ["cpu", "gpu"])
  worker.answers = {("cpu", 16): BAD}
  quiet(tmp_path).measure_missing(CASES, ["cpu"])
  rows = quiet(tmp_path).measure_missing(CASES, ["cpu"])
  # What is there is not measured again; what failed is.
  assert [request[:2] for request in worker.requests] == [
    ("cpu", 8),
    ("gpu", 8),
    ("cpu", 16),
    ("cpu", 16),
  ]
  assert len(rows) == 2
  quiet(tmp_path, precision="bfloat16").measure_missing(CASES[:1], ["cpu"])
  assert len(worker.requests) == 5


def test_a_cpu_is_measured_without_gpus(tmp_path, monkeypatch):
  worker = Worker(monkeypatch)
  quiet(tmp_path).measure_missing(CASES[:1], ["cpu:8", "xla:8", "gpu", "xla:gpu"])
  without = {"CUDA_VISIBLE_DEVICES": "-1"}
  assert [request[2] for request in worker.requests] == [without, without, {}, {}]


@pytest.mark.parametrize(
  ("asked", "there", "devices", "skipped"),
  [
    ("auto", {"gpu": 0, "tpu": 0}, ["cpu", "cpu:8"], ["gpu", "tpu"]),
    ("auto", {"gpu": 2, "tpu": 1}, ["cpu", "cpu:8", "gpu", "tpu"], []),
    ("gpu,cpu", {"gpu": 2, "tpu": 0}, ["gpu", "cpu"], []),
    ("cpu:4,cpu", None, ["cpu:4", "cpu"], []),
    ("xla:8,cpu", None, ["xla:8", "cpu"], []),
    ("xla:8,xla:gpu:2", {"gpu": 0, "xla:gpu": 2, "tpu": 0}, ["xla:8", "xla:gpu:2"], []),
  ],
)
def test_devices(tmp_path, monkeypatch, asked, there, devices, skipped):
  Worker(monkeypatch, there=there)
  found, absent = quiet(tmp_path).devices(asked)
  assert (found, [*absent]) == (devices, skipped)


@pytest.mark.parametrize(
  ("asked", "message"),
  [
    ("cpu,gpu", "this machine has no gpu .TensorFlow sees no GPU"),
    ("tpu", "this machine has no tpu .there is no sign"),
    ("gpu:3", "expected auto"),
    ("xla:gpu", "this machine has no xla:gpu .no GPU, or no jax plug-in"),
    ("toaster", "expected auto"),
    ("tpu:8", "expected auto"),
    ("xla:gpu:0", "expected auto"),
    ("auto,cpu", "expected auto"),
    ("cpu:0", "expected auto"),
    ("xla", "expected auto"),
    ("", "expected auto"),
  ],
)
def test_a_device_that_is_named_must_be_there(tmp_path, monkeypatch, asked, message):
  Worker(monkeypatch, there={"gpu": 0, "xla:gpu": 0, "tpu": 0})
  with pytest.raises(errors.SettingError, match=message):
    quiet(tmp_path).devices(asked)


def test_what_a_dead_process_said_is_told(tmp_path):
  log = tmp_path / "log.txt"
  log.write_text("last words\n")
  found = runner.failure(-signal.SIGABRT, str(log), 60)
  assert found["status"] == results.FAILED
  assert "SIGABRT: last words" in found["problem"]
  assert runner.failure(-signal.SIGKILL, str(log), 60)["status"] == results.OUT_OF_MEMORY
  assert runner.failure(None, str(log), 0.3)["status"] == results.OUT_OF_TIME


def test_a_log_that_cannot_be_written(tmp_path):
  (tmp_path / "logs").write_text("")
  with pytest.raises(errors.OutputError, match="Cannot make the folder .*logs .--output."):
    runner.open_log(str(tmp_path / "logs" / "log.txt"))
