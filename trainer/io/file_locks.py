"""Locks on local files that several processes or threads write.

    with open("out/digits/metrics.jsonl", "ab") as file:
      file_locks.lock(file)          # held until the file is closed
      file.write(line)

A lock belongs to an open file. The system releases it when the file is closed, and also when the
process is killed. Threads exclude each other as processes do, if each opens the file for itself.
"""

import errno
import fcntl
from typing import IO

# The errors of a file system that has no locks, such as some network mounts.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def lock(file: IO) -> bool:
  """Waits until no other open file has the lock, and takes it.

  Args:
    file: open for writing, in any mode.

  Returns:
    False where the file system has no locks.

  Raises:
    OSError: the file cannot be locked for another reason.
  """
  try:
    fcntl.flock(file, fcntl.LOCK_EX)
  except OSError as error:
    if error.errno in _NO_LOCKS:
      return False
    raise
  return True
