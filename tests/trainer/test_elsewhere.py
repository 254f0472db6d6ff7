"""A run whose model_dir is a URL: ram:// is a file system of TensorFlow's, as gs:// is. It fails
now and then, and once for long."""

import collections

import pytest
import tensorflow as tf

import trainer
from tests.trainer import faults, programs
from trainer import errors
from trainer.checkpoints import directory
from trainer.outputs import exporters
from trainer.reporting import metrics_file
from trainer.serving import predictor
from trainer.train_evaluate import EvalSpec, TrainSpec, train_and_evaluate


def run(folder, max_steps):
  estimator = trainer.Estimator(
    programs.line,
    folder,
    trainer.RunConfig(device="cpu", save_checkpoints_steps=10, keep_checkpoint_max=2),
    train_batch_size=8,
    eval_batch_size=8,
  )
  train_and_evaluate(
    estimator,
    TrainSpec(programs.train_input, max_steps),
    EvalSpec(programs.examples(16), exporters=[exporters.FinalExporter("final")]),
  )
  return estimator


def test_a_run_goes_on_through_faults_and_its_model_is_served_from_a_url(tmp_path, monkeypatch):
  clock, down, calls = faults.Clock(), [], collections.Counter()

  def fault(operation, path):
    if any(part in path for part in down):
      return "before"
    calls[operation] += 1
    return {1: "before", 3: "after"}.get(calls[operation] % 8)

  with monkeypatch.context() as patched:
    faults.inject(patched, clock, fault)
    run("ram://elsewhere", 20)
    down += ["model.ckpt-30"]  # for long
    with pytest.raises(errors.StorageError, match="Cannot write .*model.ckpt-30.*: it failed"):
      run("ram://elsewhere", 30)
    down.clear()
    again = run("ram://elsewhere", 30)
  assert min(calls[name] for name in (*faults.GFILE, "SaveV2", "read", "write")) > 3, calls
  whole = run(str(tmp_path), 30)
  assert directory.CheckpointDirectory("ram://elsewhere").steps() == [20, 30]
  here, there = (each.get_variable_value("w") for each in (whole, again))
  assert here.tobytes() == there.tobytes()
  lines = metrics_file.read("ram://elsewhere")
  assert [line["step"] for line in lines if line["kind"] == metrics_file.TRAIN] == [10, 20, 30]
  # Both ended trainings exported, and nothing half written is left beside their models.
  names = sorted(tf.io.gfile.listdir("ram://elsewhere/export/final"))
  assert len([name for name in names if name.rstrip("/").isdigit()]) == 2
  assert not [name for name in names if "writing" in name]
  made = predictor.Predictor("ram://elsewhere/export/final", "tensorflow")
  assert len(made.predict_batch({"x": programs.arrays(2)[0]})["y"]) == 2
