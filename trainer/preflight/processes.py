"""A process that ends with the one that started it: nobody waits for a compiler whose caller
was killed, and it holds gigabytes.
"""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent():
  """Asks Linux to kill this process when the one that started it ends, however that ends.

  libtpu is for Linux alone.
  """
  if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
    raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
