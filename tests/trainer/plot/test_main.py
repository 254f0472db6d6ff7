"""The command that draws the curves of runs."""

import os
import pathlib
import subprocess
import sys

import pytest

import trainer
from tests import warm
from tests.trainer import programs
from tests.trainer.plot.test_curves import write
from trainer.plot import curves

ENVIRONMENT = dict(os.environ, PYTHONPATH=str(pathlib.Path(trainer.__file__).parents[1]))


@pytest.fixture
def two(tmp_path):
  return [write(tmp_path / "lr1"), write(tmp_path / "lr2")]


def plot(*arguments, cwd):
  return warm.run("-m", "trainer.plot", *arguments, cwd=cwd, env=ENVIRONMENT)


def test_the_command_needs_no_tensorflow(two, tmp_path):
  program = (
    "import runpy, sys; sys.argv = ['plot', *sys.argv[1:]]\n"
    "try: runpy.run_module('trainer.plot', run_name='__main__')\n"
    "finally: assert 'tensorflow' not in sys.modules"
  )
  done = subprocess.run(
    [sys.executable, "-c", program, *two],
    cwd=tmp_path,
    env=ENVIRONMENT,
    capture_output=True,
    text=True,
    check=False,
  )
  assert (done.returncode, done.stderr) == (0, "")
  assert (
    done.stdout
    == "Wrote curves.png: loss, accuracy, learning_rate, examples_per_second, input_wait\n"
  )
  assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
  "arguments, message",
  [
    ([], "No folder of a run. Try: python -m trainer.plot out/digits"),
    (["nowhere"], "There are no metrics in nowhere: no metrics.jsonl with a report in it."),
    (
      ["lr1", "--output=curves.gif"],
      "--output=curves.gif: expected a file that ends in .png or .svg",
    ),
    (["lr1", "--output=nowhere/curves.png"], "Cannot write nowhere/curves.png (--output)"),
    (["lr1", "--metric=nothing"], "--metric=nothing: the runs have"),
    (["lr1", "--html=nowhere/report.html"], "Cannot write nowhere/report.html (--html)"),
  ],
  ids=lambda value: value[-1] if isinstance(value, list) and value else "",
)
def test_mistakes_are_one_line(arguments, message, two, tmp_path):
  done = plot(*arguments, cwd=tmp_path)
  assert (done.returncode, done.stdout) == (2, "")
  assert done.stderr.startswith(f"error: {message}")
  assert done.stderr.count("\n") == 1


def test_several_runs_have_one_page(two, tmp_path):
  done = plot(*two, "--html=both.html", cwd=tmp_path)
  assert (done.stdout, done.stderr) == ("Wrote both.html\n", "")
  assert "<h1>2 runs</h1>" in (tmp_path / "both.html").read_text()


def test_a_run_that_goes_on_can_be_drawn(tmp_path):
  seen = []
  estimator = programs.estimator(tmp_path, save_summary_steps=2, **programs.fixed_loops(2))
  estimator.train(
    programs.train_input,
    max_steps=4,
    hooks=[lambda *_: seen.append(curves.collect([tmp_path])["loss"][0].steps)],
  )
  assert seen == [[2], [2, 4]]
