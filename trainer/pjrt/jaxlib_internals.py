"""The inner names of jax and jaxlib that Octet uses; no other file uses any.

jax has no public way to run a compiled program of several replicas with code from elsewhere. The
extra `pjrt` therefore pins jax's version, see `installed`. Import this file only after
`installed.require()`.
"""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import clusters, distributed, xla_bridge
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import _jax, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

context = jax_mlir.make_ir_context


def stablehlo_of_hlo(hlo: bytes) -> bytes:
  """Returns the StableHLO of a serialised HloModuleProto, as MLIR's bytecode."""
  return _jax.mlir.hlo_to_stablehlo(hlo)


def parse_stablehlo(code: bytes) -> Any:
  """Returns the module of StableHLO, as bytecode or text. Call it in a `context`."""
  return _without_copies(ir.Module.parse(code))


def _without_copies(module):
  """Removes mhlo.copy, which TensorFlow writes and jaxlib lacks; values do not change."""
  # Erase after the walk: a walk must not erase the operation that it visits.
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


def types_of(module: Any) -> tuple[list[str], list[str]]:
  """Returns the types of a module's arguments and results, such as "tensor<2x3xf32>"."""
  types = ir.FunctionType(_main(module).attributes["function_type"].value)
  return [str(each) for each in types.inputs], [str(each) for each in types.results]


def donate(module: Any, aliases: Iterable[tuple[int, int]]) -> None:
  """Makes results reuse the memory of arguments, for variables that a program updates in place.

  Args:
    module: the module; it changes.
    aliases: pairs (number of a result, number of an argument).

  Raises:
    ValueError: a result and its argument differ in shape or dtype.
  """
  main = _main(module)
  types = ir.FunctionType(main.attributes["function_type"].value)
  attributes = [
    {each[index].name: each[index].attr for index in range(len(each))}
    for each in _argument_attributes(main, len(types.inputs))
  ]
  for result, argument in aliases:
    if types.results[result] != types.inputs[argument]:
      raise ValueError(
        f"result {result} is {types.results[result]} and cannot take the memory of parameter "
        f"{argument}, {types.inputs[argument]}"
      )
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), result)
    attributes[argument]["tf.aliasing_output"] = number
  main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in attributes])


# Operations whose float32 products an accelerator rounds first: a GPU to TF32, a TPU to bfloat16.
_PRODUCTS = ("stablehlo.dot", "stablehlo.dot_general", "stablehlo.convolution")


def use_full_precision(module: Any) -> None:
  """Has all products of a module use all bits of their operands. Call it in a `context`."""
  highest = ir.ArrayAttr.get([stablehlo.PrecisionAttr.get("HIGHEST")] * 2)

  def visit(operation):
    if operation.name in _PRODUCTS:
      operation.attributes["precision_config"] = highest
    return ir.WalkResult.ADVANCE

  module.operation.walk(visit)


def _main(module):
  (main,) = (each for each in module.body if each.attributes["sym_name"].value == "main")
  return main


def _argument_attributes(function, count):
  if "arg_attrs" in function.attributes:
    return list(ir.ArrayAttr(function.attributes["arg_attrs"]))
  return [ir.DictAttr.get({}) for _ in range(count)]


# The TPU's compiler assigns addresses after it has ordered the instructions. Since libtpu 0.0.42 it
# prefers a faster way, with which the same instructions take up to a quarter more memory.
_PACKED = (("xla_tpu_buffer_assignment_enable_fast_merge_fallback", False),)
# Sums in a fixed order, and no choice of kernels by their measured time.
_DETERMINISTIC = (("xla_gpu_deterministic_ops", True),)
# On a CPU, a convolution in one of YNNPACK's fusions took 4 times as long as one outside of them.
# An MLP is a tenth faster with the fusions (jaxlib 0.10.2, AMD EPYC with AVX2).
_UNFUSED = (("xla_cpu_experimental_ynn_fusion_type", ""),)


def _options(
  devices: Sequence[Any], dump: str = "", of_platform: Sequence[tuple[str, Any]] = ()
) -> Any:
  """Returns the compiler's options for one replica on each device."""
  options = xla_client.CompileOptions()
  build = options.executable_build_options
  ids = np.array([device.id for device in devices], np.int32).reshape(len(devices), 1)
  for part in (options, build):
    part.num_replicas, part.num_partitions = len(devices), 1
    part.device_assignment = xla_client.DeviceAssignment.create(ids)
  options.env_option_overrides = [*of_platform, *([("xla_dump_to", dump)] if dump else ())]
  return options


def _device_list(devices: Sequence[Any]) -> Any:
  return xla_client.DeviceList(tuple(devices))


def compile_for(
  module: Any, devices: Sequence[Any], dump: str = "", deterministic: bool = False
) -> Any:
  """Compiles a module for one replica on each device; returns the executable.

  Args:
    module: the module.
    devices: the devices. With described devices, the executable cannot run.
    dump: a folder into which the compiler writes the program and its buffers; "" for none.
    deterministic: whether a GPU computes the same bits each time.

  Raises:
    jax.errors.JaxRuntimeError: XLA cannot compile the module.
  """
  client = devices[0].client
  is_described = isinstance(client, _jax.CompileOnlyPyClient)
  compile_module = client.compile if is_described else client.compile_and_load

  def compile_with(*of_platform):
    options = _options(devices, dump, of_platform)
    return compile_module(module, executable_devices=_device_list(devices), compile_options=options)

  if client.platform not in ("tpu", "cpu"):
    return compile_with(*(_DETERMINISTIC if deterministic else ()))
  of_cpu = _UNFUSED if client.platform == "cpu" and _has_convolution(module) else ()
  try:
    return compile_with(*(_PACKED if client.platform == "tpu" else of_cpu))
  except jax.errors.JaxRuntimeError as error:
    if "No such compile option" not in str(error):
      raise
    return compile_with()  # Another libtpu or jaxlib, which has one way alone.


