"""The scalars of a run as JSON lines, for plots and scripts: no TensorBoard is needed to read them,
and no TensorFlow.

    metrics_file.append("out/digits", "train", 100, {"loss": 0.5})
    for line in metrics_file.read("out/digits"): ...  # {"step": 100, "time": 1795252745.2, "kind":
                                                      # "train", "loss": 0.5}

Layout:

    <model_dir>/metrics.jsonl                local: one line a report, each added whole, under a
                                             lock, also by several processes at a time
    <model_dir>/metrics-<time>-<id>.jsonl    where TensorFlow does the writing (gs://): a file for
                                             each process

A line is an object with "step" (int), "time" (seconds since the epoch), "kind" ("train", "eval",
"eval_<name>") and the scalars by name; null stands for NaN and infinity. A scalar that is itself
called step, time or kind has a "_" after its name. Kind "start", without scalars, tells that a
training began at that step: what is later than that in the file's earlier part is of a training
that was cut off and done again.

An object store cannot append, and an object that two processes rewrite loses lines. So there each
process has a file of its own, which it writes whole at each report; `read` puts them together by
time.
"""

import json
import math
import os
import threading
import time
import uuid

import numpy as np
from absl import logging

from trainer import errors, file_locks

NAME = "metrics.jsonl"

TRAIN = "train"
_START = "start"
_RESERVED = ("step", "time", "kind")

_remote = {}  # by model_dir: (path of this process's own file, its text so far)
_remote_lock = threading.Lock()


def eval_kind(name=None):
  """The kind of the lines of an evaluation: "eval", or "eval_<name>"."""
  return f"eval_{name}" if name else "eval"


def begin(model_dir, step, clock=time.time):
  """Writes down that a training starts at a step."""
  append(model_dir, _START, step, {}, clock)


def append(model_dir, kind, step, values, clock=time.time):
  """Adds a line.

  Args:
    model_dir: a folder that is there, local or of any file system that tf.io.gfile knows.
    kind: TRAIN, or what eval_kind gives.
    step: the global step, an int.
    values: dict of name → float or int.
    clock: seconds since the epoch.

  Raises:
    OutputError: it cannot be written.
  """
  scalars = {
    f"{name}_" if name in _RESERVED else name: _plain(value) for name, value in values.items()
  }
  text = (
    json.dumps(
      {"step": int(step), "time": round(clock(), 3), "kind": kind, **scalars}, allow_nan=False
    )
    + "\n"
  )
  if _is_remote(model_dir):
    _rewrite(model_dir, text)
  else:
    _append(os.path.join(model_dir, NAME), text)


def read(model_dir):
  """The lines of a run that count, as dicts, sorted by step: of two of one kind and step the later,
  and of a training that was cut off and went on from an earlier step only what came up to that. A
  line that was not written to its end is left out, with a warning. [] if there is none.

  Raises:
    SettingError: a file cannot be read.
  """
  kept, newest = {}, -1
  for line in _lines(model_dir):
    step, kind = line["step"], line["kind"]
    if kind == _START:
      kept = {key: old for key, old in kept.items() if key[0] <= step}
    elif kind == TRAIN and step <= newest:  # of a training that did not tell of its start
      kept = {key: old for key, old in kept.items() if key[0] < step or key[1] != TRAIN}
    if kind != _START:
      kept[step, kind] = line
    newest = step if kind in (_START, TRAIN) else newest
  return sorted(kept.values(), key=lambda line: line["step"])


def _lines(model_dir):
  """All that was written and can be read, in the order of writing."""
  texts = (
    _read_remote(model_dir) if _is_remote(model_dir) else _read_local(os.path.join(model_dir, NAME))
  )
  found = []
  for path, text in texts:
    for number, line in enumerate(text.splitlines(), 1):
      if not line:
        continue
      try:
        found.append(json.loads(line))
      except ValueError:
        logging.warning("%s: line %d was not written to its end, and is left out.", path, number)
  return sorted(found, key=lambda line: line["time"]) if len(texts) > 1 else found


def _plain(value):
  """A number as JSON has it: None for what is none; a float32's value in the fewest digits that
  tell it apart from other float32.
  """
  if isinstance(value, int):
    return value
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
      # The lock holds off the others between the look at the last byte and the write. Where there
      # are no locks, a line is still whole: it is added by one system call. But another's that is
      # half there would look like that of a process that was killed, and get an empty line after
      # it.
      file_locks.lock(file)
      if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":  # of a process that was killed while it wrote
          text = "\n" + text
      left = text.encode()
      while left:  # a disk that becomes full takes a part, and says so at the next try
        left = left[file.write(left) :]
  except OSError as error:
    raise errors.OutputError(f"Cannot write {path} (--model_dir): {error}") from error


def _read_local(path):
  try:
    with open(path, encoding="utf-8", errors="replace") as file:
      return [(path, file.read())]
  except FileNotFoundError:
    return []
  except OSError as error:
    raise errors.SettingError(f"Cannot read {path}: {error}") from error


def _rewrite(model_dir, text):
  import tensorflow as tf

  own = os.path.join(model_dir, f"metrics-{int(time.time())}-{uuid.uuid4().hex[:8]}.jsonl")
  try:
    with _remote_lock:
      path, written = _remote.get(model_dir, (own, ""))
      _remote[model_dir] = path, written + text
      with tf.io.gfile.GFile(path, "w") as file:
        file.write(written + text)
  except tf.errors.OpError as error:
    raise errors.OutputError(f"Cannot write {path} (--model_dir): {error.message}") from error


def _read_remote(model_dir):
  import tensorflow as tf

  try:
    paths = sorted(tf.io.gfile.glob(os.path.join(model_dir, "metrics*.jsonl")))
    return [(path, tf.io.gfile.GFile(path).read()) for path in paths]
  except tf.errors.OpError as error:
    raise errors.SettingError(f"Cannot read {model_dir}: {error.message}") from error
