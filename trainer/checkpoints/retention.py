"""Which checkpoints are kept: the newest, the best, one every so often, and those that somebody
holds.

Beside a checkpoint `model.ckpt-100` there may be

    model.ckpt-100.pinned               made by a person (`touch`): never removed
    model.ckpt-100.lease-<name>         made by a process that reads it: not removed for as long as
                                        the lease is fresh
    model.ckpt-100.owed-<name>          an evaluation of it is not done yet: not removed before it
                                        is, see owed_evaluations

The metrics of the evaluations, of which the best are known, are in

    evaluations.json                    {name: {step: {metric: value}}}, changed by one process at a
                                        time, under a lock on evaluations.json.lock
    evaluations-<time>-<id>.json        the same of one process alone, where files cannot be locked
                                        (gs://); all of them are read as one

An object store has no locks, and its objects are only written whole: two processes that wrote one
object would lose each other's entries. On a local disk one file under a lock stays one file,
however often a run is restarted.
"""

import contextlib
import dataclasses
import json
import os
import threading
import time
import uuid

import tensorflow as tf

from trainer import errors, file_locks, files, run_config
from trainer.config import gin_names

# A process that reads a checkpoint renews its lease more often than this; one that was killed holds
# it no longer.
LEASE_SECONDS = 600.0

# Endings of the files beside a checkpoint that hold it.
_PINNED = ".pinned"
_LEASE = ".lease-"
OWED = ".owed-"

_EVALUATIONS = "evaluations.json"
_OWN_EVALUATIONS = "evaluations-*.json"

_own = {}  # by directory: (path of this process's own file, what it has noted there)
_own_lock = threading.Lock()


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class Retention:
  """What is kept.

  Attributes:
    newest: how many of the newest; 0 keeps all.
    best: how many of the best by `metric`.
    metric: name of a metric of the evaluations, or "loss".
    mode: "min" or "max": which is better.
    evaluation: the name of the evaluation that tells, "" for the one without a name.
    every_n_steps: keeps those at multiples of so many steps, for good.
    every_n_hours: keeps one every so many hours, for good.

  Raises:
    SettingError: a value that cannot work.
  """

  newest: int = 5
  best: int = 0
  metric: str = "loss"
  mode: str = "min"
  evaluation: str = ""
  every_n_steps: int | None = None
  every_n_hours: float | None = None

  def __post_init__(self):
    run_config.require_min_or_max(self.mode, "Retention.mode")
    for name, kinds in (
      ("newest", int),
      ("best", int),
      ("every_n_steps", int),
      ("every_n_hours", int | float),
    ):
      value = getattr(self, name)
      if value is not None and (
        isinstance(value, bool) or not isinstance(value, kinds) or value < 0
      ):
        raise errors.SettingError(
          f"Retention.{name} must be "
          f"{'an int' if kinds is int else 'a number'} of at least 0; got "
          f"{value!r}."
        )

  def to_remove(self, written, metrics):
    """Steps of the checkpoints that need not be kept.

    Args:
      written: dict of step → time of writing (seconds), of those that are there.
      metrics: dict of step → value of the metric, of those that were evaluated.
    """
    steps = sorted(written)
    if not self.newest:
      return []
    kept = set(steps[-self.newest :])
    if self.best:
      sign = 1 if self.mode == "min" else -1
      kept |= set(
        sorted(
          (step for step in steps if step in metrics), key=lambda step: (sign * metrics[step], step)
        )[: self.best]
      )
    if self.every_n_steps:
      kept |= {step for step in steps if step % self.every_n_steps == 0}
    if self.every_n_hours:
      last = float("-inf")
      for step in steps:
        if written[step] - last >= self.every_n_hours * 3600:
          kept.add(step)
          last = written[step]
    return [step for step in steps if step not in kept]


