"""The command: flags that are wrong, and a learning rate for the digits."""

import os
import re
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
    ([DIGITS, "--find=loss"], "flag --find=loss: value should be one of"),
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
  arguments = (DIGITS, "--device=cpu", "--picture=rate.png")
  done = warm.run("-m", "trainer.tune", *arguments, cwd=tmp_path, env=environment)
  assert done.returncode == 0, done.stderr
  said = re.search(r"\n(\S+)  suggested:[^\n]*\n(?:.*\n)*.*to \1\.\n", done.stdout)
  assert 1e-3 < float(said[1]) < 3e-2
  assert os.listdir(tmp_path) == ["rate.png"]
