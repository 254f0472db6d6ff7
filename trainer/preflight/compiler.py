"""Calls XLA's compiler in a process of its own, since it may abort, hang or run out of memory."""

import dataclasses
import glob
import os
import re
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trainer import errors
from trainer.cli import processes
from trainer.pjrt import installed, saved_program
from trainer.preflight import memory

if TYPE_CHECKING:
  from trainer.pjrt import program as pjrt_program
  from trainer.preflight import topology as topology_lib

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_ENVIRONMENT = {
  # Otherwise libtpu's lock file lets only one process of this machine load libtpu. Do not delete
  # the file.
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
  "JAX_PLATFORMS": "cpu",
  "TPU_SKIP_MDS_QUERY": "1",  # This machine has no metadata server.
  "TPU_ACCELERATOR_TYPE": "v3-8",  # Any value; this one and the next only silence a warning each.
  "TPU_WORKER_HOSTNAMES": "localhost",
}


class CompileError(errors.OctetError, RuntimeError):
  """The compiler refused a program, died, or took too long."""


@dataclasses.dataclass(frozen=True)
class Compiled:
  """The compiler's figures of a program that fits, for one core.

  Attributes:
    device_kind: the compiler's name for the device.
    compile_seconds: time in the compiler alone.
    argument_bytes: variables, optimizer slots and the batch, with padding.
    output_bytes: results.
    aliased_bytes: the part of the results that replaces an argument in place, as variables do.
    temporary_bytes: other memory that the step needs, mostly activations.
    code_bytes: the program.
    peak_bytes: the most memory in use at one time, arguments included.
    flops: of one step.
    bytes_accessed: of one step.
    optimal_seconds: time of a step by the compiler's cost model, uncorrected (see
      `trainer.preflight.estimates`), or None.
    kept_bytes: of the kept compiled form; otherwise None.
    versions: package → version.
    listing: the compiler's output.
  """

  device_kind: str
  compile_seconds: float
  argument_bytes: int
  output_bytes: int
  aliased_bytes: int
  temporary_bytes: int
  code_bytes: int
  peak_bytes: int
  flops: float
  bytes_accessed: float
  optimal_seconds: float | None
  kept_bytes: int | None
  versions: dict[str, str]
  listing: memory.Listing


@dataclasses.dataclass(frozen=True)
class OutOfMemory:
  """The compiler's figures of a program that does not fit.

  Attributes:
    needed_bytes: of one core.
    available_bytes: of one core.
    message: the compiler's error message.
    versions: package → version.
    listing: the compiler's output.
  """

  needed_bytes: int
  available_bytes: int
  message: str
  versions: dict[str, str]
  listing: memory.Listing


def require_extra(topologies: Iterable["topology_lib.Topology"]) -> None:
  """Checks that the compiler for these topologies is installed.

  Raises:
    VersionError: it is missing, or of an untested version.
  """
  for platform in sorted({topology.chip.platform for topology in topologies}):
    try:
      installed.require(platform)
    except errors.VersionError as error:
      if platform != "tpu":
        raise
      raise errors.VersionError(
        f"No TPU compiler: {error} libtpu comes from Google under the Google Cloud "
        "terms of service and is not part of Octet."
      ) from None


def compile_program(
  source: "pjrt_program.Source",
  topology: "topology_lib.Topology",
  timeout_seconds: float,
  kept: str = "",
) -> Compiled | OutOfMemory:
  """Compiles one replica's program.

  Args:
    source: of the program.
    topology: a replica of the program runs on each of its cores.
    timeout_seconds: kills the compiler after this time.
    kept: a folder that gets the compiled form, see `trainer.pjrt.compiled_forms`; "" for none.

  Returns:
    The figures of the program, whether it fits or not.

  Raises:
    CompileError: the compiler refused the program, died, or took too long.
    OutputError: it cannot write the compiled form.
  """
  with tempfile.TemporaryDirectory(prefix="preflight") as folder:
    path = {name: os.path.join(folder, name) for name in ("program", "dump", "log")}
    os.mkdir(path["dump"])
    saved_program.write(path["program"], source.lower())
    request = dict(
      path,
      platform=topology.chip.platform,
      topology=topology.compiler_name,
      topology_options=topology.options,
      replicas=topology.replicas,
      kept=kept,
      digest=source.digest,
      made_by=source.versions,
    )
    with open(path["log"], "wb") as log:
      status, answer = processes.ask(
        "trainer.preflight.compile_worker", request, log, timeout_seconds, _ENVIRONMENT
      )
    if status is None:
      raise CompileError(
        f"The compiler took longer than {timeout_seconds:g} s and Octet ended it "
        "(--timeout_seconds)."
      )
    if answer is None:
      raise CompileError(
        f"The compiler {processes.how_it_ended(status)} and gave no answer. "
        f"Its last words:\n{_last_words(_read(path['log']))}"
      )
    listing = _listing(path["dump"])
  if "unkept" in answer:
    raise errors.OutputError(f"{answer['unkept']} (--save)")
  if "error" in answer:
    return _out_of_memory(answer, listing, topology.memory_bytes)
  return Compiled(listing=listing, **answer)


def _listing(folder):
  """Reads the output about the largest dumped program; the compiler may dump small ones too."""
  buffers = sorted(
    glob.glob(os.path.join(glob.escape(folder), "*.after_optimizations-buffer-assignment.txt")),
    key=os.path.getsize,
  )
  if not buffers:
    return memory.Listing()
  stem = buffers[-1].removesuffix("-buffer-assignment.txt")
  assigned = _read(buffers[-1])
  return memory.Listing(_read(stem + ".txt"), assigned, memory.allocated_bytes(assigned))


def _out_of_memory(answer, listing, memory_bytes):
  message = answer["error"]
  # libtpu 0.0.30 says this of a single array. It compares with the chip's memory, and a program may
  # not use all of that.
  if array := re.search(r"Allocation \(size=(\d+)\) would exceed memory", message):
    return OutOfMemory(int(array[1]), memory_bytes, message, answer["versions"], listing)
  size = r"([\d.]+)([KMGT]?)"
  # There are two messages: one if the program is clearly too large, and one if the compiler first
  # tried to make it fit.
  plain = re.search(rf"\({size}\) exceeds available HBM \({size}\)", message)
  narrow = re.search(rf"Used {size} of {size} hbm. Exceeded hbm capacity by {size}", message)
  if "RESOURCE_EXHAUSTED" not in message or not (plain or narrow):
    raise CompileError(f"The compiler refused the program: {message[:2000]}")
  needed, available, *over = (
    int(float(number) * _UNITS[unit])
    for number, unit in re.findall(size, (plain or narrow)[0])
    if number != "."
  )
  if over:  # The other two figures are rounded, so their difference may be 0.
    needed = available + over[0]
  return OutOfMemory(needed, available, message, answer["versions"], listing)


def _last_words(log):
  telling = [line for line in log.splitlines() if re.search(r"Check failed|[Ee]rror|F\d{4} ", line)]
  return "\n".join((telling or log.splitlines())[-5:])


def _read(path):
  with open(path, errors="replace") as file:
    return file.read()
