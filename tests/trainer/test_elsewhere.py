"""A run whose model_dir is a URL: ram:// is a file system of TensorFlow's, as gs:// is. It fails
now and then, and once for long."""

import collections

import pytest
import tensorflow as tf

from tests.trainer import faults, programs
from trainer import errors
from trainer.checkpoints import directory
from trainer.reporting import metrics_file
from trainer.serving import predictor


def test_run_survives_faults_and_its_model_is_served_by_url(tmp_path, monkeypatch):
  clock, down, calls = faults.Clock(), [], collections.Counter()

  def fault(operation, path):
    if any(part in path for part in down):
      return "before"
    calls[operation] += 1
    return {1: "before", 3: "after"}.get(calls[operation] % 8)

  with monkeypatch.context() as patched:
    faults.inject(patched, clock, fault)
    programs.train_and_evaluate("ram://elsewhere", 20)
    down += ["model.ckpt-30"]  # for long
    with pytest.raises(errors.StorageError, match="Cannot write .*model.ckpt-30.*: it failed"):
      programs.train_and_evaluate("ram://elsewhere", 30)
    down.clear()
    again = programs.train_and_evaluate("ram://elsewhere", 30)
  assert min(calls[name] for name in (*faults.GFILE, "SaveV2", "read", "write")) > 3, calls
  whole = programs.train_and_evaluate(str(tmp_path), 30)
  assert directory.CheckpointDirectory("ram://elsewhere").steps() == [20, 30]
  assert whole == again
  lines = metrics_file.read("ram://elsewhere")
  assert [line["step"] for line in lines if line["kind"] == metrics_file.TRAIN] == [10, 20, 30]
  # Both ended trainings exported, and nothing half written is left beside their models.
  names = sorted(tf.io.gfile.listdir("ram://elsewhere/export/final"))
  assert len([name for name in names if name.rstrip("/").isdigit()]) == 2
  assert not [name for name in names if "writing" in name]
  made = predictor.Predictor("ram://elsewhere/export/final", "tensorflow")
  assert len(made.predict_batch({"x": programs.arrays(2)[0]})["y"]) == 2
