"""Decides which checkpoints to keep: the newest, the best, one every so often, and held ones.

These files beside a checkpoint `model.ckpt-100` hold it:

    model.ckpt-100.pinned               a person made it (`touch`): the checkpoint is never removed
    model.ckpt-100.lease-*              a process is reading the checkpoint, see `leases`: it is not
                                        removed while the lease is fresh
    model.ckpt-100.owed-<name>          an evaluation of the checkpoint is not done yet: it is not
                                        removed before

The metrics of evaluations, which tell the best checkpoints, are in these files:

    evaluations.json                    {name: {step: {metric: value}}}; one process at a time
                                        changes it, under a lock on evaluations.json.lock
    evaluations-<number>-<id>.json      the same, from one process, on file systems without locks
                                        (gs://), see `files.own_path`; all such files together count

An object store has no locks, and an object is always written as a whole. Two processes that write
the same object would lose each other's entries, so each process has its own. On a local disk one
file under a lock stays one file, however often a run is restarted.
"""

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from trainer import errors
from trainer.checkpoints import leases
from trainer.config import gin_names
from trainer.io import file_locks, files, json_form, storage
from trainer.settings import setting_types

# Endings of the files beside a checkpoint that hold it; `leases` has a third one.
_PINNED = ".pinned"
OWED = ".owed-"

_EVALUATIONS = "evaluations.json"
_OWN_EVALUATIONS = "evaluations-*.json"
_FORM = dict[str, dict[int, dict[str, float]]]

