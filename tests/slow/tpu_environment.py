"""Makes an environment from nothing that trains on XLA devices, finds no TPU, and preflights it.

    python -m tests.slow.tpu_environment --environment=out/tpu_environment

Makes a virtual environment with this folder's extra [tpu], if missing. In it, the command trains
the digits on eight XLA devices of the CPU, checks that `trainer.devices --device=tpu` reports no
TPU, and compiles the CIFAR-10 network's training program for v5e-8. Takes minutes, and 2 GB to
download.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tests.slow import preflight_all

ROOT = preflight_all.ROOT


def install(folder):
  subprocess.run([sys.executable, "-m", "venv", folder], check=True)
  subprocess.run([folder / "bin" / "pip", "install", f"{ROOT}[tpu]"], check=True)


def run(python, *arguments):
  """Runs a command of Octet; returns its exit code and its output."""
  # Without this process's variables for libtpu, as for a user.
  environment = {name: value for name, value in os.environ.items() if not name.startswith("TPU_")}
  done = subprocess.run(
    [python, "-m", *arguments],
    cwd=ROOT,
    env=dict(environment, PYTHONPATH=str(ROOT)),
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  print(f"{' '.join(arguments)}\nexit code {done.returncode}\n{done.stdout[-2000:]}", flush=True)
  return done.returncode, done.stdout


def check(is_right, what):
  if not is_right:
    sys.exit(f"FAILED: {what}")
  print(f"passed: {what}\n", flush=True)


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--environment", type=pathlib.Path, required=True)
  folder = parser.parse_args().environment.resolve()
  if not (folder / "bin" / "python").exists():
    install(folder)
  python = folder / "bin" / "python"
  with tempfile.TemporaryDirectory() as out:
    code, said = run(
      python,
      "trainer.main",
      "--gin_file=gin_configs/digits.gin",
      f"--model_dir={out}/digits",
      "--device=xla:8",
      "--gin_bindings=run.train_steps = 500",
    )
    check(code == 0 and "accuracy = 0.9" in said, "the digits are trained on XLA devices")
    code, said = run(python, "trainer.devices", "--device=tpu")
    check(code == 2 and "PJRT has no TPU here" in said, "it is said that there is no TPU")
    code, said = run(
      python,
      "trainer.preflight",
      "--gin_file=gin_configs/cifar10_cnn.gin",
      *(f"--gin_bindings={each}" for each in preflight_all.BINDINGS["cifar10_cnn.gin"]),
      "--topology=v5e-8",
      "--steps=train",
      f"--json={out}/report.json",
    )
    (report,) = json.loads(pathlib.Path(out, "report.json").read_text()) if code == 0 else ({},)
    check(bool(report), "the CIFAR-10 network compiles for a TPU")
    check(report["loop"]["steps_per_program"] > 1, "many of its steps are one program")
    check(report["all_reduces"]["replicas"] == 8, "its gradients are added up over eight cores")
    check(
      report["aliased_bytes"] > 3 * report["all_reduces"]["trainable_bytes"],
      "its variables are updated in place",
    )


if __name__ == "__main__":
  main()
