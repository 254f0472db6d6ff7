"""The scalars of a run as JSON lines, readable without TensorBoard and TensorFlow.

    metrics_file.append("out/digits", "train", 100, {"loss": 0.5})
    for line in metrics_file.read("out/digits"):
      ...  # {"step": 100, "time": 1795252745.2, "kind": "train", "loss": 0.5}

Layout:

    <model_dir>/metrics.jsonl                on a local disk: several processes append to it
    <model_dir>/metrics-<number>-<id>.jsonl  on other file systems (gs://): one file per process,
                                             see `files.own_path`

A line is an object with "step" (int), "time" (seconds since the epoch), "kind" ("train", "eval",
"eval_<name>") and the scalars by name; null means NaN or infinity. A scalar called step, time or
kind gets a "_" after its name.

A line of kind "start" has no scalars. It marks the start of a training at that step. Earlier lines
with a later step come from an interrupted training that a later training repeated from that step.

An object store cannot append, and two processes that rewrite the same object lose lines. So there
each process has a file of its own and rewrites it at each report; `read` merges the files by time.
No line has an earlier time than the lines that its process found when it began: if a machine's
clock went back, its times continue from the newest one.
"""

import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from trainer import errors
from trainer.io import file_locks, json_form

NAME = "metrics.jsonl"

TRAIN, START = "train", "start"
_RESERVED = ("step", "time", "kind")
_FORM = {"step": int, "time": float, "kind": str, ...: float | None}

# model_dir → (path of this process's own file, its text so far, the newest time).
_remote: dict[str, tuple[str, str, float]] = {}
_remote_lock = threading.Lock()


def eval_kind(name: str | None = None) -> str:
  """Returns the kind of the lines of an evaluation: "eval", or "eval_<name>"."""
  return f"eval_{name}" if name else "eval"


def begin(model_dir: str, step: int, clock: Callable[[], float] = time.time) -> None:
  """Records that a training starts at a step; for Args and Raises see `append`."""
  append(model_dir, START, step, {}, clock)


def append(
  model_dir: str,
  kind: str,
  step: int,
  values: Mapping[str, float],
  clock: Callable[[], float] = time.time,
) -> None:
  """Adds a line.

  Args:
    model_dir: an existing folder, local or on any file system that tf.io.gfile supports.
    kind: TRAIN, or a result of `eval_kind`.
    step: the global step.
    values: scalars by name.
    clock: returns seconds since the epoch.

  Raises:
    OutputError: it cannot write the file.
  """
  line = {"step": int(step), "time": round(clock(), 3), "kind": kind, **_scalars(values)}
  if _is_remote(model_dir):
    _rewrite(model_dir, line)
  else:
    _append(os.path.join(model_dir, NAME), _text(line))


def read(model_dir: str) -> list[dict[str, Any]]:
  """Returns the valid lines of a run, sorted by step; [] if there is no file.

  If two lines have the same kind and step, the later one is valid. If a training stopped and
  resumed from an earlier step, its lines after that step are not valid. The function skips damaged
  lines with a warning.

  Raises:
    SettingError: it cannot read a file.
  """
  return valid(_lines(model_dir))


