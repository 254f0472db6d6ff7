"""Trains with every part of docs/train_well.md on one core and on eight, and after a resume.

The network is that of gin_configs/cifar10_air94.gin, with fewer filters, float32 and synchronized
batch norm. Its images are random. On CPU devices the differences of the losses are rounding; a
resumed training must come to the same bits.

Example:
    python -m tests.slow.train_well --device=cpu:8
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

from tests.slow import checkpoint_values

STEPS = 20
TOLERANCE = 1e-5  # of a loss, relative
CONFIG = """
include 'gin_configs/cifar10_air94.gin'
import input_pipelines.image_folder
import input_pipelines.mixture

run.train_input_fn = @mixture.input_fn
run.eval_input_fn = None
run.train_batch_size = 64
run.train_steps = 20
RunConfig.epoch_examples = 480
RunConfig.log_step_count_steps = 1
RunConfig.save_summary_steps = 1
RunConfig.save_checkpoints_steps = 10
TPUConfig.iterations_per_loop = 1

mixture.input_fn.parts = [@one/image_folder.input_fn, @other/image_folder.input_fn]
mixture.input_fn.weights = [3, 1]
one/image_folder.input_fn.directory = "{folder}/one"
other/image_folder.input_fn.directory = "{folder}/other"
image_folder.input_fn.training = True
image_folder.input_fn.image_size = 32
image_folder.input_fn.augment = @augment.standard
augment.standard.randaugment = 2
augment.standard.brightness = 0.1
augment.standard.contrast = 0.1
augment.standard.saturation = 0.1
augment.standard.cutout = 8
image_folder.input_fn.mix = @augment.mix
augment.mix.classes = 10
augment.mix.mixup = 0.4
augment.mix.cutmix = 1.0

cifar10_air.model_fn.images = @first/image_folder.input_fn
first/image_folder.input_fn.directory = "{folder}/one"
cifar10_air.model_fn.filters = (16, 32, 32)
cifar10_air.model_fn.synchronized = True
whitening/VariableGroup.until = 10
# The file's own rates amplify rounding: the difference of cpu:8 grows from 1e-7 to 8e-4.
schedules.linear.learning_rate = 0.15
schedules.linear.initial = 0.03
schedules.linear.final = 0.01
biases/VariableGroup.learning_rate_factor = 4.0
minimize.ema_decay = 0.9
"""


def write_images(folder, count, random):
  """Writes images of ten classes: noise on a pattern of the class."""
  patterns = random.randint(0, 256, [10, 32, 32, 3])
  for number in range(count):
    home = folder / f"class {number % 10}"
    home.mkdir(parents=True, exist_ok=True)
    image = (patterns[number % 10] + random.randint(0, 256, [32, 32, 3])) // 2
    (home / f"{number}.png").write_bytes(tf.io.encode_png(image.astype(np.uint8)).numpy())


def train(config, model_dir, device):
  """Trains; returns {step: loss}."""
  subprocess.run(
    [
      sys.executable,
      "-m",
      "trainer.main",
      "--mode=train",
      f"--gin_file={config}",
      f"--model_dir={model_dir}",
      f"--device={device}",
    ],
    check=True,
    stderr=subprocess.DEVNULL,
  )
  lines = map(json.loads, (model_dir / "metrics.jsonl").read_text().splitlines())
  return {line["step"]: line["loss"] for line in lines if "loss" in line}


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--device", default="cpu:8")
  device = parser.parse_args().device
  with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    random = np.random.RandomState(0)
    write_images(folder / "one", 400, random)
    write_images(folder / "other", 80, random)
    config = folder / "config.gin"
    config.write_text(CONFIG.format(folder=folder))

    one = train(config, folder / "one core", "cpu")
    several = train(config, folder / "several", device)
    assert list(one) == list(several) == list(range(1, STEPS + 1)), (one, several)
    difference = max(abs(several[step] / one[step] - 1) for step in one)
    print(f"{device} against cpu, {STEPS} losses: the largest relative difference is", end=" ")
    print(f"{difference:.1e}", flush=True)
    assert difference <= TOLERANCE

    shutil.copytree(folder / "several", folder / "resumed")
    for path in (folder / "resumed").glob(f"model.ckpt-{STEPS}.*"):
      path.unlink()
    train(config, folder / "resumed", device)
    wanted = checkpoint_values.newest(folder / "several")
    found = checkpoint_values.newest(folder / "resumed")
    assert wanted.keys() == found.keys()
    for key, value in wanted.items():
      np.testing.assert_array_equal(found[key], value, err_msg=key)
    print(f"{device}, resumed at step {STEPS // 2}: {len(wanted)} values with the same bits")


if __name__ == "__main__":
  main()
