"""Commands tell mistakes without a traceback, and leave with a number that says which kind it
was.
"""

import logging
import os
import re
import subprocess
import sys

import gin
import pytest
from absl import app, flags
from absl import logging as absl_logging
from absl.testing import flagsaver

from tests import declared, warm
from trainer import errors
from trainer.cli import command
from trainer.loop import preemption


@gin.configurable(module="program")
def configured(error):
  raise error


@pytest.fixture
def run(monkeypatch, capsys):
  """Runs main with arguments; gives (exit code, stdout, stderr).

  absl's own set-up, which is done once a process, is left out.
  """

  def with_absl(main, flags_parser):
    sys.exit(main(flags_parser(sys.argv)))

  monkeypatch.setattr(app, "run", with_absl)
  handler = absl_logging.get_absl_handler()
  formatter, filters = handler.python_handler.formatter, list(handler.filters)

  def call(main, *arguments):
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    with flagsaver.flagsaver(), pytest.raises(SystemExit) as left:
      command.run(main)
    out, err = capsys.readouterr()
    return left.value.code or 0, out, err

  yield call
  handler.setFormatter(formatter)
  handler.filters[:] = filters


def raiser(error):
  def main(argv):
    raise error

  return main


def test_a_program_that_ends_well(run):
  assert run(lambda argv: print("argv", len(argv))) == (0, "argv 1\n", "")


@pytest.mark.parametrize("set_by_user, expected", [(None, "true"), ("false", "false")])
def test_a_command_leaves_memory_of_gpus_to_others(run, monkeypatch, set_by_user, expected):
  monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", "restored")
  monkeypatch.delenv("TF_FORCE_GPU_ALLOW_GROWTH")
  if set_by_user:
    monkeypatch.setenv("TF_FORCE_GPU_ALLOW_GROWTH", set_by_user)
  assert run(lambda argv: print(os.environ["TF_FORCE_GPU_ALLOW_GROWTH"]))[1] == f"{expected}\n"


def test_a_mistake_is_one_line(run):
  assert run(raiser(errors.SettingError("steps is -1: expected an int."))) == (
    2,
    "",
    "error: steps is -1: expected an int.\n",
  )


def test_the_cause_is_one_more_line_unless_it_is_told(run):
  def main(argv):
    try:
      raise KeyError("inner\nsecond line")
    except KeyError as error:
      raise errors.InputError("The input failed.") from error

  assert run(main) == (
    2,
    "",
    "error: The input failed.\n  caused by KeyError: 'inner\\nsecond line'\n",
  )

  def empty(argv):
    raise errors.ModelFnError("A step failed.") from ValueError("Graph execution error:\nmore")

  assert run(empty) == (2, "", "error: A step failed.\n")

  def told(argv):
    try:
      raise ValueError("bad shape\nmore")
    except ValueError as error:
      raise errors.InputError("The input failed: bad shape.") from error

  assert run(told) == (2, "", "error: The input failed: bad shape.\n")


def test_what_gin_adds_to_a_message_is_left_out(run):
  def main(argv):
    configured(errors.SettingError("steps is -1."))

  assert run(main) == (2, "", "error: steps is -1.\n")
  # Which is what gin does.
  with pytest.raises(errors.SettingError, match="In call to configurable"):
    main(None)


def test_debug_shows_the_traceback(monkeypatch):
  error = errors.SettingError("steps is -1.")
  monkeypatch.setattr(app, "run", lambda main, flags_parser: main(flags_parser(sys.argv)))
  monkeypatch.setattr(sys, "argv", ["program", "--debug"])
  with flagsaver.flagsaver(), pytest.raises(errors.SettingError) as raised:
    command.run(raiser(error))
  assert raised.value is error


def test_a_crash_keeps_its_traceback(monkeypatch):
  monkeypatch.setattr(app, "run", lambda main, flags_parser: main(flags_parser(sys.argv)))
  monkeypatch.setattr(sys, "argv", ["program"])
  with flagsaver.flagsaver(), pytest.raises(ZeroDivisionError):
    command.run(lambda argv: 1 / 0)