def is_held(path, clock=time.time):
  """Whether a checkpoint is pinned, owes an evaluation, or is read by a process under a fresh
  lease.
  """
  directory, name = os.path.split(path)
  for file in tf.io.gfile.listdir(directory or "."):
    ending = file.removeprefix(name)
    if ending == file:
      continue
    if ending == _PINNED or ending.startswith(OWED):
      return True
    if (
      ending.startswith(_LEASE)
      and clock() - _written_at(os.path.join(directory, file)) < LEASE_SECONDS
    ):
      return True
  return False


def _written_at(file):
  """When a file was written, in seconds since the epoch; long ago if it is gone."""
  try:
    return tf.io.gfile.stat(file).mtime_nsec / 1e9
  except tf.errors.NotFoundError:  # its process has removed it since the folder was listed
    return float("-inf")


@contextlib.contextmanager
def lease(path, name=None):
  """Holds a checkpoint against removal inside.

  Yields a function that renews the lease, for what takes longer than LEASE_SECONDS.

  Args:
    path: the checkpoint.
    name: tells the lease from those of others; default: the process's number.
  """
  file = f"{path}{_LEASE}{name or os.getpid()}"

  def renew():
    with tf.io.gfile.GFile(file, "w") as opened:
      opened.write(str(os.getpid()))

  renew()
  try:
    yield renew
  finally:
    with contextlib.suppress(tf.errors.NotFoundError):
      tf.io.gfile.remove(file)


def read_metrics(directory, evaluation, metric):
  """dict of step → value of a metric in the evaluations that were noted."""
  noted = read_evaluations(directory, evaluation)
  return {step: values[metric] for step, values in noted.items() if metric in values}


def read_evaluations(directory: str, evaluation: str) -> dict[int, dict[str, float]]:
  """What was noted of the evaluations of this name: their metrics by step."""
  found = {}
  own = sorted(tf.io.gfile.glob(os.path.join(directory, _OWN_EVALUATIONS)))
  for path in [os.path.join(directory, _EVALUATIONS), *own]:  # that of a later process last
    found.update(_read(path).get(evaluation, {}))
  return {int(step): values for step, values in found.items()}


def evaluated_steps(directory, evaluation):
  """The set of steps whose evaluations of this name were noted."""
  return set(read_evaluations(directory, evaluation))


def note_evaluation(directory, evaluation, step, metrics):
  """Writes down the metrics (dict of floats) of an evaluation (its name, or "") of a checkpoint's
  step.

  Raises:
    OutputError: they cannot be written.
  """
  try:
    if not _note_under_lock(directory, evaluation, step, metrics):
      _note_in_own_file(directory, evaluation, step, metrics)
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"The evaluation of step {step} cannot be noted in {directory} (--model_dir): {error}"
    ) from error


def _note_under_lock(directory, evaluation, step, metrics):
  """Adds to the file that all processes share; False, and nothing done, where there are no
  locks.
  """
  if "://" in directory:
    return False
  path = os.path.join(directory, _EVALUATIONS)
  with open(path + ".lock", "ab") as lock:
    if not file_locks.lock(lock):
      return False
    # Read inside the lock: another process may have added to it.
    _add(path, _read(path), evaluation, step, metrics)
  return True


def _note_in_own_file(directory, evaluation, step, metrics):
  with _own_lock:
    if directory not in _own:
      name = _OWN_EVALUATIONS.replace("*", f"{int(time.time())}-{uuid.uuid4().hex[:8]}")
      _own[directory] = os.path.join(directory, name), {}
    path, noted = _own[directory]
    _add(path, noted, evaluation, step, metrics)


def _add(path, noted, evaluation, step, metrics):
  noted.setdefault(evaluation, {})[str(step)] = metrics
  with files.write_atomically(path) as file:
    file.write(json.dumps(noted, indent=1, sort_keys=True))


def _read(path):
  if not tf.io.gfile.exists(path):
    return {}
  with tf.io.gfile.GFile(path) as file:
    try:
      return json.loads(file.read())
    except ValueError as error:
      raise errors.CheckpointError(
        f"{path} is damaged ({error}): remove it; the best checkpoints so far are then unknown."
      ) from error
