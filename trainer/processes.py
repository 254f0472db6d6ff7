"""Processes of this machine: which machine it is, when a process was started, and who ends it."""

import ctypes
import os
import signal
import socket
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def host_name() -> str:
  """Returns the name of this machine, with its PID namespace where a container has its own."""
  try:
    return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return socket.gethostname()


def boot_id() -> str | None:
  """Identifies this machine since its last start, and the PID namespace of this process.

  Returns:
    A text that no other machine or start has; None where the system does not tell.
  """
  try:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
      return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return None


def start_time(pid: int) -> str | None:
  """Says when a process of this machine was started.

  Returns:
    A text that tells the process from a later one with the same PID; None if there is no process
    with this PID.
  """
  try:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
      fields = file.read().rpartition(")")[2].split()
  except OSError:
    return None
  # Z and X are processes that have ended and are not yet waited for; see proc(5).
  return None if fields[0] in "ZX" else fields[19]


def end_with_parent(parent: int | None = None) -> None:
  """Makes the system kill this process when its parent ends, however that ends. Linux only.

  Without this, a child that nobody waits for goes on after its parent was killed: a compiler that
  holds gigabytes, or a trial of a sweep that has ended. On other systems this does nothing.

  Args:
    parent: the process ID of the parent. If the parent is no longer the process's parent, it has
      ended already, and this process ends at once. None: not checked.

  Raises:
    OSError: Linux refused.
  """
  if sys.platform != "linux":
    return
  if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
    raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
  # The signal is not sent for a parent that ended before it was asked for.
  if parent is not None and os.getppid() != parent:
    os._exit(1)