def test_an_interrupt_is_one_line(run):
  assert run(raiser(KeyboardInterrupt())) == (130, "", "interrupted\n")
  assert run(raiser(preemption.Interrupted("saved at step 3"))) == (
    130,
    "",
    "interrupted: saved at step 3\n",
  )


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    ("--debgu", "error: Unknown command line flag 'debgu'. Did you mean: debug ?"),
    ("--debug=perhaps", "error: flag --debug=perhaps: "),
    ("gin_configs/digits.gin", "error: unexpected argument 'gin_configs/digits.gin'"),
    ("--octet_test_seconds=nan", "error: --octet_test_seconds=nan: expected a finite number"),
    ("--octet_test_seconds=1e999", "error: --octet_test_seconds=inf: expected a finite number"),
  ],
)
def test_wrong_arguments_are_one_line(run, argument, message):
  if "octet_test_seconds" not in flags.FLAGS:
    flags.DEFINE_float("octet_test_seconds", 1.0, "Of this test.", lower_bound=0.0)
  code, out, err = run(raiser(AssertionError("called")), argument)
  assert (code, out) == (2, "")
  assert err.startswith(message)
  assert err.count("\n") == 1


@pytest.mark.parametrize("argument", ["--help", "-h", "--helpfull"])
def test_help_ends_well_and_lists_debug(run, argument):
  code, out, err = run(raiser(AssertionError("called")), argument)
  assert (code, err) == (0, "")
  assert "--[no]debug: Show the place" in out


def test_tensorflows_chatter_is_shown_where_it_is_asked_for(run, monkeypatch):
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")
  run(lambda argv: None)
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "2"
  run(lambda argv: None, "--debug")
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"


TEXT = "Ctrl-C: saving at the end of this loop. A second one ends at once, without saving. "


@pytest.mark.parametrize("columns", [1, 30, 60, 80])
def test_lines_of_a_terminal_have_room_for_its_echo(run, monkeypatch, columns):
  monkeypatch.setattr(command.formatting, "terminal_columns", lambda file: columns)
  record = logging.LogRecord("absl", logging.WARNING, "a.py", 1, 2 * TEXT, (), None)
  interrupted = run(raiser(preemption.Interrupted(2 * TEXT)))[2]
  mistaken = run(raiser(errors.SettingError(2 * TEXT)))[2]
  for shown in (command.LineFormatter().format(record), interrupted, mistaken):
    lines = shown.strip().split("\n")
    assert " ".join(" ".join(lines).split()).endswith((2 * TEXT).strip())
    assert columns == 1 or all(len("^C^C") + len(line) < columns for line in lines)


def test_log_lines_have_a_time_and_from_warnings_on_a_level(run):
  def main(argv):
    for level, path in (
      (logging.INFO, "trainer/a.py"),
      (logging.WARNING, "tensorflow/b.py"),
      (logging.INFO, "lib/tensorflow/b.py"),
    ):
      handler = absl_logging.get_absl_handler()
      record = logging.LogRecord("absl", level, path, 1, "%d steps of %s", (3, path), None)
      if handler.filter(record):
        print(handler.python_handler.formatter.format(record)[8:])

  assert run(main)[1] == " 3 steps of trainer/a.py\n warning: 3 steps of tensorflow/b.py\n"


PROGRAM = """
import sys
import numpy as np
import trainer.compat.v1 as tf
import trainer.compat.v2
from absl import flags

def model_fn(features, labels, mode):
  loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1))
  train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

def input_fn():
  return tf.data.Dataset.from_tensors((np.ones([2, 3], np.float32), np.ones([2, 1], np.float32)))

estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
estimator.train(input_fn)
estimator.evaluate(input_fn)
defined = flags.FLAGS.flags_by_module_dict()
print({module: defined[module] for module in defined if module.startswith("trainer")})
"""


def test_a_program_may_have_flags_of_any_name(tmp_path):
  """Octet's flags are those of its commands alone: programs define `debug`, for example."""
  done = warm.run("-c", PROGRAM, tmp_path)
  assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr


SHORT = ("trainer.main", "trainer.serve", "trainer.sweep")  # a module, a face and a package


@pytest.mark.parametrize(
  "command",
  [
    name if name in SHORT else pytest.param(name, marks=pytest.mark.long)
    for name in declared.COMMANDS
  ],
)
def test_help_lists_all_flags_of_a_command(command):
  done = subprocess.run(
    [sys.executable, "-m", command, "--help"], capture_output=True, text=True, check=True
  )
  listed = set(re.findall(r"^  --(?:\[no\])?(\w+)", done.stdout, re.MULTILINE))
  assert listed == declared.flags_of(command) | {"debug"}
