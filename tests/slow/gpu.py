"""Runs every proof for a GPU in one command.

Each part is a process with a time limit, and the command keeps its output.

    python -m tests.slow.gpu --out=out/gpu
    python -m tests.slow.gpu --device=cpu --quick    # a rehearsal where there is none

1. The machine, and whether the installed packages fit it.
2. Digits and the CIFAR-10 network: trained, resumed, evaluated, exported.
3. The conformance tests on the device, with real float32 and sums in a fixed order.
4. The effect of the settings on the speed: ratios of speeds, in turn, the second round in reversed
  order.
5. Octet beside a bare loop, Keras fit and PyTorch.
6. The comparison of devices: `trainer.compare --merge` can join its results.jsonl with other
  machines'.

It runs all parts, and its exit code is 1 if one fails. CIFAR-10's images are random unless --tfds
names their folder: the speed does not depend on their content.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from tests import test_gin_configs

_SETTINGS = {
  "float32": [],
  "without TF32": ["--gin_bindings=GPUConfig.tensor_float_32 = False"],
  "bfloat16": ["--precision=bfloat16"],
  "deterministic": ["--gin_bindings=GPUConfig.deterministic = True"],
  "without memory growth": ["--gin_bindings=GPUConfig.memory_growth = False"],
  "PJRT": ["--device=xla:gpu"],  # the last --device counts
  "bfloat16, PJRT": ["--device=xla:gpu", "--precision=bfloat16"],
}


@dataclasses.dataclass(frozen=True)
class Part:
  """A process of the proof.

  Attributes:
    name: also the name of its output file.
    command: the command after the Python interpreter.
    minutes: the time limit.
    environment: variables besides this process's.
  """

  name: str
  command: list[str]
  minutes: float
  environment: dict[str, str] = dataclasses.field(default_factory=dict)

  def run(self, out):
    """Runs the part; returns (seconds, whether it succeeded)."""
    begin = time.monotonic()
    with (out / f"{self.name.replace(' ', '_')}.log").open("w") as log:
      try:
        done = subprocess.run(
          [sys.executable, *self.command],
          stdout=log,
          stderr=subprocess.STDOUT,
          timeout=60 * self.minutes,
          env=os.environ | {"PYTHONUNBUFFERED": "1"} | self.environment,
        )
        well = done.returncode == 0
      except subprocess.TimeoutExpired:
        log.write(f"\nended after {self.minutes} minutes\n")
        well = False
    seconds = time.monotonic() - begin
    print(f"{'ok    ' if well else 'FAILED'}  {seconds:6.0f} s  {self.name}", flush=True)
    return seconds, well


def training(device, folder, file, bindings, *flags):
  """Returns the command of an experiment."""
  return [
    "-m",
    "trainer.main",
    f"--gin_file=gin_configs/{file}",
    f"--model_dir={folder}",
    f"--device={device}",
    *(f"--gin_bindings={binding}" for binding in bindings),
    *flags,
  ]


def parts(arguments, out):
  """Yields the parts, the most important first."""
  device, quick = arguments.device, arguments.quick
  yield Part("devices", ["-m", "trainer.devices", f"--device={device}"], 3)
  steps = 300 if quick else 2000
  for name, some in (("digits half", steps // 2), ("digits resumed", steps)):
    bindings = [f"run.train_steps = {some}"]
    yield Part(name, training(device, out / "digits", "digits.gin", bindings), 5)
  data = cifar10(arguments)
  yield Part("cifar10", training(device, out / "cifar10", "cifar10_cnn.gin", data), 20)
  resumed = [*data[:-1], f"run.train_steps = {2 * cifar10_steps(arguments)}"]
  yield Part("cifar10 resumed", training(device, out / "cifar10", "cifar10_cnn.gin", resumed), 20)
  if device.startswith("gpu"):
    yield Part("digits by PJRT", training("xla:gpu", out / "pjrt", "digits.gin", []), 5)
    yield conformance("conformance by PJRT", "xla:gpu:1", quick)
  yield conformance("conformance", device, quick)


def conformance(name, device, quick):
  """Returns the part that runs the conformance tests on a device."""
  return Part(
    name,
    ["-m", "pytest", "-q", "-n", "0", "--timeout=900", "tests/conformance/test_training.py"]
    + ["-m", ""]
    + ([] if quick else ["tests/conformance"])
    + (["-k", "keras_layers and it_learns"] if quick else []),
    30,
    # NVIDIA's and TensorFlow's own switches: the tests make many Estimators in one process.
    {"OCTET_TEST_DEVICES": device, "NVIDIA_TF32_OVERRIDE": "0", "TF_DETERMINISTIC_OPS": "1"},
  )


def benchmarks(arguments, out):
  """Yields the parts after the settings."""
  device, quick = arguments.device, arguments.quick
  rounds, cases = ("1", "digits") if quick else ("10", "digits,cifar128,cifar1024,resnet50")
  kind = device.partition(":")[0]
  yield Part(
    "benchmarks",
    [
      *("-m", "benchmarks.run", "train", f"--device={kind}", f"--rounds={rounds}"),
      *(f"--cases={cases}", f"--out={out / 'benchmarks'}"),
    ],
    40,
  )
  devices = device if kind == "cpu" else f"cpu,{device}"
  yield Part(
    "compare",
    [
      *("-m", "trainer.compare", f"--devices={devices}", f"--output={out / 'compare'}"),
      f"--gin_file=gin_configs/compare/{'small' if quick else 'articles'}.gin",
    ],
    60,
  )


def cifar10_steps(arguments):
  return 4 if arguments.quick else 300


def cifar10(arguments):
  """Returns gin bindings for the CIFAR-10 network's data and number of steps."""
  made_up = test_gin_configs.made_up((32, 32, 3), 10)
  if arguments.quick:
    made_up += ["run.train_batch_size = 16", "run.eval_batch_size = 16"]
  tfds = [f'cifar10.input_fn.data_dir = "{arguments.tfds}"']
  return [
    *(tfds if arguments.tfds else made_up),
    "run.eval_steps = 2" if not arguments.tfds else "run.eval_steps = None",
    f"run.train_steps = {cifar10_steps(arguments)}",
  ]


