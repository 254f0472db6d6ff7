"""Processes of this machine: which machine it is, and when one of its processes was started."""

import os
import socket


def host() -> str:
  """The name of this machine, with that of the space of process numbers where a container has
  one of its own.
  """
  try:
    return f"{socket.gethostname()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return socket.gethostname()


def boot() -> str | None:
  """What tells this machine, since it was last started, and its space of process numbers from
  all others; None where the system does not tell.
  """
  try:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
      return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
  except OSError:
    return None


def started(pid: int) -> str | None:
  """When a process of this machine was started, in a form that tells it apart from another one
  that has its number later; None if there is none.
  """
  try:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
      fields = file.read().rpartition(")")[2].split()
  except OSError:
    return None
  # A process that has ended and waits to be looked at; see proc(5).
  return None if fields[0] in "ZX" else fields[19]
