"""Which checkpoints are kept: the newest, the best, one every so often, and those that somebody holds.

Beside a checkpoint `model.ckpt-100` there may be

    model.ckpt-100.pinned               made by a person (`touch`): never removed
    model.ckpt-100.lease-<name>         made by a process that reads it: not removed for as long as the lease is fresh
    evaluations.json                    the metrics of the evaluations, by name and step, of which the best are known
"""

import contextlib
import dataclasses
import json
import os
import time

import gin
import tensorflow as tf

from trainer import errors, files, run_config

# A process that reads a checkpoint renews its lease more often than this; one that was killed holds it no longer.
LEASE_SECONDS = 600.0

_EVALUATIONS = "evaluations.json"


@gin.configurable(module="trainer")
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
    for name, kinds in (("newest", int), ("best", int), ("every_n_steps", int), ("every_n_hours", int | float)):
      value = getattr(self, name)
      if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or value < 0):
        raise errors.SettingError(f"Retention.{name} must be {'an int' if kinds is int else 'a number'} of at least 0; got {value!r}.")

  def to_remove(self, written, metrics):
    """Steps of the checkpoints that need not be kept.

    Args:
      written: dict of step → time of writing (seconds), of those that are there.
      metrics: dict of step → value of the metric, of those that were evaluated.
    """
    steps = sorted(written)
    if not self.newest:
      return []
    kept = set(steps[-self.newest:])
    if self.best:
      sign = 1 if self.mode == "min" else -1
      kept |= set(sorted((step for step in steps if step in metrics), key=lambda step: (sign * metrics[step], step))[: self.best])
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
  """Whether a checkpoint is pinned, or read by a process under a fresh lease."""
  if tf.io.gfile.exists(path + ".pinned"):
    return True
  return any(clock() - tf.io.gfile.stat(lease).mtime_nsec / 1e9 < LEASE_SECONDS for lease in tf.io.gfile.glob(path + ".lease-*"))


@contextlib.contextmanager
def lease(path, name=None):
  """Holds a checkpoint against removal inside. Yields a function that renews the lease, for what takes longer than LEASE_SECONDS.

  Args:
    path: the checkpoint.
    name: tells the lease from those of others; default: the process's number.
  """
  file = f"{path}.lease-{name or os.getpid()}"

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
  noted = _read(directory).get(evaluation, {})
  return {int(step): values[metric] for step, values in noted.items() if metric in values}


def read_evaluation(directory, evaluation, step):
  """The metrics (dict of floats) that were noted of an evaluation of a step; empty where there was none."""
  return dict(_read(directory).get(evaluation, {}).get(str(step), {}))


def evaluated_steps(directory, evaluation):
  """The set of steps whose evaluations of this name were noted."""
  return set(map(int, _read(directory).get(evaluation, {})))


def note_evaluation(directory, evaluation, step, metrics):
  """Writes down the metrics (dict of floats) of an evaluation (its name, or "") of a checkpoint's step."""
  noted = _read(directory)
  noted.setdefault(evaluation, {})[str(step)] = metrics
  with files.whole(os.path.join(directory, _EVALUATIONS)) as file:
    file.write(json.dumps(noted, indent=1, sort_keys=True))


def _read(directory):
  path = os.path.join(directory, _EVALUATIONS)
  if not tf.io.gfile.exists(path):
    return {}
  with tf.io.gfile.GFile(path) as file:
    try:
      return json.loads(file.read())
    except ValueError as error:
      raise errors.CheckpointError(f"{path} is damaged ({error}): remove it; the best checkpoints so far are then unknown.") from error
