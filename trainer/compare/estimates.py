"""Estimates for absent TPUs, from the compiler that `trainer.preflight` calls.

An estimate is a range without a measurement, and has its own kind of row. See
`trainer.preflight.estimates`.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from trainer.cli import processes
from trainer.compare import results, runner, workloads
from trainer.preflight import compiler, topology


def check(topologies: Sequence[str]) -> None:
  """Raises SettingError if a topology is unknown or the compiler is missing."""
  compiler.require_extra([topology.find_tpu(name) for name in topologies])


def estimate_missing(
  running: runner.Runner, cases: Sequence[workloads.Case], topologies: Sequence[str]
) -> None:
  """Adds an estimate for each training and topology that the results do not have.

  Raises:
    OutputError: it cannot write the results.
  """
  known = {row.key for row in results.read_if_there(running.path) if row.status == results.OK}
  for case in cases:
    # The estimate has the time of a training step alone: predictions get none.
    for name in topologies if case.workload.mode == "train" else ():
      asked = _row(running, case, name, {})
      if asked.key not in known:
        running.tell(f"{case.title}: compiling for {name} ...")
        results.append(running.path, _row(running, case, name, _preflight(running, case, name)))


def fields(report: dict[str, Any]) -> dict[str, Any]:
  """Returns fields of a row from a step's report in the JSON of trainer.preflight."""
  found = {"cores": report["replicas"], "advice": report["padding_advice"]}
  if not report["passed"]:
    status = results.OUT_OF_MEMORY if report["failed_stage"] == "fit" else results.FAILED
    return found | {"status": status, "problem": " ".join(report["problem"].split())[:500]}
  time = report["estimated_step_seconds"]
  return found | {
    "status": results.OK,
    "low": time["low"],
    "high": time["high"],
    "device_memory_bytes": report["allocated_bytes"],
    "source": time["source"],
  }


def _row(running, case, name, more):
  known = {"kind": results.ESTIMATED, "hardware": f"TPU {name}", "status": results.FAILED}
  return results.Row(**running.about(case, "tpu") | known | more)


def _preflight(running, case, name):
  settings = case.settings()
  log = os.path.join(running.output, "logs", f"preflight_{case.title}_{name}.txt".replace("/", "_"))
  with tempfile.TemporaryDirectory(prefix="compare") as folder:
    path = os.path.join(folder, "report.json")
    bindings = [*settings["bindings"], f"run.train_batch_size = {case.batch_size}"]
    command = [
      *(sys.executable, "-m", "trainer.preflight", "--steps=train", "--search=never"),
      *(f"--gin_file={settings['gin_file']}", f"--topology={name}", f"--json={path}"),
      *(f"--precision={running.precision}", f"--gin_modules={','.join(running.modules)}"),
      f"--timeout_seconds={running.timeout_seconds}",
      *(f"--gin_bindings={binding}" for binding in bindings),
    ]
    with runner.open_log(log) as output:
      status = processes.run_command(command, output, running.timeout_seconds, {})
    # The command reports a step that does not compile or fit. Without a report, the command died.
    if not os.path.exists(path):
      return runner.failure(status, log, running.timeout_seconds)
    with open(path, encoding="utf-8") as file:
      return fields(json.load(file)[0])