def valid(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
  """Returns the valid ones of all lines of a run, see `read`."""
  kept: dict[tuple[int, str], dict[str, Any]] = {}
  newest = -1
  for line in lines:
    step, kind = line["step"], line["kind"]
    if kind == START:
      kept = {key: old for key, old in kept.items() if key[0] <= step}
    elif kind == TRAIN and step <= newest:  # A training that wrote no "start" line.
      kept = {key: old for key, old in kept.items() if key[0] < step or key[1] != TRAIN}
    if kind != START:
      kept[step, kind] = line
    newest = step if kind in (START, TRAIN) else newest
  return sorted(kept.values(), key=lambda line: line["step"])


class Tail:
  """Reads the lines of a run as they arrive, also lines of kind START."""

  def __init__(self, model_dir: str) -> None:
    self._model_dir = model_dir
    # path → how much of the file this object has read, in whole lines.
    self._done: dict[str, int] = {}

  def new(self) -> list[dict[str, Any]]:
    """Returns the lines since the last call; all lines at the first call.

    Raises:
      SettingError: it cannot read a file.
    """
    found: list[dict[str, Any]] = []
    for path, data in self._data():
      whole = data[: data.rfind(b"\n") + 1]
      self._done[path] = self._done.get(path, 0) + len(whole)
      text = whole.decode(errors="replace")
      found += json_form.parse_lines(text.splitlines(), _FORM, path)
    return sorted(found, key=lambda line: line["time"]) if _is_remote(self._model_dir) else found

  def _data(self):
    if _is_remote(self._model_dir):
      texts = _read_remote(self._model_dir)
      return [(path, text.encode()[self._done.get(path, 0) :]) for path, text in texts]
    path = os.path.join(self._model_dir, NAME)
    return [(path, data) for data in _read_local(path, self._done.get(path, 0))]


def has_line(model_dir: str, kind: str, step: int, values: Mapping[str, Any]) -> bool:
  """Whether `read` gives a line of a kind and a step with these values.

  Raises:
    SettingError: it cannot read a file.
  """
  scalars = _scalars(values)
  return any(
    {name: value for name, value in line.items() if name not in _RESERVED} == scalars
    for line in read(model_dir)
    if (line["kind"], line["step"]) == (kind, step)
  )


def seconds_since(
  model_dir: str, kind: str, clock: Callable[[], float] = time.time
) -> float | None:
  """Returns the age of the last line of a kind.

  Args:
    model_dir: see `append`.
    kind: see `append`.
    clock: seconds since the epoch.

  Returns:
    Seconds. None without such a line, or if its time is in the future: the clock went back.

  Raises:
    SettingError: it cannot read a file.
  """
  times = [line["time"] for line in read(model_dir) if line["kind"] == kind]
  passed = clock() - times[-1] if times else -1.0
  return None if passed < 0 else passed


def _lines(model_dir):
  """Returns all sound lines, in the order of their writes."""
  path = os.path.join(model_dir, NAME)
  texts = (
    _read_remote(model_dir)
    if _is_remote(model_dir)
    else [(path, data.decode(errors="replace")) for data in _read_local(path)]
  )
  found = [
    line for path, text in texts for line in json_form.parse_lines(text.splitlines(), _FORM, path)
  ]
  return sorted(found, key=lambda line: line["time"]) if len(texts) > 1 else found


def _text(line):
  return json.dumps(line, allow_nan=False) + "\n"


def _scalars(values):
  """Values for a line."""
  return {
    f"{name}_" if name in _RESERVED else name: _plain(value) for name, value in values.items()
  }


def _plain(value):
  """Converts a number for JSON.

  NaN and infinity become None. The value of a float32 gets the fewest digits that identify it among
  float32 values: 0.1, not 0.10000000149011612.
  """
  if isinstance(value, int):
    return int(value)  # `read` takes a bool for damage
  value = float(value)
  if not math.isfinite(value):
    return None
  with np.errstate(over="ignore"):
    single = np.float32(value)
  return float(str(single)) if float(single) == value else value


def _is_remote(model_dir):
  return "://" in os.fspath(model_dir)


def _append(path, text):
  try:
    with open(path, "ab+", buffering=0) as file:
      # The lock keeps other processes from writing between the check of the last byte and the
      # write. On a file system without locks an append is still whole, by one system call. But
      # another process's half-written line would then look like a killed process's, and an empty
      # line would follow it. `read` skips empty lines.
      file_locks.lock(file)
      if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":  # A process died while it wrote its line.
          text = "\n" + text
      left = text.encode()
      # A disk that becomes full accepts a part of the bytes. Only the next write raises an error.
      while left:
        left = left[file.write(left) :]
  except OSError as error:
    raise errors.OutputError(f"Cannot write {path} (--model_dir): {error}") from error


def _read_local(path, start=0):
  """Returns a file's bytes from a position on, in a list; [] where there is no file."""
  try:
    with open(path, "rb") as file:
      file.seek(start)
      return [file.read()]
  except FileNotFoundError:
    return []
  except OSError as error:
    raise errors.SettingError(f"Cannot read {path}: {error}") from error


def _rewrite(model_dir, line):
  import tensorflow as tf

  from trainer.io import files, storage

  path = model_dir
  try:
    with _remote_lock:
      if model_dir not in _remote:
        newest = max((found["time"] for found in _lines(model_dir)), default=0.0)
        _remote[model_dir] = files.own_path(model_dir, "metrics-*.jsonl"), "", newest
      path, text, newest = _remote[model_dir]
      time_ = max(line["time"], newest)
      text += _text({**line, "time": time_})
      _remote[model_dir] = path, text, time_
      storage.write(path, text)
  except tf.errors.OpError as error:
    raise errors.OutputError(f"Cannot write {path} (--model_dir): {error.message}") from error


def _read_remote(model_dir):
  import tensorflow as tf

  from trainer.io import files, storage

  try:
    return [(path, storage.read(path)) for path in files.matching(model_dir, "metrics*.jsonl")]
  except tf.errors.OpError as error:
    raise errors.SettingError(f"Cannot read {model_dir}: {error.message}") from error
