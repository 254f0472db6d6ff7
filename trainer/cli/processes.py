"""Processes on this machine: identifies them, runs one, asks one, and ends one with its parent."""

import ctypes
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

_ROOT = str(pathlib.Path(__file__).resolve().parents[2])  # The folder with Octet's packages.

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def host_name() -> str:
  """Returns the name of this machine, with its PID namespace where a container has its own."""
  try:
    return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return socket.gethostname()


def boot_id() -> str | None:
  """Identifies this machine's current boot and the PID namespace of this process.

  Process IDs of two processes are comparable only if the processes have the same boot_id.

  Returns:
    A string that differs between machines and between boots; None where the system has no boot ID.
  """
  try:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
      return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return None


def start_time(pid: int) -> str | None:
  """Returns the start time of a process on this machine.

  The system reuses process IDs. The start time tells a process from a later one with the same ID.

  Returns:
    Clock ticks from the machine's boot to the process's start, as text; None if no process with
    this ID runs.
  """
  try:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
      # The second field is the program's name in brackets, and may contain spaces and brackets.
      fields = file.read().rpartition(")")[2].split()
  except OSError:
    return None
  # Field 0 is the state. Z and X: the process has ended, and its parent has not yet waited for it.
  # Field 19 is the start time. See proc(5).
  return None if fields[0] in "ZX" else fields[19]


def cpu_count() -> int:
  """Returns the number of CPUs that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def peak_memory() -> int:
  """Returns the most bytes of memory that this process has had."""
  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  return peak if sys.platform == "darwin" else peak * 1024


def with_octet() -> dict[str, str]:
  """Returns the environment variables of a child in which Octet's packages can be imported."""
  python_path = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
  return {**os.environ, "PYTHONPATH": python_path}


def run_command(
  command: Sequence[str], output: IO[bytes], timeout_seconds: float, environment: Mapping[str, str]
) -> int | None:
  """Runs a command that can import Octet's packages.

  Args:
    command: the words of the command.
    output: the file for its output.
    timeout_seconds: kills the process after this time.
    environment: variables in addition to this process's own.

  Returns:
    The exit status; None if the command ran out of time.
  """
  process = subprocess.Popen(
    command, stdout=output, stderr=subprocess.STDOUT, env={**with_octet(), **environment}
  )
  try:
    return process.wait(timeout_seconds)
  except subprocess.TimeoutExpired:
    return None
  finally:
    if process.poll() is None:  # After a timeout, and after Ctrl-C.
      process.kill()
      process.wait()


def how_it_ended(code: int) -> str:
  """Returns "ended with exit code 2", or "died of SIGKILL (out of memory?)".

  Args:
    code: the exit code of a process; -n if signal n ended it.
  """
  if code >= 0:
    return f"ended with exit code {code}"
  hint = " (out of memory?)" if code == -signal.SIGKILL else ""
  return f"died of {signal.Signals(-code).name}{hint}"


def ask(
  module: str,
  request: Mapping[str, Any],
  output: IO[bytes],
  timeout_seconds: float,
  environment: Mapping[str, str],
) -> tuple[int | None, Any]:
  """Has a module answer a request in a process of its own.

  Args:
    module: name of a module; its program is `processes.answer(function)`.
    request: for the function; JSON can hold it.
    output: see `run_command`.
    timeout_seconds: see `run_command`.
    environment: see `run_command`.

  Returns:
    The exit status, as of `run_command`, and the function's result; None if it gave none.
  """
  with tempfile.TemporaryDirectory(prefix="octet") as folder:
    paths = [os.path.join(folder, name) for name in ("request", "answer")]
    with open(paths[0], "w", encoding="utf-8") as file:
      json.dump({"parent": os.getpid(), "request": dict(request)}, file)
    status = run_command(
      [sys.executable, "-m", module, *paths], output, timeout_seconds, environment
    )
    # A process may also answer and then die: some libraries crash at exit.
    if os.path.exists(paths[1]):
      with open(paths[1], encoding="utf-8") as file:
        return status, json.load(file)
  return status, None


def answer(function: Callable[[dict[str, Any]], Any]) -> None:
  """Is the program of a module that `ask` starts: answers one request and ends with its parent.

  Args:
    function: of the request; JSON can hold its result.
  """
  with open(sys.argv[1], encoding="utf-8") as file:
    asked = json.load(file)
  end_with_parent(asked["parent"])
  made = function(asked["request"])
  unfinished = f"{sys.argv[2]}.part"
  with open(unfinished, "w", encoding="utf-8") as file:
    json.dump(made, file)
  os.replace(unfinished, sys.argv[2])


def end_with_parent(parent: int | None = None) -> None:
  """Makes Linux kill this process when its parent ends, for whatever reason.

  Otherwise a child outlives a killed parent: a compiler with gigabytes of memory, or a trial of a
  dead sweep. On other systems this function does nothing.

  Args:
    parent: process ID of the parent. If this process has another parent by now, the first one has
      ended already, and this process exits at once. None: no check.

  Raises:
    OSError: the system refused.
  """
  if sys.platform != "linux":
    return
  if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
    raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
  # If the parent ended before the call above, prctl has no effect. So this check comes after the
  # call, not before.
  if parent is not None and os.getppid() != parent:
    os._exit(1)
