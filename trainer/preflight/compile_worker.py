"""Runs the TPU compiler in a process of its own: reads HLO, writes figures of the program.

`compiler.compile_program` starts it by `processes.ask`. The request names the file "hlo" and the
folder "dump", into which the compiler itself writes the program and its buffers.

The compiler may abort its process, so it does not run in the caller's. TensorFlow is not imported
here.

Compiling for a topology without having its chips is not a public feature of jax. So the extra pins
the versions of jax, jaxlib and libtpu; `trainer.pjrt.jaxlib_internals` has the inner names.
"""

import importlib.metadata
import time
from typing import Any

import libtpu
from jax.experimental import topologies

from trainer.cli import processes
from trainer.pjrt import jaxlib_internals


def answer(request: dict[str, Any]) -> dict[str, Any]:
  """Returns the figures of a program, or {"error": text}; both with the compiler's versions."""
  try:
    found = _compile(request)
  # Every error of the compiler goes into the answer; the parent process tells them apart.
  except Exception as error:
    found = {"error": f"{type(error).__name__}: {error}"}
  versions = {"jaxlib": importlib.metadata.version("jaxlib"), "libtpu": libtpu.__version__}
  return {**found, "versions": versions}


def _compile(request):
  replicas = request["replicas"]
  with open(request["hlo"], "rb") as file:
    hlo = file.read()
  options = {
    name: tuple(value) if isinstance(value, list) else value
    for name, value in request["topology_options"]
  }
  described = topologies.get_topology_desc(
    platform="tpu", topology_name=request["topology"], **options
  )
  devices = described.devices[:replicas]
  if len(devices) < replicas:
    return {
      "error": (
        f"topology {request['topology']} has {len(devices)} cores; {replicas} replicas were asked "
        "for"
      )
    }
  with jaxlib_internals.context():
    module = jaxlib_internals.parse_hlo(hlo)
    jaxlib_internals.donate(module, request["aliases"])
  start = time.monotonic()
  executable = devices[0].client.compile(
    module,
    executable_devices=jaxlib_internals.device_list(devices),
    compile_options=_options(devices, request["dump"]),
  )
  seconds = time.monotonic() - start
  memory, cost = executable.get_compiled_memory_stats(), executable.cost_analysis()
  return {
    "device_kind": devices[0].device_kind,
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
  }


def _options(devices, dump):
  """Returns the options for one replica on each core, in a program with all-reduces."""
  options = jaxlib_internals.options_of_replicas(devices)
  # The compiler dumps the program and its buffers there, even if they do not fit.
  options.env_option_overrides = [("xla_dump_to", dump)]
  return options


if __name__ == "__main__":
  processes.answer(answer)
