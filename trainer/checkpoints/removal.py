"""Removes the checkpoints that no rule keeps, and names the others in the file `checkpoint`."""

import collections
import concurrent.futures
import dataclasses
import os
from collections.abc import Callable, Collection, Mapping, Sequence

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import (
  commit,
  file_names,
  inspector,
  leases,
  listing,
  retention,
  state_file,
)
from trainer.io import files, storage

# A save checks whether so many of the newest checkpoints have changed since this process wrote or
# read them: a training resumes from these. The time does not grow with the number of others.
_LOOKED_AT = 10

# The number of removals at a time: on a bucket, each takes a tenth of a second.
_REMOVERS = 16


@dataclasses.dataclass
class Removal:
  """Removes checkpoints of one folder.

  Attributes:
    directory: the folder.
    keep: the rules for the checkpoints to keep.
    inspected: tells the damaged ones.
    clock: returns the time in seconds, as time.monotonic does.
    read_scores: see CheckpointDirectory.
    left: the steps of the checkpoints at the last listing.
  """

  directory: str
  keep: retention.Retention
  inspected: inspector.Inspector
  clock: Callable[[], float]
  read_scores: Callable[[Collection[str]], Mapping[int, float]]
  left: list[int] = dataclasses.field(default_factory=list)

  def remove_unneeded(self, step: int, state: state_file.State | None) -> None:
    """Removes the checkpoints that no rule keeps, and names the others in `checkpoint`.

    Args:
      step: of the newest checkpoint.
      state: the content of the file `checkpoint`.
    """
    # The order is important. The name of a checkpoint leaves the file `checkpoint` before the
    # process looks for leases on the checkpoint, see `leases.held`; and TensorFlow finds no
    # checkpoint at all if this file names a missing one.
    before = sorted({*self.left, step})
    going = self.keep.to_remove({each: self._written_at(each) for each in before}, {})
    named = self.write_state(sorted(set(before) - set(going) | {step}))
    # Everything below uses this one listing: a bucket takes a second for each 1,000 names.
    names = storage.listdir(self.directory)
    steps = listing.steps(self.directory, names, state)
    removable = set(self._removable(steps, names)) & set(going)
    held = retention.held(names) | leases.expire(self.directory, names, self.clock)
    unneeded = sorted(each for each in removable if f"{file_names.PREFIX}-{each}" not in held)
    left = sorted(set(steps) - set(unneeded))
    if self._undamaged(left) != named:
      self.write_state(left)
    data_files = collections.defaultdict(list)
    for name in names:
      data_files[name.partition(".data-")[0]].append(os.path.join(self.directory, name))
    with concurrent.futures.ThreadPoolExecutor(_REMOVERS) as removers:
      of_each = [data_files[f"{file_names.PREFIX}-{step}"] for step in unneeded]
      is_removed = list(removers.map(self._remove, map(self._path, unneeded), of_each))
    stay = [each for each, is_gone in zip(unneeded, is_removed, strict=True) if not is_gone]
    self.left = sorted([*left, *stay])

  def write_state(self, steps: Sequence[int], aside: str = "") -> list[str]:
    """Writes the file `checkpoint`; returns the names of the checkpoints in it.

    Args:
      steps: of the checkpoints; the file leaves out known damaged ones.
      aside: see state_file.State.
    """
    names = self._undamaged(steps)
    listing.write_state(self.directory, names, aside)
    return names

  def _removable(self, steps, names):
    """Returns the steps of the checkpoints that no rule keeps.

    All kept checkpoints are sound: a damaged one does not count as kept. The rules remove a damaged
    one when its turn comes.
    """
    counted = {step: self._written_at(step) for step in steps}
    metrics = self.read_scores(names) if self.keep.best else {}
    there = set(names)

    def problem_of(step):
      path = self._path(step)
      is_there = os.path.basename(path) + file_names.DATA in there
      return self.inspected.problem(path, looks_again=step >= looked_at or not is_there)

    looked_at = steps[-_LOOKED_AT:][0]
    # A damaged checkpoint among the kept ones leaves the count, and the loop chooses again without
    # it: an older one stays instead.
    while removable := self.keep.to_remove(counted, metrics):
      try:
        damaged = {
          step: problem for step in counted.keys() - set(removable) if (problem := problem_of(step))
        }
      except (errors.CheckpointError, errors.CheckpointNotFoundError, errors.StorageError) as error:
        logging.warning("%s Octet removes no checkpoint this time.", error)
        return []
      if not damaged:
        break
      for step, problem in damaged.items():
        del counted[step]
        self.inspected.warn(problem, "This checkpoint does not count as kept.")
    return removable

  def _path(self, step):
    return listing.path(self.directory, step)

  def _written_at(self, step):
    return self.inspected.written_at(self._path(step)) if self.keep.every_n_hours else 0.0

  def _undamaged(self, steps):
    """Returns the names of checkpoints, without known damaged ones."""
    paths = map(self._path, steps)
    return [os.path.basename(path) for path in paths if not self.inspected.known_problem(path)]

  def _remove(self, path, data_files):
    """Removes a checkpoint; returns whether it could."""
    try:
      commit.remove(path, data_files)
    # Only a warning: the new checkpoint is complete, and the training can continue.
    except (tf.errors.OpError, errors.StorageError) as error:
      self.inspected.warn(
        f"Cannot remove the old checkpoint {path}: {files.reason(error)}.", "It stays."
      )
      return False
    self.inspected.mark_removed(path)
    return True
