"""Rows from the preflight's reports. The compiler itself is not called."""

import pytest

from trainer import errors
from trainer.compare import estimates, results, runner, workloads

REPORT = {
  "replicas": 8,
  "passed": True,
  "failed_stage": None,
  "problem": None,
  "padding_advice": ["axis 3 is padded"],
  "allocated_bytes": 1000,
  "estimated_step_seconds": {"low": 0.1, "high": 0.3, "bound": "memory", "source": "a roofline"},
}
NET = workloads.Workload("net", "net.gin", batch_sizes=[8])
FEW = workloads.Workload("net", "net.gin", mode="predict", batch_sizes=[8], examples=[2])
CASES = [workloads.Case(NET, 8), workloads.Case(FEW, 8, 2)]


def test_a_step_that_passed():
  found = estimates.fields(REPORT)
  assert (found["status"], found["low"], found["high"], found["cores"]) == ("ok", 0.1, 0.3, 8)
  assert (found["advice"], found["source"]) == (["axis 3 is padded"], "a roofline")


@pytest.mark.parametrize(("stage", "status"), [("fit", "out of memory"), ("trace", "failed")])
def test_a_step_that_did_not(stage, status):
  report = dict(REPORT, passed=False, failed_stage=stage, problem="too\n large")
  assert estimates.fields(report)["status"] == status
  assert estimates.fields(report)["problem"] == "too large"


def test_each_training_is_estimated_once(tmp_path, monkeypatch):
  asked = []
  running = runner.Runner(str(tmp_path), tell=lambda line: None)

  def preflight(running, case, name):
    asked.append((case.workload.mode, name))
    return estimates.fields(REPORT)

  monkeypatch.setattr(estimates, "_preflight", preflight)
  for _ in range(2):
    estimates.estimate_missing(running, CASES, ["v3-8", "v5e-8"])
  assert asked == [("train", "v3-8"), ("train", "v5e-8")]
  rows = results.read(running.path)
  assert [(row.kind, row.device, row.hardware, row.seconds, row.low) for row in rows] == [
    ("estimated", "tpu", "TPU v3-8", None, 0.1),
    ("estimated", "tpu", "TPU v5e-8", None, 0.1),
  ]


def test_wrong_topologies_are_told_first():
  with pytest.raises(errors.SettingError, match="v9-9"):
    estimates.check(["v9-9"])
  estimates.check([])


def test_a_failed_preflight_is_a_row(tmp_path):
  case = workloads.Case(workloads.Workload("net", "none.gin"), 8)
  running = runner.Runner(str(tmp_path), timeout_seconds=60, tell=lambda line: None)
  estimates.estimate_missing(running, [case], ["v3-8"])
  (row,) = results.read(running.path)
  assert row.status == results.FAILED
  assert "exit code 2" in row.problem