def speeds_of_settings(arguments, out):
  """Measures each setting in turn; returns (name → speed ÷ the first's speed, whether all ran)."""
  found, well = {name: [] for name in _SETTINGS}, True
  names = list(_SETTINGS)[: 4 if arguments.quick else None]
  every = 2 if arguments.quick else 20
  bindings = [*cifar10(arguments), f"RunConfig.log_step_count_steps = {every}"]
  for number, order in enumerate((names, names[::-1])):
    for name in order:
      folder = out / "settings" / f"{name.replace(', ', '_').replace(' ', '_')}_{number}"
      flags = ["--mode=train", *_SETTINGS[name]]
      command = training(arguments.device, folder, "cifar10_cnn.gin", bindings, *flags)
      _, went = Part(f"{name} {number}", command, 10).run(out)
      well = well and went
      if went:
        found[name].append(speed(folder))
  first = found["float32"]
  return {
    name: [round(one / base, 3) for one, base in zip(each, first, strict=False)]
    for name, each in found.items()
  }, well


def speed(folder):
  """Returns the examples/s of a run: the median over the second half of its lines."""
  lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
  found = [line["examples_per_second"] for line in lines if line["kind"] == "train"]
  return statistics.median(found[len(found) // 2 :])


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--device", default="gpu", help="gpu, or cpu for a rehearsal")
  parser.add_argument("--out", default="out/gpu", help="a new folder for outputs and results.json")
  parser.add_argument("--tfds", default="", help="TFDS's folder with cifar10")
  parser.add_argument("--quick", action="store_true", help="few steps: whether it goes, no figures")
  arguments = parser.parse_args()
  out = pathlib.Path(arguments.out).absolute()
  out.mkdir(parents=True)
  results = {part.name: part.run(out) for part in parts(arguments, out)}
  ratios, well = speeds_of_settings(arguments, out)
  for name, each in ratios.items():
    print(f"{name}: {', '.join(map(str, each))} of the speed of float32", flush=True)
  results |= {part.name: part.run(out) for part in benchmarks(arguments, out)}
  (out / "results.json").write_text(json.dumps({"parts": results, "settings": ratios}, indent=1))
  if not well or not all(went for _, went in results.values()):
    sys.exit(1)


if __name__ == "__main__":
  main()
