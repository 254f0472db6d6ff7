"""The commands as a user has them."""

import contextlib
import pathlib
import shlex
import subprocess
import sys

import pytest

from trainer.reporting import metrics_file
from trainer.sweep import trial_server

ROOT = pathlib.Path(__file__).parents[3]

SWEEP = """
sweep.metric = 'accuracy'
sweep.mode = 'max'
sweep.sampler = 'random'
sweep.space = {'keras.optimizers.Adam.learning_rate': @lr/log_uniform(), 'digits_mlp.model_fn.hidden_units': [(8,), (4, 4)]}
lr/log_uniform.low = 0.001
lr/log_uniform.high = 0.1
sweep.bindings = {'run.train_steps': 20, 'RunConfig.save_checkpoints_steps': 10}
"""


def command(module, *arguments):
  """The finished process of `python -m module`."""
  return subprocess.run(
    [sys.executable, "-m", module, *arguments],
    capture_output=True,
    text=True,
    cwd=ROOT,
    timeout=280,
  )


def sweep(folder, text=SWEEP, *arguments, gin_file="gin_configs/digits.gin"):
  (folder / "sweep.gin").write_text(text)
  return command(
    "trainer.sweep",
    f"--gin_file={gin_file}",
    f"--sweep_file={folder}/sweep.gin",
    f"--sweep_dir={folder}/out",
    *arguments,
  )


@pytest.mark.long
def test_a_sweep_of_digits_and_its_report(tmp_path):
  done = sweep(tmp_path, SWEEP, "--trials=2", "--workers=2", "--device=cpu")
  assert done.returncode == 0, done.stderr
  out = tmp_path / "out"
  for number in range(2):
    folder = out / "trials" / str(number)
    assert [line["step"] for line in metrics_file.read(str(folder)) if line["kind"] == "eval"] == [
      10,
      20,
    ]
    assert (folder / "command.txt").read_text().strip() in done.stderr
    assert "learning_rate = 0.0" in (folder / "config.gin").read_text()
    assert (folder / "model.ckpt-20.index").exists()
  assert "in a new process" not in "".join(path.read_text() for path in out.glob("server-*.log"))
  assert command("trainer.sweep_report", f"--sweep_dir={out}").returncode == 0
  assert {"best.gin", "report.html", "trials.csv"} <= {path.name for path in out.iterdir()}
  lines = [shlex.split(line) for line in done.stderr.partition("Next:\n")[2].splitlines()]
  assert ["python", "-m", "trainer.sweep_report", f"--sweep_dir={out}"] in lines
  assert [
    *("python", "-m", "trainer.main", f"--gin_file={out}/best.gin", f"--model_dir={out}/best"),
    *("--device=cpu", "--precision=float32"),
  ] in lines
  assert "include" not in (out / "best.gin").read_text()
  again = sweep(tmp_path, SWEEP, "--trials=2", "--workers=2", "--device=cpu")
  assert again.returncode == 0
  assert "starts" not in again.stderr
  tried = command(
    "trainer.main", f"--gin_file={out}/best.gin", "--dry_run", "--strict_gin", "--device=cpu"
  )
  assert tried.returncode == 0, tried.stderr


def test_a_dry_run_says_what_would_be_run(tmp_path):
  done = sweep(
    tmp_path,
    SWEEP.replace("(4, 4)", "(4, 4), %WIDTH"),
    "--dry_run",
    "--trials=3",
    "--gin_bindings=WIDTH = (3,)",
    "--gin_bindings=digits_mlp.model_fn.dropout = %WIDTH",
    "--gin_bindings=run.train_steps=7",
  )
  assert done.returncode == 0, done.stderr
  assert "--gin_bindings sets run.train_steps without effect: " in done.stderr
  assert done.stdout.count("python -m trainer.main --gin_file=gin_configs/digits.gin") == 3
  assert "trial 2\n  keras.optimizers.Adam.learning_rate = 0.0" in done.stdout
  assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_bindings_to_unknown_names_fail_before_first_trial(tmp_path):
  done = sweep(tmp_path, SWEEP.replace("Adam.learning_rate", "Adam.lerning_rate"))
  assert done.returncode == 2
  assert "a trial would not start" in done.stderr
  assert "Adam has no parameter lerning_rate. Did you mean learning_rate" in done.stderr
  assert not (tmp_path / "out" / "trials").exists()


@pytest.mark.long  # test_binding_targets.py has the check in the gate, the dry run the process
def test_every_value_is_tried_out(tmp_path):
  good = "digits_mlp.model_fn.hidden_units = (3,)"
  with contextlib.closing(trial_server.Starter("fork", str(tmp_path / "log"))) as starter:
    for bad, message in [
      (
        "digits_mlp.model_fn.hidden_units = @digits_mpl.model_fn",
        "no configurable has the name digits_mpl.model_fn",
      ),
      ("STEPS = 3", "no binding uses the macro STEPS"),
      ("run.train_steps = %STEPS", "%STEPS has no value"),
      (
        "tset/digits.input_fn.start = 3",
        "no reference in the experiment has the scope tset. Did you mean test",
      ),
    ]:
      assert message in starter.check(["gin_configs/digits.gin"], [[good], [good, bad]])
    assert (
      starter.check(
        ["gin_configs/digits.gin"],
        [[good, "run.train_steps = %STEPS", "STEPS = 3"], ["test/digits.input_fn.start = 3"]],
      )
      is None
    )


@pytest.mark.parametrize(
  ("text", "arguments", "message"),
  [
    (
      SWEEP.replace("'random'", "'rnadom'"),
      [],
      "sweep.sampler = 'rnadom': expected one of tpe, gp, "
      "random, cmaes, nsgaii. Did you mean "
      "random?",
    ),
    (
      "sweep.metric = 'a'\nsweep.mode = 'max'\nsweep.space = {}",
      [],
      "sweep.space must be a dict of at least one parameter",
    ),
    (
      SWEEP,
      ["--storage=postgresql://me:secret@localhost:1/none"],
      "--storage=postgresql://me:***@localhost:1/none: cannot use it",
    ),
    (SWEEP, ["--join"], "There is no sweep"),
    (SWEEP, ["--device=tpu", "--workers=2"], "one process at a time uses a TPU"),
    (SWEEP, ["--workers=0"], "--help lists the flags"),
    (SWEEP, ["--sweep_dir=gs://bucket/sweep"], "needs a folder of the machine"),
  ],
)
def test_mistakes_that_wait_for_nothing(tmp_path, text, arguments, message):
  done = sweep(tmp_path, text, *arguments)
  assert done.returncode == 2
  assert message in done.stderr
  assert "Traceback" not in done.stderr
  assert not (tmp_path / "out" / "trials").exists()
