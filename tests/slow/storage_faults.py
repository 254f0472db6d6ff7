"""Runs on a storage that is slow, fails for a moment, fails for long, or lists outdated files.

    python -m tests.slow.storage_faults --cases=56

Each case trains, evaluates and in part exports on `faulty://`, see tests/slow/faulty_storage, with
faults from its seed. Requirements for each case: the final weights equal those of an undisturbed
run on a disk to the bit, every evaluation appears once with its values, TensorBoard has all its
points, the newest checkpoints stay, and no incomplete file is left. If the storage fails for long,
the run ends with a StorageError that asks for a restart, and the restart completes the work.

A restart happens in this process with new objects, like a new process.
"""

import argparse
import collections
import glob
import os
import random
import sys
import tempfile
import time

import tensorflow as tf
from absl import logging
from tensorboard.compat.proto import event_pb2

from tests.slow import faulty_storage
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import directory
from trainer.cli import command
from trainer.io import storage
from trainer.outputs import description
from trainer.reporting import metrics_file

KINDS = ("slow", "for a moment", "for long", "old listings")
STEPS = 30
# This many seconds here for a second of storage.Retries.
_SCALE = 1 / 50
_CODES = (
  tf.errors.UNKNOWN,
  tf.errors.DEADLINE_EXCEEDED,
  tf.errors.ABORTED,
  tf.errors.INTERNAL,
  tf.errors.UNAVAILABLE,
)


def evaluations(folder):
  """Returns {step: loss} of a run; each appears once."""
  lines = [line for line in metrics_file.read(folder) if line["kind"] == "eval"]
  found = {line["step"]: line["loss"] for line in lines}
  assert len(found) == len(lines), lines
  return found


def summaries(folder):
  """Returns {(folder, tag, step)} of TensorBoard's points of a run, in a folder of the machine."""
  found = set()
  for path in glob.glob(f"{folder}/**/events.*", recursive=True):
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
      event = event_pb2.Event.FromString(record)
      place = os.path.relpath(os.path.dirname(path), folder)
      found |= {(place, value.tag, event.step) for value in event.summary.value}
  return found


def choose(kind, faults, randomness):
  """Adds the faults of a case.

  All operations may fail except "append": what TensorFlow appends to an object stays in a file or
  in this machine's memory until the upload, "publish". TensorFlow's writer of summaries could not
  repeat half of a record.
  """
  operations = [name for name in faulty_storage.OPERATIONS if name != "append"]
  if kind == "slow":
    faults.add(delay=0.003)
    for operation in randomness.sample(operations, 2):
      faults.add(operation, delay=randomness.uniform(0.01, 0.05), skip=randomness.randrange(20))
  if kind == "for a moment":
    for _ in range(randomness.randint(3, 8)):
      faults.add(
        randomness.choice(operations),
        skip=randomness.randrange(25),
        count=randomness.randint(1, 3),
        code=randomness.choice(_CODES),
        is_late=randomness.random() < 0.5,
      )
  if kind == "for long":
    parts = {"": 450, "model.ckpt": 80, "metrics": 8, "events": 8, ".index": 40, "eval": 15}
    part = randomness.choice(list(parts))
    faults.add(
      *operations,
      part=part,
      skip=randomness.randrange(parts[part]),
      count=-1,
      code=randomness.choice(_CODES),
      is_late=randomness.random() < 0.3,
    )


def case(number, root, expected):
  """Runs a case; returns (its kind, operations, failures, whether a StorageError ended it)."""
  randomness, kind = random.Random(number), KINDS[number % len(KINDS)]
  local = os.path.join(root, str(number))
  os.mkdir(local)
  folder, exports = f"faulty://{local}/run", number % 8 in (1, 3, 6)
  lag = randomness.uniform(0.3, 4.0) if kind == "old listings" else 0.0
  with faulty_storage.begun(local, lag) as faults:
    choose(kind, faults, randomness)
    gave_up: errors.StorageError | None = None
    if kind == "old listings":
      programs.train_and_evaluate(folder, randomness.choice([10, 20]), exports)
    try:
      weights = programs.train_and_evaluate(folder, STEPS, exports)
    except errors.StorageError as error:
      gave_up = error
    counts = faults.operations, faults.failures
    if gave_up is not None:
      assert kind == "for long", gave_up
      assert gave_up.exit_code == errors.TRY_AGAIN, gave_up
      assert command.message(gave_up).startswith("Cannot "), gave_up
      assert "\n" not in str(gave_up), gave_up
    if kind == "for long":
      faults.begin(local)
      weights = programs.train_and_evaluate(folder, STEPS, exports)
    assert weights == expected["weights"], "other weights"
    assert evaluations(folder) == expected["evaluations"], evaluations(folder)
    shown = summaries(f"{local}/run")
    assert shown >= expected["summaries"], expected["summaries"] - shown
    assert directory.CheckpointDirectory(folder).steps()[-2:] == [20, 30]
    names = [name for _, folders, files in os.walk(f"{local}/run") for name in folders + files]
    left = [name for name in names if ".owed-" in name or name.endswith(".lock")]
    # A folder that an old listing shows as full stays, without a file.
    left += [
      name
      for _, _, files in os.walk(f"{local}/run")
      for name in files
      if ".writing-" in name and kind != "for long"
    ]
    assert not left, left
    if exports:
      final = f"{local}/run/export/final"
      made = [name for name in os.listdir(final) if name.isdigit()]
      whole = [name for name in made if description.is_whole(os.path.join(final, name))]
      assert whole, "no export"
      if kind != "for long":
        assert made == whole, made
  return kind, *counts, gave_up is not None


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--cases", type=int, default=56)
  parser.add_argument("--first", type=int, default=0)
  arguments = parser.parse_args()
  if faulty_storage.load() is None:
    sys.exit("tests.slow.storage_faults needs a C++ compiler (c++).")
  logging.set_verbosity(logging.ERROR)
  usual = storage.RETRIES
  storage.RETRIES = storage.Retries(
    usual.first_seconds * _SCALE, usual.longest_seconds * _SCALE, usual.total_seconds * _SCALE
  )
  totals = collections.defaultdict(lambda: [0, 0, 0, 0])
  with tempfile.TemporaryDirectory() as root:
    plain = os.path.join(root, "plain")
    weights = programs.train_and_evaluate(plain, STEPS, False)
    expected = {
      "weights": weights,
      "evaluations": evaluations(plain),
      "summaries": summaries(plain),
    }
    for number in range(arguments.first, arguments.first + arguments.cases):
      start = time.time()
      kind, *counts = case(number, root, expected)
      totals[kind] = [a + b for a, b in zip(totals[kind], [1, *counts], strict=True)]
      print(f"case {number}, {kind}: {counts}, {time.time() - start:.1f} s", flush=True)
  for kind, (cases, operations, failures, ended) in totals.items():
    print(
      f"{kind}: {cases} cases, {operations} operations, {failures} of them failed, "
      f"{ended} runs ended with a StorageError and went on when started again."
    )
  print("Nothing was lost: weights to the bit, evaluations once, all summaries, whole exports.")


if __name__ == "__main__":
  main()
