"""Checkpoints and SavedModels of earlier versions: restored, evaluated, predicted from, trained
on.
"""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests import golden
from tests.golden import programs

LONG = ("norm_eight_cores", "modules", "averages_bfloat16")
CASES = [
  pytest.param(
    version / name,
    programs.PROGRAMS[name],
    id=f"{version.name}-{name}",
    marks=[pytest.mark.long] * (name in LONG),
  )
  for version in golden.VERSIONS
  for name in programs.PROGRAMS
  if (version / name).exists()
]
LOSS, VALUES = 1e-6, 1e-5  # how far a later version may be from what was written down

SERVE = """
import sys, numpy as np, tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
np.save(sys.argv[3], serve(image=tf.constant(np.load(sys.argv[2])))["logits"])
assert not {name.split(".")[0] for name in sys.modules} & {"trainer", "models", "gin"}
"""


def logits(estimator, path):
  found = list(estimator.predict(programs.eval_input_fn, checkpoint_path=path))
  return np.array([each["logits" if "logits" in each else "output"] for each in found])


@pytest.mark.parametrize(("folder", "program"), CASES)
def test_evaluates_predicts_and_trains_on(folder, program, tmp_path):
  model_dir = shutil.copytree(folder, tmp_path / "model")
  arrays = np.load(folder / "predictions.npz")
  golden_values = json.loads((folder / "golden.json").read_text())
  # In float32 whatever it was trained in: bfloat16 rounds otherwise on another processor.
  estimator = program.estimator(str(model_dir), precision="float32")

  for step in program.steps:
    path = str(model_dir / f"model.ckpt-{step}")
    result = estimator.evaluate(programs.eval_input_fn, checkpoint_path=path)
    assert result == pytest.approx(golden_values["evaluations"][str(step)], abs=LOSS)
    np.testing.assert_allclose(logits(estimator, path), arrays[f"step_{step}"], atol=VALUES)

  last = program.steps[-1]
  after = {name.removeprefix("after/"): arrays[name] for name in arrays if name[:6] == "after/"}
  estimator.train(programs.train_input_fn, max_steps=int(after["global_step"]))
  assert estimator.latest_step() == after["global_step"] > last
  assert estimator.evaluate(programs.eval_input_fn) == pytest.approx(
    golden_values["after"], abs=VALUES
  )
  for name, value in after.items():  # what a later version has besides is its own affair
    found = estimator.get_variable_value(name)
    np.testing.assert_allclose(found, value, rtol=VALUES, atol=VALUES, err_msg=name)


def test_eight_cores_left_what_one_reads(tmp_path):
  for version in golden.VERSIONS:
    folder = shutil.copytree(version / "norm_eight_cores", tmp_path / version.name)
    program = programs.PROGRAMS["norm_eight_cores"]
    result = program.estimator(str(folder), device="cpu").evaluate(programs.eval_input_fn)
    found = json.loads((folder / "golden.json").read_text())["evaluations"]
    assert result == pytest.approx(found[str(program.steps[-1])], abs=LOSS)


def assert_served(version, found):
  wanted = np.load(version / "layers" / "predictions.npz")
  last = programs.PROGRAMS["layers"].steps[-1]
  np.testing.assert_allclose(found, wanted[f"step_{last}"], atol=VALUES)


@pytest.mark.parametrize("version", golden.VERSIONS, ids=lambda path: path.name)
def test_a_saved_model_is_served(version):
  serve = tf.saved_model.load(str(version / "saved_model")).signatures["serving_default"]
  assert_served(version, serve(image=tf.constant(programs.arrays()[0]["image"]))["logits"])


@pytest.mark.long
@pytest.mark.parametrize("version", golden.VERSIONS, ids=lambda path: path.name)
def test_a_saved_model_is_served_without_octet(version, tmp_path):
  np.save(tmp_path / "images.npy", programs.arrays()[0]["image"])
  command = [sys.executable, "-c", SERVE, version / "saved_model", "images.npy", "logits.npy"]
  run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
  assert run.returncode == 0, run.stderr
  assert_served(version, np.load(tmp_path / "logits.npy"))


def test_every_program_is_in_a_folder():
  assert golden.VERSIONS
  assert {case.values[0].name for case in CASES} == set(programs.PROGRAMS)
