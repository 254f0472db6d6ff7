"""Measures every case on every device, each in a process of its own.

    runner = Runner("out/compare", precision="bfloat16")
    devices, skipped = runner.devices("auto")
    runner.measure_missing(cases, devices)

It writes each row to results.jsonl as soon as the measurement ends. It does not repeat a case with
a good row, so that a killed comparison resumes where it stopped. It repeats failed cases.
"""

import dataclasses
import datetime
import os
import re
import signal
from collections.abc import Callable, Sequence
from typing import IO, Any

from trainer import errors
from trainer.cli import formatting, processes
from trainer.compare import results, workloads
from trainer.devices import device_names
from trainer.io import local_files

_AUTO = ("cpu", "cpu:8", "gpu", "tpu")
_NAME = re.compile(r"(cpu|xla:gpu)(:[1-9]\d*)?|gpu|xla:[1-9]\d*|tpu")
_WHY_ABSENT = {
  "gpu": "TensorFlow sees no GPU",
  "xla:gpu": "no GPU, or no jax plug-in for CUDA",
  "tpu": "there is no sign of a TPU",
}

# If a process gives no answer, its row quotes so many last lines of its output.
_LAST_LINES = 3


@dataclasses.dataclass(frozen=True)
class Runner:
  """Runs comparisons.

  Attributes:
    output: the folder of the results.
    precision: "float32" or "bfloat16".
    tpu_type: the type of the TPU, "v3-8" and the like; "" if unknown.
    timeout_seconds: the longest that one case may take.
    modules: modules that gin files may import and name, see `trainer.config.trust`.
    tell: called with a line about each case.
  """

  output: str
  precision: str = "float32"
  tpu_type: str = ""
  timeout_seconds: float = 1800.0
  modules: Sequence[str] = (".",)
  tell: Callable[[str], None] = print

  @property
  def path(self) -> str:
    """The file of the results."""
    return os.path.join(self.output, "results.jsonl")

  def devices(self, asked: str) -> tuple[list[str], dict[str, str]]:
    """Returns the devices to measure on, and device → reason for the skipped ones.

    Args:
      asked: names with commas between them; "auto" for cpu, cpu:8, and the GPU and TPU of the
        machine.

    Raises:
      SettingError: a name is wrong, or the machine lacks a device of `asked`.
    """
    names = [name.strip() for name in asked.split(",") if name.strip()]
    automatic = names == ["auto"]
    for name in () if automatic else names or [asked]:
      if not _NAME.fullmatch(name):
        raise errors.SettingError(
          f"--devices={asked}: expected auto, or some of cpu, cpu:8, gpu, xla:8, xla:gpu, "
          "xla:gpu:N, tpu."
        )
    names = list(dict.fromkeys(_AUTO if automatic else names))
    if all(_is_of_the_cpu(name) for name in names):  # A CPU is always present.
      return names, {}
    # In another process: this one imports no TensorFlow, and leaves the devices to the cases.
    there = self._ask({"mode": "devices"}, "devices", {})
    if "status" in there:
      raise errors.SettingError(f"--devices={asked}: {there['problem']}")
    absent = {name: reason for name in names if (reason := _absence(name, there))}
    if absent and not automatic:
      name, reason = next(iter(absent.items()))
      raise errors.SettingError(
        f"--devices={asked}: this machine has no {name} ({reason}). --devices=auto takes the "
        "devices of the machine."
      )
    return [name for name in names if name not in absent], absent

  def measure_missing(
    self, cases: Sequence[workloads.Case], devices: Sequence[str]
  ) -> list[results.Row]:
    """Measures the cases without results; returns all rows of these cases and devices.

    Raises:
      OutputError: it cannot write the results.
    """
    known = results.read_if_there(self.path)
    rows = []
    for case in cases:
      for device in devices:
        row = self._known(known, case, device)
        if row is None:
          self.tell(f"{case.title} on {device} ...")
          row = self.measured(case, device)
          results.append(self.path, row)
        self.tell(f"{case.title} on {device}: {_outcome(row)}")
        rows.append(row)
    return rows

  def measured(self, case: workloads.Case, device: str) -> results.Row:
    """Returns the row of a case on a device, measured now."""
    request = {
      "mode": case.workload.mode,
      "settings": case.settings(),
      "batch_size": case.batch_size,
      "examples": case.examples,
      "device": device,
      "tpu_type": self.tpu_type,
      "precision": self.precision,
      "modules": list(self.modules),
    }
    # TensorFlow takes a GPU into use wherever it sees one. The CPU's rows must not depend on it.
    environment = {"CUDA_VISIBLE_DEVICES": "-1"} if _is_of_the_cpu(device) else {}
    name = re.sub(r"[^\w]+", "_", f"{case.title} {case.workload.mode} {device} {self.precision}")
    return results.Row(**self.about(case, device) | self._ask(request, name, environment))

  def about(self, case: workloads.Case, device: str) -> dict[str, Any]:
    """Returns the fields of a row that do not come from the measurement."""
    return {
      "workload": case.workload.name,
      "mode": case.workload.mode,
      "batch_size": case.batch_size,
      "examples": case.examples,
      "device": device,
      "hardware": "",
      "precision": self.precision,
      "unit": case.workload.shown_unit if case.examples is None else "step",
      "epoch_examples": case.workload.epoch_examples,
      "epochs": case.workload.epochs,
      "settings": case.settings(),
      "machine": {},
      "time": now(),
    }

  def _known(self, rows, case, device):
    """Returns the newest good row of a case on a device, as this comparison would measure it."""
    wanted = self.about(case, device)
    for row in reversed(rows):
      same = all(
        getattr(row, name) == value
        for name, value in wanted.items()
        # Only the measurement knows the first two, and the time differs each time.
        if name not in ("hardware", "machine", "time")
      )
      if same and row.status == results.OK:
        return row
    return None

  def _ask(self, request, name, environment):
    """Returns a worker's answer; fields of a failed row if it gives none."""
    log = os.path.join(self.output, "logs", f"{name}.txt")
    with open_log(log) as output:
      status, answer = processes.ask(
        "trainer.compare.worker", request, output, self.timeout_seconds, environment
      )
    return failure(status, log, self.timeout_seconds) if answer is None else answer


