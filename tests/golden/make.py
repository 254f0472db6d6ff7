"""Writes the folder of a version: what that version leaves on a disk, for every later one to read.

    git clone . /tmp/octet && git -C /tmp/octet checkout 6abb333
    cd /tmp/octet && PYTHONPATH=. python PATH/tests/golden/make.py PATH/tests/golden/v0_1_0

It is run in a checkout of that version, by a newer one's script; `made.json` says of which commit,
and with which TensorFlow and Keras. A folder that is there is not made again.

    made.json                     what made it
    <program>/                    a model_dir of programs.py with two checkpoints
    <program>/golden.json         what it evaluated to, and where two more steps led
    <program>/predictions.npz     the logits at each of the two steps; the variables after two more
    saved_model/                  that of `layers`
    run/                          the model_dir of a run by gin, with all that it writes
    configs/<file>.gin            config.gin of each gin file that is shipped
    operative/<file>.gin          its operative_config.gin
    sweep/                        a sweep of two trials with its database
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import numpy as np
import programs  # beside this file

import trainer
from trainer.devices import device

MORE_STEPS = 2

# A run that is evaluated under two names, stops early, and exports the best and the newest.
RUN = """
include 'gin_configs/digits.gin'
digits_mlp.model_fn.hidden_units = (8,)
run.train_steps = 60
run.eval_specs = [@train/EvalSpec()]
train/EvalSpec.name = "train"
train/EvalSpec.input_fn = @part/digits.input_fn
part/digits.input_fn.split = "train"
run.exporters = [@BestExporter(), @LatestExporter()]
BestExporter.metric = "accuracy"
BestExporter.mode = "max"
BestExporter.exports_to_keep = 1
LatestExporter.exports_to_keep = 1
run.train_hooks = [@EarlyStopping()]
EarlyStopping.metric = "accuracy"
EarlyStopping.mode = "max"
EarlyStopping.patience = 3
RunConfig.save_checkpoints_steps = 20
RunConfig.save_summary_steps = 10
RunConfig.keep_checkpoint_max = 2
"""

SWEEP = """
sweep.metric = 'accuracy'
sweep.mode = 'max'
sweep.sampler = 'random'
sweep.space = {
    'keras.optimizers.Adam.learning_rate': @learning_rate/log_uniform(),
    'digits_mlp.model_fn.hidden_units': [(4,), (8,)],
}
learning_rate/log_uniform.low = 1e-4
learning_rate/log_uniform.high = 0.1
sweep.bindings = {
    'run.train_steps': 20,
    'run.eval_batch_size': 360,
    'RunConfig.save_checkpoints_steps': 10,
    'RunConfig.keep_checkpoint_max': 1,
}
"""


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("folder", type=lambda path: pathlib.Path(path).absolute())
  folder = parser.parse_args().folder
  folder.mkdir(parents=True)
  device.connect("cpu:8")  # which cannot be had once TensorFlow has started with fewer
  for name in programs.PROGRAMS:
    _program(name, folder)
  with tempfile.TemporaryDirectory() as scratch:
    _run(folder, scratch)
    _sweep(folder, scratch)
  _configs(folder)
  (folder / "made.json").write_text(json.dumps(_made(), indent=1) + "\n")
  for path in folder.rglob("*"):
    if path.is_file():
      _refuse_traces(path)


def _program(name, folder):
  program, model_dir = programs.PROGRAMS[name], folder / name
  program.estimator(str(model_dir)).train(programs.train_input_fn, max_steps=program.steps[-1])
  golden, arrays = {"evaluations": {}}, {}
  # bfloat16 rounds otherwise on another processor: what is compared is what float32 computes.
  estimator = program.estimator(str(model_dir), precision="float32")
  for step in program.steps:
    path = str(model_dir / f"model.ckpt-{step}")
    golden["evaluations"][step] = estimator.evaluate(programs.eval_input_fn, checkpoint_path=path)
    arrays[f"step_{step}"] = _logits(estimator, path)
  if name == "layers":
    exported = estimator.export_saved_model(str(folder / "exported"))
    shutil.move(exported, folder / "saved_model")
    (folder / "exported").rmdir()
  with tempfile.TemporaryDirectory() as scratch:  # the training goes on in a copy
    copy = shutil.copytree(model_dir, f"{scratch}/model")
    estimator = program.estimator(copy, precision="float32")
    estimator.train(programs.train_input_fn, steps=MORE_STEPS)
    golden["after"] = estimator.evaluate(programs.eval_input_fn)
    for variable in estimator.get_variable_names():
      arrays[f"after/{variable}"] = estimator.get_variable_value(variable)
  _clean(model_dir)
  (model_dir / "golden.json").write_text(json.dumps(golden, indent=1, default=float) + "\n")
  np.savez_compressed(model_dir / "predictions.npz", **arrays)


def _logits(estimator, path):
  found = estimator.predict(programs.eval_input_fn, checkpoint_path=path)
  return np.array([each["logits" if "logits" in each else "output"] for each in found])


def _run(folder, scratch):
  pathlib.Path(scratch, "mine.gin").write_text(RUN)
  for gin_bindings in ("run.train_steps = 40", "run.train_steps = 60"):  # the second goes on
    _command(
      scratch,
      "trainer.main",
      "--gin_file=mine.gin",
      "--model_dir=out/run",
      "--device=cpu",
      "--seed=3",
      f"--gin_bindings={gin_bindings}",
    )
  _command(
    scratch,
    "trainer.main",
    "--gin_file=out/run/config.gin",
    "--model_dir=out/run",
    "--device=cpu",
    "--mode=predict",
    "--gin_bindings=run.contact_sheet_images = 0",
  )
  run = pathlib.Path(scratch, "out/run")
  _clean(run, scratch)
  (predictions,) = run.glob("predictions-*.jsonl")
  predictions.write_text("".join(predictions.read_text().splitlines(keepends=True)[:20]))
  shutil.copytree(run, folder / "run")


def _sweep(folder, scratch):
  pathlib.Path(scratch, "sweep.gin").write_text(SWEEP)
  _command(
    scratch,
    "trainer.sweep",
    "--gin_file=gin_configs/digits.gin",
    "--sweep_file=sweep.gin",
    "--sweep_dir=out/sweep",
    "--trials=2",
    "--device=cpu",
    "--start=spawn",
  )
  _command(scratch, "trainer.sweep_report", "--sweep_dir=out/sweep")
  sweep = pathlib.Path(scratch, "out/sweep")
  for trial in (sweep / "trials").iterdir():
    _clean(trial, scratch)
    (trial / "log.txt").unlink()
    shutil.rmtree(trial / "export")
  for path in [*sweep.glob("*.log"), sweep / "report.html"]:
    path.unlink()
  shutil.copytree(sweep, folder / "sweep")


def _command(folder, module, *flags):
  path = f"{folder}{os.pathsep}{os.getcwd()}"
  environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
  subprocess.run([sys.executable, "-m", module, *flags], cwd=folder, env=environment, check=True)


def _configs(folder):
  """What 0.1.0's own tests run each shipped file with is what its operative configuration is of."""
  from tests import test_gin_configs as shipped
  from trainer import config, experiment

  for part in ("configs", "operative"):
    (folder / part).mkdir()
  for file in shipped.FILES:
    bindings = [*shipped.SIZES, *shipped.RUNS.get(file, []), *shipped.REQUIRED.get(file, [])]
    config.load([f"gin_configs/{file}"], shipped.REQUIRED.get(file, []))
    (folder / "configs" / file).write_text(config.parsed_text())
    with tempfile.TemporaryDirectory() as scratch:
      before = os.getcwd()
      os.chdir(scratch)  # for the files that a configuration names by their bare names
      pathlib.Path("words.txt").write_text("good\nbad\n")
      for name in ("train.tsv", "test.tsv"):
        pathlib.Path(name).write_text("text\tlabel\n" + "good\t1\nbad\t0\n" * 8)
      config.load([f"gin_configs/{file}"], bindings)
      experiment.run(experiment.Flags(dry_run=True, device="cpu"))
      os.chdir(before)
    (folder / "operative" / file).write_text(config.operative_text())


