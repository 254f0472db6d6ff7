import contextlib
import os
import select
import signal
import subprocess
import sys

CHILD = """
import os, signal
from trainer import processes
processes.end_with_parent()
print(os.getpid(), flush=True)
signal.pause()
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_child_ends_with_a_parent_that_is_killed():
  with subprocess.Popen(
    [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
  ) as parent:
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    try:
      assert select.select([child], [], [], 30)[0]  # a pidfd can be read once its process has ended
    finally:
      with contextlib.suppress(ProcessLookupError):  # which is what is expected
        signal.pidfd_send_signal(child, signal.SIGKILL)
      os.close(child)
