"""Locks on local files, for what several processes or threads change.

    with open("out/digits/metrics.jsonl", "ab") as file:
      file_locks.lock(file)          # until it is closed
      file.write(line)

A lock belongs to an open file and ends with it, also when its process is killed. Threads exclude
each other as processes do, since each opens the file for itself.
"""

import errno
import fcntl
from typing import IO

# What a file system without locks says, as some network mounts are.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def lock(file: IO) -> bool:
  """Waits until no other open file has the lock, and takes it.

  Args:
    file: open for writing, in any mode.

  Returns:
    False where the file system has no locks.

  Raises:
    OSError: it cannot be locked for another reason.
  """
  try:
    fcntl.flock(file, fcntl.LOCK_EX)
  except OSError as error:
    if error.errno in _NO_LOCKS:
      return False
    raise
  return True
