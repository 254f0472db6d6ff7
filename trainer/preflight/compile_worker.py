"""Runs the TPU compiler in a process of its own: reads HLO, writes figures of the program.

`compiler.compile_program` starts it by `processes.ask`. The request names the file "hlo" and the
folder "dump", into which the compiler itself writes the program and its buffers.

The compiler may abort its process, so it does not run in the caller's. TensorFlow is not imported
here.

Compiling for a topology without having its chips is not a public feature of jax. So the extra pins
the versions of jax, jaxlib and libtpu.
"""

import time
from typing import Any

import jaxlib
import libtpu
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax, xla_client
from jax.experimental import topologies
from jaxlib.mlir import ir

from trainer.cli import processes


def answer(request: dict[str, Any]) -> dict[str, Any]:
  """Returns the figures of a program, or {"error": text}; both with the compiler's versions."""
  try:
    found = _compile(request)
  # Every error of the compiler goes into the answer; the parent process tells them apart.
  except Exception as error:
    found = {"error": f"{type(error).__name__}: {error}"}
  return {**found, "versions": {"jaxlib": jaxlib.__version__, "libtpu": libtpu.__version__}}


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
  with jax_mlir.make_ir_context():
    module = _without_copies(ir.Module.parse(_jax.mlir.hlo_to_stablehlo(hlo)))
    _donate(module, request["aliases"])
  start = time.monotonic()
  executable = devices[0].client.compile(
    module,
    executable_devices=xla_client.DeviceList(tuple(devices)),
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
  options = xla_client.CompileOptions()
  build = options.executable_build_options
  ids = np.array([device.id for device in devices], np.int32).reshape(len(devices), 1)
  for part in (options, build):
    part.num_replicas, part.num_partitions = len(devices), 1
    part.device_assignment = xla_client.DeviceAssignment.create(ids)
  # The compiler dumps the program and its buffers there, even if they do not fit.
  options.env_option_overrides = [("xla_dump_to", dump)]
  return options


def _without_copies(module):
  """Removes mhlo.copy, which TensorFlow writes and jaxlib does not know; it changes no value."""
  # Erased after the walk: an operation must not be erased while the walk is at it.
  copies = []

  def visit(operation):
    if operation.name == "mhlo.copy":
      operation.results[0].replace_all_uses_with(operation.operands[0])
      copies.append(operation)
    return ir.WalkResult.ADVANCE

  module.operation.walk(visit)
  for copy in copies:
    copy.erase()
  return module


def _donate(module, aliases):
  """Has results take the memory of parameters, as variables do that are updated in place.

  Args:
    module: the module; it changes.
    aliases: pairs (number of a result, number of a parameter).
  """
  if not aliases:
    return
  (main,) = (each for each in module.body if each.attributes["sym_name"].value == "main")
  types = ir.FunctionType(main.attributes["function_type"].value)
  attributes = [
    {each[index].name: each[index].attr for index in range(len(each))}
    for each in _argument_attributes(main, len(types.inputs))
  ]
  for result, parameter in aliases:
    if types.results[result] != types.inputs[parameter]:
      raise ValueError(
        f"result {result} is {types.results[result]} and cannot take the memory of parameter "
        f"{parameter}, which is {types.inputs[parameter]}"
      )
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), result)
    attributes[parameter]["tf.aliasing_output"] = number
  main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in attributes])


def _argument_attributes(function, count):
  if "arg_attrs" in function.attributes:
    return list(ir.ArrayAttr(function.attributes["arg_attrs"]))
  return [ir.DictAttr.get({}) for _ in range(count)]


if __name__ == "__main__":
  processes.answer(answer)
