"""The rows of results.jsonl: one for each case on each device of each machine.

    results.append("out/compare/results.jsonl", row)
    rows = results.merged([results.read(path) for path in paths])

A line is a JSON object with the fields of `Row`. A killed comparison leaves whole lines and at most
a part of one; readers ignore the part. Later rows of the same key replace earlier ones.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence

from trainer import errors
from trainer.io import json_form, local_files

OK, FAILED, OUT_OF_MEMORY, OUT_OF_TIME = "ok", "failed", "out of memory", "out of time"


@dataclasses.dataclass(frozen=True)
class Row:
  """The result of one case on one device.

  Attributes:
    workload: the name of the workload.
    mode: "train" or "predict".
    batch_size: examples in a step of all cores together.
    examples: in a call to predict; None for a training.
    device: as the user gave it: "cpu", "cpu:8", "gpu", "tpu".
    hardware: the processor or accelerator.
    cores: replicas.
    precision: "float32" or "bfloat16".
    status: "ok", "failed", "out of memory" or "out of time".
    problem: a sentence about a failure.
    seconds: median time of a training step, or of a call to predict.
    low: lower quartile of the measured seconds.
    high: upper quartile.
    slices: the number of times behind the median.
    examples_per_second: by the median.
    start_seconds: from the call to the end of the first slice, less the time of a slice: making
      the input, tracing, compiling.
    input_wait: share of the time that the device waited for input.
    memory_bytes: the process's peak of the host's memory.
    device_memory_bytes: its peak of the accelerator's, where TensorFlow tells.
    load: how many processes ran or wanted to, on average over the minute before the measurement.
    accuracy: after the timed steps, if the case evaluates.
    accuracy_steps: the number of those steps.
    epoch_examples: see workloads.Workload.
    epochs: likewise.
    unit: the time to show: "step", "epoch" or "run".
    settings: gin file, bindings and slices; a row with others is another result.
    machine: hardware and software of the measurement.
    time: of the measurement, in UTC.
  """

  workload: str
  mode: str
  batch_size: int
  device: str
  hardware: str
  status: str
  unit: str
  precision: str
  settings: dict
  machine: dict
  time: str
  examples: int | None = None
  cores: int | None = None
  problem: str = ""
  seconds: float | None = None
  low: float | None = None
  high: float | None = None
  slices: int | None = None
  examples_per_second: float | None = None
  start_seconds: float | None = None
  input_wait: float | None = None
  memory_bytes: int | None = None
  device_memory_bytes: int | None = None
  load: float | None = None
  accuracy: float | None = None
  accuracy_steps: int | None = None
  epoch_examples: int | None = None
  epochs: float | None = None

  @property
  def key(self) -> str:
    """Rows with the same key are of one measurement; the later row replaces the earlier."""
    parts = (self.machine.get("host", ""), self.machine.get("processor", ""), self.settings)
    case = (self.workload, self.mode, self.batch_size, self.examples)
    return json.dumps([case, self.device, self.precision, parts], sort_keys=True)


_FORM = {field.name: field.type for field in dataclasses.fields(Row)}


def read(path: str) -> list[Row]:
  """Returns the rows of a file.

  Raises:
    SettingError: the file is missing or unreadable.
    FileDamagedError: a line is no row.
  """
  try:
    with open(path, encoding="utf-8") as file:
      lines = file.read().split("\n")
  except (OSError, UnicodeDecodeError) as error:
    raise errors.SettingError(f"Cannot read the results {path}: {error}") from error
  # A killed process leaves a part of a line behind the last line break.
  found = json_form.parse_lines(lines[:-1], _FORM, path, "remove the line, or the file")
  return [Row(**fields) for fields in found]


def read_if_there(path: str) -> list[Row]:
  """Returns the rows of a file; none if there is no such file."""
  return read(path) if os.path.exists(path) else []


def append(path: str, row: Row) -> None:
  """Adds a row at the end of a file, after its last whole line.

  Raises:
    OutputError: it cannot write the file.
  """
  try:
    with open(path, "ab+") as file:
      # A killed process leaves a part of a line. Without the cut, this row would continue it.
      file.seek(0)
      file.truncate(file.read().rfind(b"\n") + 1)
      file.write(_line(row).encode())
      file.flush()
      os.fsync(file.fileno())
  except OSError as error:
    raise errors.OutputError(f"Cannot write {path} (--output): {error}") from error


def write(path: str, rows: Iterable[Row]) -> None:
  """Replaces the content of a file by these rows.

  Raises:
    OutputError: it cannot write the file.
  """
  local_files.write(path, "".join(map(_line, rows)), "--output")


def _line(row):
  return json.dumps(dataclasses.asdict(row), ensure_ascii=False) + "\n"


def merged(files: Iterable[Sequence[Row]]) -> list[Row]:
  """Returns the rows of several files; the newest row of each key, at the place of its first.

  Args:
    files: the rows of each file.
  """
  found: dict[str, Row] = {}
  for rows in files:
    for row in rows:
      known = found.get(row.key)
      if known is None or known.time <= row.time:
        found[row.key] = row
  return list(found.values())
