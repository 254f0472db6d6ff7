"""Ends a process together with the process that started it.

Without this, a child that nobody waits for goes on after its parent was killed: a compiler that
holds gigabytes, or a trial of a sweep that has ended.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(parent: int | None = None) -> None:
  """Makes the system kill this process when its parent ends, however that ends. Linux only.

  On other systems this does nothing.

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