# directory → path of this process's own file.
_own: dict[str, str] = {}
_own_lock = threading.Lock()


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class Retention:
  """Which checkpoints to keep. One that any of these settings selects stays.

  Attributes:
    newest: number of newest checkpoints to keep; 0 keeps all checkpoints.
    best: number of best checkpoints to keep, by `metric`.
    metric: name of a metric of the evaluations, or "loss".
    mode: "min" if a smaller value of the metric is better, "max" if a larger one is.
    evaluation: name of the evaluation that computes the metric; "" for the one without a name.
    every_n_steps: keeps the checkpoints at multiples of this number of steps for good.
    every_n_hours: keeps one checkpoint in this number of hours for good.

  Raises:
    SettingError: a value is invalid.
  """

  newest: setting_types.Natural | None = 5
  best: setting_types.Natural = 0
  metric: str = "loss"
  mode: setting_types.MinOrMax = "min"
  evaluation: str = ""
  every_n_steps: setting_types.Natural | None = None
  every_n_hours: setting_types.NotNegative | None = None

  def to_remove(self, written: Mapping[int, float], metrics: Mapping[int, float]) -> list[int]:
    """Chooses the checkpoints to remove.

    Args:
      written: step → time of writing in seconds, for each checkpoint.
      metrics: step → value of the metric, for each evaluated step.

    Returns:
      The steps of the checkpoints that need not be kept.
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
        # The distance: after a clock was set back, the hours count from the next checkpoint.
        if abs(written[step] - last) >= self.every_n_hours * 3600:
          kept.add(step)
          last = written[step]
    return [step for step in steps if step not in kept]


def held(
  directory: str, names: Collection[str], clock: Callable[[], float] = time.monotonic
) -> set[str]:
  """Returns the names of the checkpoints that must not be removed.

  These are pinned, wait for an evaluation, or are being read under a fresh lease.

  Args:
    directory: the model_dir.
    names: of its files.
    clock: returns the time in seconds, as time.monotonic does.
  """
  found = {name.removesuffix(_PINNED) for name in names if name.endswith(_PINNED)}
  found |= {name.partition(OWED)[0] for name in names if OWED in name}
  return found | leases.fresh(directory, names, clock)


def read_metrics(
  directory: str, evaluation: str, metric: str, names: Iterable[str] | None = None
) -> dict[int, float]:
  """Reads one metric of the evaluations.

  Args:
    directory: the model_dir.
    evaluation: the evaluation's name, or "".
    metric: the metric's name.
    names: see `read_evaluations`.

  Returns:
    Step → value.
  """
  noted = read_evaluations(directory, evaluation, names)
  return {step: values[metric] for step, values in noted.items() if metric in values}


def read_evaluations(
  directory: str, evaluation: str, names: Iterable[str] | None = None
) -> dict[int, dict[str, float]]:
  """Reads the metrics of the evaluations.

  Args:
    directory: the model_dir.
    evaluation: the evaluation's name, or "".
    names: of the model_dir's files, where the caller has just listed them.

  Returns:
    Step → {metric: value}.

  Raises:
    FileDamagedError: a file is damaged.
  """
  return read_all_evaluations(directory, names).get(evaluation, {})


def read_all_evaluations(
  directory: str, names: Iterable[str] | None = None
) -> dict[str, dict[int, dict[str, float]]]:
  """Reads the metrics of the evaluations of all names; see `read_evaluations`.

  Returns:
    Name of the evaluation → step → {metric: value}.
  """
  found: dict[str, dict[int, dict[str, float]]] = {}
  for path in _files(directory, names):
    for evaluation, steps in _read(path).items():
      found.setdefault(evaluation, {}).update(steps)
  return found


def _files(directory, names=None):
  # Sorted by name: the file of a later process overwrites earlier values.
  return [
    os.path.join(directory, _EVALUATIONS),
    *files.matching(directory, _OWN_EVALUATIONS, names),
  ]


def set_aside_evaluations(directory: str, step: int, folder: str) -> None:
  """Moves the evaluations of later steps to a folder; see going_back.Mover.

  Args:
    directory: the model_dir.
    step: the step to go back to.
    folder: gets files of the same names.
  """
  for path in _files(directory):
    # What is there cannot be changed by another process meanwhile.
    with _locked(directory) if storage.exists(path) else contextlib.nullcontext():
      noted, target = _read(path), os.path.join(folder, os.path.basename(path))
      later = {
        evaluation: {at: steps[at] for at in steps if at > step}
        for evaluation, steps in noted.items()
      }
      if not any(later.values()):
        continue
      # The order is important: an evaluation is in one of the files at any time.
      json_form.write(target, {name: _read(target).get(name, {}) | later[name] for name in later})
      json_form.write(path, {name: _without(noted[name], later[name]) for name in noted})


def _without(steps, others):
  return {step: steps[step] for step in steps.keys() - others.keys()}


def evaluated_steps(directory: str, evaluation: str) -> set[int]:
  """Returns the steps that have an evaluation of this name."""
  return set(read_evaluations(directory, evaluation))


def note_evaluation(
  directory: str, evaluation: str, step: int, metrics: Mapping[str, float]
) -> None:
  """Writes the metrics of an evaluation to the model_dir.

  Args:
    directory: the model_dir.
    evaluation: the evaluation's name, or "".
    step: the step of the checkpoint that was evaluated.
    metrics: name → value.

  Raises:
    OutputError: they cannot be written.
  """
  with _locked(directory) as is_locked:
    if is_locked:
      _add(os.path.join(directory, _EVALUATIONS), evaluation, step, metrics)
      return
  with _own_lock:
    if directory not in _own:
      _own[directory] = files.own_path(directory, _OWN_EVALUATIONS)
    _add(_own[directory], evaluation, step, metrics)


@contextlib.contextmanager
def _locked(directory):
  """Locks the file that all processes share; yields whether that is possible."""
  if storage.is_remote(directory):
    yield False
    return
  path = os.path.join(directory, f"{_EVALUATIONS}.lock")
  with contextlib.ExitStack() as stack:
    try:
      lock = stack.enter_context(open(path, "ab"))
    except OSError as error:
      raise errors.OutputError(
        f"{path} (in --model_dir) cannot be written: {files.reason(error)}."
      ) from error
    yield file_locks.lock(lock)


def _add(path, evaluation, step, metrics):
  # Read again: another process, or a training that went back, may have changed the file.
  noted = _read(path)
  noted.setdefault(evaluation, {})[step] = metrics
  json_form.write(path, noted)


def _read(path):
  return (
    json_form.read(path, _FORM, "remove it; the best checkpoints so far are then unknown") or {}
  )
