"""How much memory a process may take, and the end of a process that takes more.

Without a limit the system would end a process when the machine's memory is spent, and it may choose
another one.
"""

import os
import pathlib
import threading
import time

import psutil

from trainer.cli import processes

# The exit code of a process that has taken more than its limit. No signal and no shell has this
# one.
EXIT_CODE = 86

# A training may take this share of the free memory: the rest is for other programs.
_SHARE = 0.8
_LOOK_SECONDS = 0.02


def limit_bytes(cgroup: str = "/sys/fs/cgroup") -> int:
  """Returns how many bytes a process may take: a share of the free memory.

  Args:
    cgroup: the folder of the process's control group, the limit of a container.
  """
  free = psutil.virtual_memory().available
  left = _left(pathlib.Path(cgroup))
  return int(_SHARE * (free if left is None else min(free, left)))


def end_beyond(limit: int) -> None:
  """Ends this process with EXIT_CODE as soon as it has taken more memory than a limit."""

  def watch():
    while processes.peak_memory() <= limit:
      time.sleep(_LOOK_SECONDS)
    os._exit(EXIT_CODE)

  threading.Thread(target=watch, daemon=True).start()


def _left(cgroup):
  """Returns how much a control group of version 2 may still take; None without a limit."""
  limit, used, parts = (cgroup / f"memory.{name}" for name in ("max", "current", "stat"))
  if not limit.exists() or not used.exists() or (text := limit.read_text().strip()) == "max":
    return None
  # `used` counts the files that the system keeps in memory, too. As Kubernetes's "working set",
  # this leaves out the inactive ones, which the system gives up to a process.
  stat = dict(line.split() for line in parts.read_text().splitlines()) if parts.exists() else {}
  return int(text) - int(used.read_text()) + int(stat.get("inactive_file", 0))
