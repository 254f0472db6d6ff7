"""Runs every proof for a TPU in one command, and writes report.json, to send back.

    pip install '.[tpu,test]'
    python -m tests.slow.tpu --out=out/tpu                            # where the TPU is
    python -m tests.slow.tpu --out=out/xla --device=xla:8 --quick     # a rehearsal on a CPU

Each part is a separate process with a time limit, because a TPU belongs to one process at a time:

1. The machine, and the versions of its driver software.
2. Digits: trained, evaluated, exported; the same with already compiled programs; its checkpoint
   evaluated again, there and on the CPU; predicted for, with the checkpoint and with the export.
3. Digits killed at five moments and restarted: weights and losses as undisturbed, to the bit.
4. The CIFAR-10 network in float32 and bfloat16: trained, resumed, evaluated, exported.

It runs all parts, and its exit code is 1 if one fails. CIFAR-10's images are random unless --tfds
names their folder: the speed does not depend on their content.
"""

import argparse
import json
import pathlib
import re
import sys

from tests.slow import gpu
from trainer.compare import machine
from trainer.pjrt import installed, tpu

# Figures in a log.
_FIGURES = re.compile(
  r"^.*(?:Evaluated \d|Compiled the program|Found the program|step \d+/\d+ ).*$"
)
_LAST_LINES = 30


def parts(arguments, out):
  """Yields the parts, the most important first."""
  device, quick = arguments.device, arguments.quick
  yield gpu.Part("devices", ["-m", "trainer.devices", f"--device={device}"], 5)
  yield from digits(device, 300 if quick else 2000, out)
  kills, steps = (1, 400) if quick else (5, 3000)
  yield gpu.Part(
    "kill and resume",
    [
      *("-m", "tests.slow.kill_and_resume", "--by_checkpoints", f"--device={device}"),
      *(f"--kills={kills}", f"--steps={steps}"),
    ],
    30,
  )
  yield from cifar10(arguments, out)


def digits(device, steps, out):
  """Yields the parts of the digits."""
  bindings = [f"run.train_steps = {steps}"]

  def command(folder, *flags, on=device):
    return gpu.training(on, out / folder, "digits.gin", bindings, *flags)

  kept = f"--compiled={out / 'compiled'}"
  yield gpu.Part("digits", command("digits", kept), 10)
  yield gpu.Part("digits found compiled", command("digits_again", kept), 10)
  yield gpu.Part("digits evaluate", command("digits", "--mode=evaluate"), 10)
  yield gpu.Part("digits evaluate on cpu", command("digits", "--mode=evaluate", on="cpu"), 10)
  yield gpu.Part("digits predict", command("digits", "--mode=predict"), 10)
  export = ["-m", "tests.slow.tpu", f"--use_export={out / 'digits' / 'export'}"]
  yield gpu.Part("digits use export", export, 10)


def cifar10(arguments, out):
  """Yields the parts of the CIFAR-10 network. XLA's convolutions take seconds a step on a CPU."""
  data = gpu.cifar10(arguments)
  resumed = [*data[:-1], f"run.train_steps = {2 * gpu.cifar10_steps(arguments)}"]
  for precision in ("float32", "bfloat16")[: 1 if arguments.quick else None]:
    for name, bindings in (("", data), (" resumed", resumed)):
      folder, flag = out / f"cifar10_{precision}", f"--precision={precision}"
      command = gpu.training(arguments.device, folder, "cifar10_cnn.gin", bindings, flag)
      yield gpu.Part(f"cifar10 {precision}{name}", command, 30)


def use_export(folder):
  """Serves an export on the CPU, without Octet."""
  import numpy as np
  import tensorflow as tf

  newest = max(pathlib.Path(folder).glob("[0-9]*"), key=lambda each: int(each.name))
  serve = tf.saved_model.load(str(newest)).signatures["serving_default"]
  _, features = serve.structured_input_signature
  given = {name: tf.zeros([3, *spec.shape[1:]], spec.dtype) for name, spec in features.items()}
  for name, value in serve(**given).items():
    assert value.shape[0] == 3, (name, value.shape)
    assert np.isfinite(value.numpy()).all(), name
    print(name, value.shape)


def figures(log):
  """Returns the figures in a part's log: evaluations, compilations, and the last steps."""
  lines = [line for line in log.splitlines() if _FIGURES.search(line)]
  steps = [line for line in lines if re.search(r"step \d+/", line)]
  return [line for line in lines if line not in steps] + steps[-1:]


def report(arguments, out, results):
  """Returns the report to send back."""
  logs = {name: (out / f"{name.replace(' ', '_')}.log").read_text() for name in results}
  speeds = {
    folder.name: gpu.speed(folder)
    for folder in sorted(out.iterdir())
    if (folder / "metrics.jsonl").exists()
  }
  return {
    "device": arguments.device,
    "quick": arguments.quick,
    "signs of a TPU": tpu.signs(),
    "packages": installed.versions(),
    "machine": machine.describe(),
    "examples_per_second": speeds,
    "parts": {
      name: {
        "passed": passed,
        "seconds": round(seconds, 1),
        "said": logs[name].splitlines()[-_LAST_LINES:]
        if name == "devices" or not passed
        else figures(logs[name]),
      }
      for name, (seconds, passed) in results.items()
    },
  }


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--device", default="tpu", help="tpu, or xla:8 for a rehearsal")
  parser.add_argument("--out", default="out/tpu", help="a new folder for outputs and report.json")
  parser.add_argument("--tfds", default="", help="TFDS's folder with cifar10")
  parser.add_argument("--quick", action="store_true", help="few steps: whether it goes, no figures")
  parser.add_argument("--use_export", default="", help="serve an export; a part of the proof")
  arguments = parser.parse_args()
  if arguments.use_export:
    use_export(arguments.use_export)
    return
  out = pathlib.Path(arguments.out).absolute()
  out.mkdir(parents=True)
  results = {part.name: part.run(out) for part in parts(arguments, out)}
  text = json.dumps(report(arguments, out, results), indent=1)
  (out / "report.json").write_text(text)
  print(text)
  if not all(passed for _, passed in results.values()):
    sys.exit(1)


if __name__ == "__main__":
  main()
