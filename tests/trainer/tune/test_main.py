"""The command: flags that are wrong, and a learning rate for the digits."""

import json
import os
import subprocess
import sys

import pytest

from tests import warm
from trainer.config import files

DIGITS = "--gin_file=gin_configs/digits.gin"


def run(*arguments):
  return subprocess.run(
    [sys.executable, "-m", "trainer.tune", *map(str, arguments)],
    capture_output=True,
    text=True,
    cwd=files.ROOT,
    check=False,
  )


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ([], "No --gin_file"),
    ([DIGITS, "--find=loss"], "--find=loss: expected learning_rate, batch_size or both"),
    (
      ["--gin_file=a b.gin", "--find=batch_size", "--device=tpu"],
      "python -m trainer.preflight --gin_file='a b.gin' --steps=train",
    ),
  ],
)
def test_wrong_flags_are_said_before_tensorflow_is_imported(arguments, message):
  done = run(*arguments)
  assert done.returncode == 2
  assert message in done.stderr


def test_the_digits_get_a_rate_and_a_picture(tmp_path):
  environment = {**os.environ, "PYTHONPATH": str(files.ROOT)}
  arguments = (DIGITS, "--device=cpu", "--json=-", "--picture=rate.png")
  done = warm.run("-m", "trainer.tune", *arguments, cwd=tmp_path, env=environment)
  assert done.returncode == 0, done.stderr
  found = json.loads(done.stdout)["learning_rate"]
  assert 1e-3 < found["suggestion"] < 3e-2
  (binding,) = found["bindings"]
  assert binding == f"keras.optimizers.Adam.learning_rate = {found['suggestion']:.2g}"
  assert os.listdir(tmp_path) == ["rate.png"]