def open_log(path: str) -> IO[bytes]:
  """Opens the file for a process's output, and makes its folder.

  Raises:
    OutputError: it cannot write the file.
  """
  local_files.make_folder(os.path.dirname(path), "--output")
  try:
    return open(path, "wb")
  except OSError as error:
    raise errors.OutputError(f"Cannot write {path} (--output): {error}") from error


def failure(status: int | None, log: str, timeout_seconds: float) -> dict[str, Any]:
  """Returns the fields of a row for a process that gave no answer.

  Args:
    status: from `processes.run_command`.
    log: the file with the process's output.
    timeout_seconds: its limit.
  """
  if status is None:
    problem = f"The case took longer than {timeout_seconds:g} s (--timeout_seconds)."
    return {"status": results.OUT_OF_TIME, "problem": problem}
  # A process that runs out of memory has no chance to answer: Linux kills it.
  if status == -signal.SIGKILL:
    problem = "The system killed the case's process, as it does when memory runs out."
    return {"status": results.OUT_OF_MEMORY, "problem": problem}
  with open(log, encoding="utf-8", errors="replace") as file:
    said = " ".join(" ".join(file.read().splitlines()[-_LAST_LINES:]).split())
  return {
    "status": results.FAILED,
    "problem": f"The case's process {processes.how_it_ended(status)}: {said}"[:500],
  }


def now() -> str:
  """Returns the time, in UTC, to the second."""
  return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _is_of_the_cpu(name):
  return device_names.split(name)[0] in ("cpu", "xla")


def _absence(name, there):
  """Returns why this machine lacks a device; "" if it has the device."""
  kind, count = device_names.split(name)
  if _is_of_the_cpu(name) or there[kind] >= (count or 1):
    return ""
  return _WHY_ABSENT[kind] if not there[kind] else f"there are {there[kind]}"


def _outcome(row):
  if row.status != results.OK:
    return f"{row.status}: {row.problem}"
  what = "a call" if row.mode == "predict" else "a step"
  rate = formatting.three_digits(row.examples_per_second)
  return f"{1000 * row.seconds:.4g} ms {what}, {rate} examples/s"
