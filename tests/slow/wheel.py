"""The wheel without the repository: builds it, installs it, and runs every command in an empty
folder.

    python -m tests.slow.wheel
    python -m tests.slow.wheel --extras=cpu,sweep,plot           # without the TPU compiler

It makes an environment of its own, trains the digits there, continues, predicts, sweeps, plots,
reads checkpoints, compiles for a TPU, and looks that every module came from the environment.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from tests import declared

SWEEP = """
sweep.metric = 'accuracy'
sweep.mode = 'max'
sweep.space = {'digits_mlp.model_fn.hidden_units': [(32,), (128, 64)]}
sweep.bindings = {'run.train_steps': 40}
"""

DIGITS = "--gin_file=gin_configs/digits.gin"
SHORT = "--gin_bindings=run.train_steps = 40"

# Each with the extra that it needs beside TensorFlow, or None.
COMMANDS = (
  (None, f"trainer.main|{DIGITS}|--model_dir=out/digits|{SHORT}"),
  (None, f"trainer.main|{DIGITS}|--model_dir=out/digits|--gin_bindings=run.train_steps = 80"),
  (None, f"trainer.main|{DIGITS}|--model_dir=out/digits|--mode=predict"),
  (None, f"trainer.main|{DIGITS}|--model_dir=out/eight|--device=cpu:8|{SHORT}"),
  (None, "trainer.devices"),
  (None, "trainer.checkpoints|list|out/digits"),
  (None, "trainer.checkpoints|show|out/digits"),
  (None, "trainer.checkpoints|diff|out/digits/model.ckpt-40|out/digits/model.ckpt-80"),
  ("plot", "trainer.plot|out/digits|out/eight|--output=curves.png"),
  ("plot", "trainer.plot|out/digits|--html=report.html"),
  ("sweep", f"trainer.sweep|{DIGITS}|--sweep_file=mine.gin|--sweep_dir=out/sweep|--trials=2"),
  ("sweep", "trainer.sweep_report|--sweep_dir=out/sweep"),
  ("preflight", f"trainer.preflight|{DIGITS}|--topology=v3-8"),
)


def run(command: list[str], cwd: pathlib.Path) -> str:
  """Runs a command and returns what it printed; ends the program if the command fails."""
  environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
  done = subprocess.run(
    command,
    cwd=cwd,
    env={**environment, "TF_CPP_MIN_LOG_LEVEL": "3"},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  if done.returncode:
    sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
  return done.stdout


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--extras", default="cpu,sweep,plot,preflight")
  extras = parser.parse_args().extras.split(",")
  with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"]
    run([*pip, "-w", str(folder / "wheel"), str(declared.ROOT)], folder)
    (wheel,) = (folder / "wheel").iterdir()
    run([sys.executable, "-m", "venv", str(folder / "environment")], folder)
    python = str(folder / "environment" / "bin" / "python")
    run([python, "-m", "pip", "install", "-q", f"{wheel}[{','.join(extras)}]"], folder)
    empty = folder / "empty"
    empty.mkdir()
    where = "import trainer, models, input_pipelines as i; print(trainer, models, i)"
    assert run([python, "-c", where], empty).count(str(folder / "environment")) == 3, where
    (empty / "mine.gin").write_text(SWEEP)
    for extra, line in COMMANDS:
      command = line.split("|")
      if extra is None or extra in extras:
        last = run([python, "-m", *command], empty).strip().splitlines()[-1]
        print(f"{' '.join(command)}\n    {last}", flush=True)
  print(f"{wheel.name}[{','.join(extras)}]: every command ran in an empty folder.")


if __name__ == "__main__":
  main()
