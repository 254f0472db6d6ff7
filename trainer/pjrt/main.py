"""Runs a saved program on XLA devices, without TensorFlow.

python -m trainer.pjrt out/program                 on XLA devices of the CPU
python -m trainer.pjrt out/program --platform=gpu  on a GPU, by jax's CUDA plug-in

The command compiles the program, or loads its compiled form, runs it with the values and the input
of the folder, prints the time of each run and the results of the last run, and compares the first
run with the folder's expected results, if any. The exit status is 1 if they differ.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence

import numpy as np
from absl import flags

from trainer import errors
from trainer.cli import command, formatting
from trainer.pjrt import installed, program, saved_program

_PLATFORM = flags.DEFINE_enum(
  "platform", "cpu", ["cpu", "gpu", "tpu"], "The devices: cpu, gpu or tpu."
)
_RUNS = flags.DEFINE_integer(
  "runs", 1, "How many times to run the program, each time with the same input.", lower_bound=1
)
_TOLERANCE = flags.DEFINE_float(
  "tolerance",
  1e-5,
  "The largest allowed difference from the folder's results, relative to the largest number.",
  lower_bound=0,
)
_FULL_PRECISION = flags.DEFINE_bool(
  "full_precision",
  False,
  "Multiply float32 with all bits. By default a GPU rounds to TF32, a TPU to bfloat16.",
)
_SAVE_COMPILED = flags.DEFINE_bool(
  "save_compiled", False, "Add the compiled form to the folder. It serves these devices alone."
)


def main(argv: Sequence[str]) -> int:
  """Runs the program of a folder; returns the exit status.

  Raises:
    SettingError: there is not exactly one folder, it has no program, or the devices do not fit.
    FileDamagedError: a file of the folder is damaged.
    ExecutionError: XLA cannot compile the program, or it failed.
  """
  if len(argv) != 2:
    raise errors.SettingError(
      "Give one folder with a saved program: python -m trainer.pjrt out/program"
    )
  command.require_local(argv[1], "The folder")
  installed.require(_PLATFORM.value)
  saved = saved_program.read(argv[1])
  executable, connected = _prepare(saved)
  _require_values(saved)

  from trainer.pjrt import device_values

  values = device_values.DeviceValues(connected)
  values.put(saved.program.variables, saved.values, argv[1])
  inputs = executable.put_inputs({name: list(each) for name, each in saved.inputs.items()})
  scalars = {
    each.name: saved.values[each.name] for each in saved.program.of_roles(program.Role.SCALAR)
  }
  status, results, seconds = 0, {}, []
  for run in range(_RUNS.value):
    start = time.monotonic()
    results = executable.run(values, inputs, scalars).read()
    values.wait()
    seconds.append(time.monotonic() - start)
    if run == 0 and saved.expected:
      status = _compare(saved.expected, {**values.read(), **results})
  _print_times(seconds, scalars)
  for name, value in results.items():
    if value.dtype.kind in "biuf" and value[0].size == 1:
      print(f"{name:12} {np.mean(value.astype(np.float64)):.6g}")
  return status


def _prepare(saved):
  """Connects, and compiles the program or loads its compiled form."""
  from trainer.pjrt import devices, execution

  connected = devices.connect(_PLATFORM.value, saved.program.replicas)
  connected = dataclasses.replace(connected, full_precision=_FULL_PRECISION.value)
  print(f"devices      {connected}, jax {connected.versions['jax']}")
  compiled, why = saved.compiled_for(connected.key)
  executable = execution.Executable(saved.program, connected, compiled)
  how = "loaded" if compiled is not None else f"compiled ({why})"
  print(f"program      {how} in {executable.compile_seconds:.2f} s")
  if compiled is None and _SAVE_COMPILED.value:
    form = executable.serialize()
    saved.add_compiled(connected.key, form)
    print(f"saved        the compiled form, {formatting.size(len(form))}")
  return executable, connected


def _require_values(saved):
  has_inputs = bool(saved.inputs) or not saved.program.of_roles(program.Role.INPUT)
  if not (saved.values and has_inputs):
    raise errors.SettingError(
      f"{saved.folder} has a program without values or without input, enough to compile it and not "
      "to run it. Save them with the program."
    )


def _print_times(seconds, scalars):
  best = min(seconds)
  print(f"run          first {seconds[0]:.4f} s, fastest of {len(seconds)}: {best:.4f} s")
  if steps := int(scalars.get(program.COUNT, 0)):
    print(f"steps        {steps} a run, {1000 * best / steps:.4f} ms a step")


def _compare(expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> int:
  """Prints the largest difference; returns the exit status."""
  largest, where = 0.0, "all"
  for name, value in expected.items():
    if name not in found:
      raise errors.SettingError(f"The folder expects {name}; the program returns no such result.")
    own, wanted = (np.asarray(each, np.float64) for each in (found[name], value))
    scale = np.max(np.abs(wanted), initial=0) or 1.0
    # What is equal on all devices has one value on the host.
    difference = float(np.max(np.abs(own - wanted), initial=0) / scale)
    if not difference <= largest:  # also if it is no number
      largest, where = difference, name
  agrees = largest <= _TOLERANCE.value
  print(
    f"expected     {'agrees' if agrees else 'differs'}: {largest:.2g} at the most ({where}), "
    f"tolerance {_TOLERANCE.value:.2g}"
  )
  return 0 if agrees else 1
