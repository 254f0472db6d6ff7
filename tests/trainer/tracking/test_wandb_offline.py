"""Runs that the package wandb itself keeps on the disk, without a server."""

import json
import pathlib
import struct

import pytest

import trainer
from tests.trainer import programs
from trainer.reporting import trial_file

pytest.importorskip("wandb")

# The layout of a .wandb file: seven bytes, then the format of LevelDB's logs.
_HEADER, _BLOCK, _PREFIX, _LAST_PARTS = 7, 1 << 15, struct.Struct("<IHB"), (1, 4)


def records(path):
  """Yields the records of a .wandb file, in order."""
  from wandb.proto import wandb_internal_pb2

  data, at, whole = path.read_bytes(), _HEADER, b""
  while at < len(data):
    if (left := _BLOCK - at % _BLOCK) < _PREFIX.size:
      at += left
      continue
    _, length, kind = _PREFIX.unpack_from(data, at)
    at += _PREFIX.size + length
    whole += data[at - length : at]
    if kind in _LAST_PARTS:
      yield wandb_internal_pb2.Record.FromString(whole)
      whole = b""


def kept(folder):
  """Returns the records of each start of a training, kind → records, oldest first."""
  files = sorted(pathlib.Path(folder, "wandb").glob("offline-run-*/*.wandb"))
  found = []
  for file in files:
    found.append({})
    for record in records(file):
      kind = record.WhichOneof("record_type")
      found[-1].setdefault(kind, []).append(getattr(record, kind))
  return found


def history(start):
  """Returns the lines of a start: the metric that a line names first, and the step."""
  lines = [
    {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in line.item}
    for line in start["history"]
  ]
  return [
    (next(name for name in sorted(line) if "/loss" in name), line["global_step"]) for line in lines
  ]


def train(folder, max_steps):
  trainer.train_and_evaluate(
    programs.estimator(folder, save_checkpoints_steps=10, save_summary_steps=10),
    trainer.TrainSpec(
      programs.train_input,
      max_steps,
      [trainer.WandbHook(project="lines", mode="offline", tags=["first"])],
    ),
    trainer.EvalSpec(programs.examples(16)),
  )


def finish():
  """Ends wandb's process, which the end of a process does otherwise."""
  import wandb

  wandb.teardown()


def test_resumed_training_is_one_run_with_each_step_once(tmp_path):
  folder = tmp_path / "line"
  folder.mkdir()
  trial = trial_file.Trial(
    sweep="lr",
    id="abc",
    folder=str(tmp_path),
    number=3,
    seed=None,
    bindings={},
    metrics=["loss"],
    modes=["min"],
  )
  trial.write(str(folder))
  for max_steps in (20, 40):
    train(folder, max_steps)
    finish()
  first, second = kept(folder)
  runs = [start["run"][0] for start in (first, second)]
  assert runs[0].run_id == runs[1].run_id
  for run in runs:
    assert (run.project, run.run_group, run.job_type) == ("lines", "lr", "trial")
    assert (run.display_name, list(run.tags)) == ("trial 3", ["first"])
  expected = [("train/loss", 10), ("eval/loss", 10), ("train/loss", 20), ("eval/loss", 20)]
  assert history(first) == expected
  assert history(second) == [(name, step + 20) for name, step in expected]
  assert first["artifact"][0].type == "files"
  assert [start["exit"][0].exit_code for start in (first, second)] == [0, 0]
