"""The TPU compiler, called in a process of its own: it may abort, hang, or take more memory
than there is.
"""

import dataclasses
import glob
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from trainer import errors

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_EXTRA = ("jax", "jaxlib", "libtpu")

_ENVIRONMENT = {
  # Else a lock file keeps a second process on this machine from compiling; that file is never to
  # be deleted.
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
  "JAX_PLATFORMS": "cpu",
  "TPU_SKIP_MDS_QUERY": "1",  # there is no metadata server to ask
  "TPU_ACCELERATOR_TYPE": "v3-8",  # any value: these two only silence a warning each
  "TPU_WORKER_HOSTNAMES": "localhost",
}


class CompileError(errors.OctetError, RuntimeError):
  """The TPU compiler refused a program, died of it, or took too long."""


@dataclasses.dataclass(frozen=True)
class Listing:
  """What the compiler writes down of a program, whether it fits or not.

  Attributes:
    hlo: the optimized HLO.
    buffers: its assignment of buffers, see `trainer.preflight.memory`.
    allocated_bytes: all that the program holds of a core's memory, arguments included.
  """

  hlo: str = ""
  buffers: str = ""
  allocated_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Compiled:
  """What the compiler says of a program that fits; all figures are of one core.

  Attributes:
    device_kind: its name for the TPU.
    compile_seconds: in the compiler alone.
    argument_bytes: variables, optimizer slots and the batch, as the core holds them.
    output_bytes: results, of which aliased_bytes stay in the place of an argument (the variables
      do).
    temporary_bytes: what the step needs besides, activations most of all.
    code_bytes: the program.
    peak_bytes: the most that is in use at one time, arguments included.
    flops, bytes_accessed: of one step.
    optimal_seconds: the compiler's own cost model, as it gives it (see
      `trainer.preflight.estimates`), or None.
    versions: dict of package → version.
    listing: a Listing.
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
  versions: dict
  listing: Listing


@dataclasses.dataclass(frozen=True)
class OutOfMemory:
  """What the compiler says of a program that does not fit.

  Attributes:
    needed_bytes, available_bytes: of one core.
    message: its words.
    versions, listing: see Compiled.
  """

  needed_bytes: int
  available_bytes: int
  message: str
  versions: dict
  listing: Listing


def require_extra():
  """Raises SettingError unless the TPU compiler is installed."""
  missing = []
  for package in _EXTRA:
    try:
      importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
      missing.append(package)
  if missing:
    raise errors.SettingError(
      f"The TPU compiler is not installed ({', '.join(missing)} missing): pip install "
      "'octet[cpu,preflight]'. "
      "libtpu comes from Google under the Google Cloud terms of service and is not part of "
      "Octet."
    )


def compile_hlo(hlo, topology, timeout_seconds):
  """Compiles one replica's program.

  Args:
    hlo: bytes, a serialized HloModuleProto.
    topology: a topology.Topology; the program runs on all its cores.
    timeout_seconds: after so long the compiler is ended.

  Returns:
    A Compiled, or an OutOfMemory.

  Raises:
    CompileError: the compiler did anything else.
  """
  with tempfile.TemporaryDirectory(prefix="preflight") as folder:
    path = {
      name: os.path.join(folder, name) for name in ("hlo", "answer", "dump", "request", "log")
    }
    os.mkdir(path["dump"])
    with open(path["hlo"], "wb") as file:
      file.write(hlo)
    request = dict(
      path,
      topology=topology.compiler_name,
      topology_options=topology.options,
      replicas=topology.replicas,
    )
    with open(path["request"], "w") as file:
      json.dump(request, file)
    returned = _run(
      [sys.executable, "-m", "trainer.preflight.compile_worker", path["request"]],
      path["log"],
      timeout_seconds,
    )
    if returned is None:
      raise CompileError(
        f"The TPU compiler took longer than {timeout_seconds:g} s and was ended "
        "(--timeout_seconds)."
      )
    if not os.path.exists(path["answer"]):
      raise CompileError(
        f"The TPU compiler {_death(returned)}. Its last words:\n{_last_words(_read(path['log']))}"
      )
    answer = json.loads(_read(path["answer"]))
    listing = _listing(path["dump"])
  if "error" in answer:
    return _out_of_memory(answer, listing)
  return Compiled(listing=listing, **answer)


def _run(command, log, timeout_seconds):
  """The return code, or None after a timeout. What it says goes to the file `log`."""
  root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
  python_path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
  with open(log, "w") as output:
    process = subprocess.Popen(
      command,
      stdout=output,
      stderr=subprocess.STDOUT,
      env=dict(os.environ, PYTHONPATH=python_path, **_ENVIRONMENT),
    )
    try:
      return process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
      return None
    finally:
      if process.poll() is None:  # after a timeout, and when the user presses Ctrl-C
        process.kill()
        process.wait()


def _listing(folder):
  """The Listing of the largest program that was dumped: the compiler may have made small ones
  on the way.
  """
  buffers = sorted(
    glob.glob(os.path.join(glob.escape(folder), "*.after_optimizations-buffer-assignment.txt")),
    key=os.path.getsize,
  )
  if not buffers:
    return Listing()
  stem = buffers[-1].removesuffix("-buffer-assignment.txt")
  total = re.search(r"Total bytes: (\d+)", _read(stem + "-memory-usage-report.txt"))
  return Listing(_read(stem + ".txt"), _read(buffers[-1]), int(total[1]) if total else 0)


def _out_of_memory(answer, listing):
  message = answer["error"]
  size = r"([\d.]+)([KMGT]?)"
  # It says so in two ways: early where it is plain, and at the end where it had tried to make room.
  plain = re.search(rf"\({size}\) exceeds available HBM \({size}\)", message)
  narrow = re.search(rf"Used {size} of {size} hbm. Exceeded hbm capacity by {size}", message)
  if "RESOURCE_EXHAUSTED" not in message or not (plain or narrow):
    raise CompileError(f"The TPU compiler refused the program: {message[:2000]}")
  needed, available, *over = (
    int(float(number) * _UNITS[unit])
    for number, unit in re.findall(size, (plain or narrow)[0])
    if number != "."
  )
  if over:  # the other two are rounded, and may be the same
    needed = available + over[0]
  return OutOfMemory(needed, available, message, answer["versions"], listing)


def _death(returned):
  if returned < 0:
    return f"was ended by {signal.Signals(-returned).name}" + (
      " (is the machine out of memory?)" if returned == -signal.SIGKILL else ""
    )
  return f"ended with code {returned} and no answer"


def _last_words(log):
  telling = [line for line in log.splitlines() if re.search(r"Check failed|[Ee]rror|F\d{4} ", line)]
  return "\n".join((telling or log.splitlines())[-5:])


def _read(path):
  with open(path, errors="replace") as file:
    return file.read()
