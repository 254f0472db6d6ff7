"""Locks on local files that several processes or threads write.

    with open("out/digits/metrics.jsonl", "ab") as file:
      file_locks.lock(file)          # held until the file is closed
      file.write(line)

A lock belongs to an open file. The system releases it when the file closes, and at the end of the
process, killed or not. Threads exclude each other as processes do, if each thread opens the file
itself.
"""

import errno
import fcntl
from typing import IO

# The errors of a file system without locks, such as some network mounts.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def lock(file: IO) -> bool:
  """Waits until no other open file has the lock, and takes it.

  Args:
    file: open for writing, in any mode.

  Returns:
    False if the file system has no locks.

  Raises:
    OSError: locking fails for another reason.
  """
  try:
    fcntl.flock(file, fcntl.LOCK_EX)
  except OSError as error:
    if error.errno in _NO_LOCKS:
      return False
    raise
  return True