def _has_convolution(module):
  return "stablehlo.convolution" in module.operation.get_asm(large_elements_limit=8)


def serialize(executable: Any) -> bytes:
  """Returns the compiled form of an executable."""
  if isinstance(executable, _jax.LoadedExecutable):
    return executable.client.serialize_executable(executable)
  return executable.serialize()


def load(compiled: bytes, devices: Sequence[Any]) -> Any:
  """Returns the loaded executable of a compiled form.

  Raises:
    jax.errors.JaxRuntimeError: the form is not for these devices and this jaxlib.
  """
  return devices[0].client.deserialize_executable(
    compiled, _device_list(devices), _options(devices)
  )


def put(
  values: Sequence[np.ndarray], shape: Sequence[int], sharding: Any, devices: Sequence[Any]
) -> jax.Array:
  """Copies a value to each device. The caller may change the values afterwards.

  Args:
    values: a contiguous array for each device.
    shape: of the whole array; the values are its parts on the devices.
    sharding: of the whole array.
    devices: of this process.
  """
  return xla_client.batched_device_put(
    jax.core.ShapedArray(tuple(shape), values[0].dtype),
    sharding,
    values,
    list(devices),
    True,
    # By default jax keeps the memory of the numpy arrays, and a program that may reuse the value's
    # memory would overwrite it.
    host_buffer_semantics=xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
  )


def result_handler(shape: Sequence[int], dtype: Any, sharding: Any) -> Any:
  """Returns a function that makes an array from one result of `execute`."""
  committed = True
  # Before 0.11.2, jaxlib checks each array, unless a fourth argument forbids it.
  unchecked = () if jax.__version_info__ >= (0, 11, 2) else (True,)
  return xla_client.array_result_handler(
    jax.core.ShapedArray(tuple(shape), np.dtype(dtype)), sharding, committed, *unchecked
  )


def execute(
  executable: Any, arguments: Sequence[jax.Array], handlers: Sequence[Any]
) -> list[jax.Array]:
  """Starts an executable on all its devices; returns its results, perhaps before they exist.

  Args:
    executable: a loaded executable.
    arguments: one array per argument, with a part on each device.
    handlers: one `result_handler` per result.

  Raises:
    jax.errors.JaxRuntimeError: the executable could not start.
  """
  return executable.execute_sharded(arguments).consume_with_handlers(handlers)


# jax's coordinator would end all processes after this silence of one process. Octet detects lost
# processes within seconds, see `hosts`.
_SILENCE_SECONDS = 24 * 3600


def has_started() -> bool:
  """Returns whether jax has found its devices; after that, no other process can join."""
  return xla_bridge.backends_are_initialized()


def detect_hosts(
  detections: Sequence[str], port: str | None, seconds: int
) -> tuple[str, int, int] | None:
  """Returns the coordinator's address, the number of processes and that of this one, or None.

  Args:
    detections: names of jax's classes that each know one kind of cluster.
    port: the coordinator's; None for jax's choice.
    seconds: time to wait until the first host of a TPU slice has a name.

  Raises:
    Exception: of many classes; the environment lacks what a detection needs.
  """
  for each in (getattr(clusters, name) for name in detections):
    if each.is_env_present():
      # The first pod may come late; who connects to it waits for it longer than jax does here.
      patience = None if each is clusters.K8sCluster else seconds
      address = each.get_coordinator_address(timeout_secs=patience, override_coordinator_port=port)
      return address, each.get_process_count(), each.get_process_id()
  return None


def serve_coordinator(address: str, processes: int) -> None:
  """Starts jax's coordinator in this process."""
  distributed.global_state.service = _jax.get_distributed_runtime_service(
    address, processes, heartbeat_timeout=_SILENCE_SECONDS
  )


def join_coordinator(address: str, processes: int, number: int, seconds: int) -> Any:
  """Makes jax find the devices of all processes; returns its client, a store of keys and values.

  jax.distributed.initialize would also listen for SIGTERM, which belongs to the training.

  Args:
    address: the coordinator's address.
    processes: the number of processes.
    number: the number of this process.
    seconds: time to wait for the others.

  Raises:
    jax.errors.JaxRuntimeError: others were missing.
  """
  state = distributed.global_state
  state.client = _jax.get_distributed_runtime_client(
    address,
    number,
    init_timeout=seconds,
    heartbeat_timeout=_SILENCE_SECONDS,
    shutdown_on_destruction=False,
    use_compression=True,
  )
  state.client.connect()
  state.process_id, state.num_processes = number, processes
  jax.config.update("jax_cpu_collectives_implementation", "gloo")
  return state.client


def forget_coordinator() -> None:
  """Has jax end without a word to the other processes. Call it when the process ends."""
  state = distributed.global_state
  for each in (state.client, state.service):
    if each is not None:
      # jax would wait here until the others end, too. A destroyed coordinator aborts the connected
      # processes; a coordinator in a dead process does not, see `hosts`.
      ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
  state.client = state.service = None
