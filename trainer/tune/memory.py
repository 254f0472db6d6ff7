"""How much memory a process may take, and the end of a process that takes more.

Without a limit the system would end a process when the machine's memory is spent, and it may choose
another one.
"""

import os
import pathlib
import threading
import time

from trainer.cli import processes

# The exit code of a process that has taken more than its limit. No signal and no shell has this
# one.
EXIT_CODE = 86

# A training may take this share of the free memory: the rest is for other programs.
_SHARE = 0.8
_LOOK_SECONDS = 0.02


def limit_bytes(
  meminfo: str = "/proc/meminfo", cgroup: str = "/sys/fs/cgroup", share: float = _SHARE
) -> int | None:
  """Returns how many bytes a process may take; None where the system does not tell.

  Args:
    meminfo: Linux's file about the memory of the machine.
    cgroup: the folder of the process's control group, the limit of a container.
    share: of the free memory.
  """
  free = [_available(pathlib.Path(meminfo)), _left(pathlib.Path(cgroup))]
  known = [count for count in free if count is not None]
  return int(share * min(known)) if known else None


def end_beyond(limit: int) -> None:
  """Ends this process with EXIT_CODE as soon as it has taken more memory than a limit."""

  def watch():
    while processes.peak_memory() <= limit:
      time.sleep(_LOOK_SECONDS)
    os._exit(EXIT_CODE)

  threading.Thread(target=watch, daemon=True).start()


def _available(meminfo):
  for line in meminfo.read_text().splitlines() if meminfo.exists() else ():
    name, _, value = line.partition(":")
    if name == "MemAvailable":
      return int(value.split()[0]) * 1024
  return None


def _left(cgroup):
  """Returns how much a control group of version 2 may still take; None without a limit."""
  limit, used = cgroup / "memory.max", cgroup / "memory.current"
  if not limit.exists() or not used.exists() or (text := limit.read_text().strip()) == "max":
    return None
  return int(text) - int(used.read_text())