def _clean(model_dir, scratch=""):
  """Without TensorBoard's files, which have the machine's name and which nothing here reads."""
  for path in model_dir.rglob("events.out.tfevents.*"):
    path.unlink()
  for name in ("environment.json", "command.txt"):
    if (model_dir / name).exists():
      text = (model_dir / name).read_text().replace(f"host {platform.node()}", "host somewhere")
      (model_dir / name).write_text(text.replace(scratch, "/somewhere") if scratch else text)
  for folder in sorted(model_dir.rglob("*"), reverse=True):
    if folder.is_dir() and not any(folder.iterdir()):
      folder.rmdir()


def _refuse_traces(path):
  """Nothing here tells on which machine it was made, and where."""
  found = path.read_bytes()
  if path.suffix == ".db":
    found = "\n".join(sqlite3.connect(path).iterdump()).encode()
  traces = (
    platform.node(),
    os.path.expanduser("~"),
    os.getcwd(),
    sys.prefix,
    tempfile.gettempdir(),
  )
  for trace in filter(None, traces):
    if re.search(rb"(?<!\w)" + re.escape(trace.encode()) + rb"(?!\w)", found):
      raise SystemExit(f"{path} has {trace!r} in it.")


def _made():
  import keras
  import tensorflow as tf

  git = ["git", "rev-parse", "--short=12", "HEAD"]
  return {
    "octet": trainer.__version__,
    "commit": subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip(),
    "tensorflow": tf.__version__,
    "keras": keras.__version__,
    "python": platform.python_version(),
  }


if __name__ == "__main__":
  main()
