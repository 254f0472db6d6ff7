"""Runs XLA's compiler in a process of its own: reads a program, writes the compiler's figures.

`compiler.compile_program` starts it by `processes.ask`. The request names the folder "program" of a
`saved_program`; the folder "dump", where the compiler itself writes the program and its buffers;
and the folder "kept" of compiled forms, or "", with the key of the form.

The TPU's compiler may abort its process, so it does not run in the caller's. This process does not
import TensorFlow.
"""

import importlib.metadata
import time
from typing import Any

from trainer import errors
from trainer.cli import processes
from trainer.pjrt import compiled_forms, devices, execution, jaxlib_internals, saved_program


def answer(request: dict[str, Any]) -> dict[str, Any]:
  """Returns the figures of a program, {"error": text} or {"unkept": text}; and the versions."""
  try:
    answered = _compile(request, _devices(request))
  except errors.OutputError as error:
    answered = {"unkept": str(error)}
  # Every error of the compiler goes into the answer; the parent process tells them apart.
  except Exception as error:
    answered = {"error": f"{type(error).__name__}: {error}"}
  compiler = {"tpu": "libtpu", "cpu": "jaxlib"}[request["platform"]]
  versions = {name: importlib.metadata.version(name) for name in ("jaxlib", compiler)}
  return {**answered, "versions": versions}


def _devices(request):
  if request["platform"] == "cpu":
    return devices.connect("cpu", request["replicas"])
  # JSON has made lists of the options' tuples.
  options = {
    name: tuple(value) if isinstance(value, list) else value
    for name, value in request["topology_options"]
  }
  return devices.describe(request["topology"], request["replicas"], **options)


def _compile(request, found):
  program = saved_program.read(request["program"]).program
  start = time.monotonic()
  executable = execution.compile_program(program, found, request["dump"])
  seconds = time.monotonic() - start
  kept_bytes = None
  if request["kept"]:
    form = jaxlib_internals.serialize(executable)
    forms = compiled_forms.in_folder(request["kept"])
    forms.add(request["digest"], {**found.key, **request["made_by"]}, form)
    kept_bytes = len(form)
  memory, cost = executable.get_compiled_memory_stats(), executable.cost_analysis()
  return {
    "device_kind": found.all[0].device_kind,
    "compile_seconds": seconds,
    "argument_bytes": memory.argument_size_in_bytes,
    "output_bytes": memory.output_size_in_bytes,
    "aliased_bytes": memory.alias_size_in_bytes,
    "temporary_bytes": memory.temp_size_in_bytes,
    "code_bytes": memory.generated_code_size_in_bytes,
    "peak_bytes": memory.peak_memory_in_bytes,
    "flops": cost.get("flops", 0.0),
    "bytes_accessed": cost.get("bytes accessed", 0.0),
    "optimal_seconds": cost.get("optimal_seconds"),
    "kept_bytes": kept_bytes,
  }


if __name__ == "__main__":
  processes.answer(answer)
