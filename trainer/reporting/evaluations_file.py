"""The metrics of a run's own checkpoints, by evaluation and step: the file evaluations.json.

    evaluations_file.add("out/digits", "test", 100, {"loss": 0.5})
    evaluations_file.read("out/digits", "test")  # {100: {"loss": 0.5}}

They decide which checkpoints are the best and when to stop early, and record past evaluations.
Layout of a model_dir:

    evaluations.json                    {name: {step: {metric: value}}}; one process at a time
                                        changes it, under a lock on evaluations.json.lock
    evaluations-<number>-<id>.json      the same, from one process, on file systems without locks
                                        (gs://), see `files.own_path`; all such files together count

An object store has no locks, and a write replaces a whole object. Two processes that write the same
object would lose each other's entries, so each process has its own. On a local disk one file under
a lock stays one file, however many restarts a run has.
"""

import contextlib
import os
import threading
from collections.abc import Iterable, Mapping

from trainer import errors
from trainer.io import file_locks, files, json_form, storage

_EVALUATIONS = "evaluations.json"
_OWN_EVALUATIONS = "evaluations-*.json"
_FORM = dict[str, dict[int, dict[str, float]]]

# directory → path of this process's own file.
_own: dict[str, str] = {}
_own_lock = threading.Lock()


def read_metric(
  directory: str, evaluation: str, metric: str, names: Iterable[str] | None = None
) -> dict[int, float]:
  """Reads one metric of the evaluations: step → value.

  Args:
    directory: the model_dir.
    evaluation: the evaluation's name, or "".
    metric: the metric's name.
    names: see `read`.
  """
  noted = read(directory, evaluation, names)
  return {step: values[metric] for step, values in noted.items() if metric in values}


def read(
  directory: str, evaluation: str, names: Iterable[str] | None = None
) -> dict[int, dict[str, float]]:
  """Reads the metrics of the evaluations: step → {metric: value}.

  Args:
    directory: the model_dir.
    evaluation: the evaluation's name, or "".
    names: of the model_dir's files, if the caller has just listed them.

  Raises:
    FileDamagedError: a file is damaged.
  """
  return read_all(directory, names).get(evaluation, {})


def read_all(
  directory: str, names: Iterable[str] | None = None
) -> dict[str, dict[int, dict[str, float]]]:
  """Reads the metrics of the evaluations of all names; see `read`.

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


def set_aside(directory: str, step: int, folder: str) -> None:
  """Moves the evaluations of later steps to a folder; see going_back.Mover.

  Args:
    directory: the model_dir.
    step: the step to go back to.
    folder: gets files of the same names.
  """
  for path in _files(directory):
    # Under the lock, no other process can change these meanwhile.
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
      left = {name: {at: steps[at] for at in steps if at <= step} for name, steps in noted.items()}
      json_form.write(path, left)


def add(directory: str, evaluation: str, step: int, metrics: Mapping[str, float]) -> None:
  """Writes the metrics of an evaluation to the model_dir.

  Args:
    directory: the model_dir.
    evaluation: the evaluation's name, or "".
    step: the step of the evaluated checkpoint.
    metrics: name → value.

  Raises:
    OutputError: it cannot write them.
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
  """Locks the file that all processes share; yields whether it could."""
  if storage.is_remote(directory):
    yield False
    return
  path = os.path.join(directory, f"{_EVALUATIONS}.lock")
  with contextlib.ExitStack() as stack:
    try:
      lock = stack.enter_context(open(path, "ab"))
    except OSError as error:
      raise errors.OutputError(
        f"Cannot write {path} (in --model_dir): {files.reason(error)}."
      ) from error
    yield file_locks.lock(lock)


def _add(path, evaluation, step, metrics):
  # Read again: another process, or a training that went back, may have changed the file.
  noted = _read(path)
  noted.setdefault(evaluation, {})[step] = metrics
  json_form.write(path, noted)


def _read(path):
  return (
    json_form.read(path, _FORM, "remove it; the record of the best checkpoints is then lost") or {}
  )
