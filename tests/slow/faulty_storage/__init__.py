"""A file system for TensorFlow that fails on a test's command: `faulty://<folder>`.

    faults = faulty_storage.load()                # None without a C++ compiler
    with faults.begun(folder, lag=2.0):
      faults.add("publish", part="model.ckpt", skip=3, code=tf.errors.UNAVAILABLE)
      ...                                         # reads and writes faulty://<folder>/...

It is a C++ plug-in of TensorFlow, so it serves gfile, the operations that save and restore
checkpoints, and the writers of summaries. See file_system.cc.
"""

import contextlib
import ctypes
import functools
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import tensorflow as tf

# As in file_system.cc.
OPERATIONS = {
  "open_to_read": 1,
  "read": 2,
  "open_to_write": 4,
  "append": 8,
  "publish": 16,
  "make_folder": 32,
  "remove": 64,
  "rename": 128,
  "copy": 256,
  "look": 512,
  "list": 1024,
}
ALL = sum(OPERATIONS.values())
WRITES = ("open_to_write", "append", "publish", "make_folder", "remove", "rename", "copy")
_SOURCE = pathlib.Path(__file__).parent / "file_system.cc"


class Faults:
  """The faults of faulty://."""

  def __init__(self, library: ctypes.CDLL) -> None:
    self._library = library
    library.faulty_begin.argtypes = [ctypes.c_char_p, ctypes.c_double]
    library.faulty_add.argtypes = [
      *(ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_double),
      *(ctypes.c_int, ctypes.c_double, ctypes.c_bool),
    ]
    for name in ("faulty_operations", "faulty_failures"):
      getattr(library, name).restype = ctypes.c_int64

  def begin(self, folder: str, lag: float = 0.0) -> None:
    """Forgets all faults.

    Args:
      folder: a folder of the machine, the root of all paths.
      lag: seconds for which a listing hides new files and shows removed ones.
    """
    self._library.faulty_begin(str(folder).encode(), lag)

  def add(
    self,
    *operations: str,
    part: str = "",
    skip: int = 0,
    count: int = 1,
    seconds: float = 0.0,
    code: int = 0,
    delay: float = 0.0,
    is_late: bool = False,
  ) -> None:
    """Makes operations slow, or fail.

    Args:
      *operations: some of OPERATIONS; none for all.
      part: a part of the paths.
      skip: the number of operations that pass first.
      count: the number of failures; -1 for all.
      seconds: the seconds of failures after the first one; 0 for endless.
      code: the error's code in tf.errors; 0 for no error.
      delay: additional seconds for each operation.
      is_late: whether an operation fails after doing its work.
    """
    kinds = sum(OPERATIONS[name] for name in operations) or ALL
    self._library.faulty_add(kinds, part.encode(), skip, count, seconds, code, delay, is_late)

  @property
  def operations(self) -> int:
    """Returns the number of operations since `begin`."""
    return self._library.faulty_operations()

  @property
  def failures(self) -> int:
    """Returns the number of failed operations."""
    return self._library.faulty_failures()


@functools.cache
def load() -> Faults | None:
  """Compiles the file system and loads it into TensorFlow; returns None without a C++ compiler."""
  compiler = shutil.which("c++")
  if compiler is None:
    return None
  with tempfile.TemporaryDirectory() as folder:
    built = f"{folder}/faulty.so"
    command = [compiler, "-O0", "-fPIC", "-shared", "-o", built, str(_SOURCE)]
    subprocess.run(
      [*command, *tf.sysconfig.get_compile_flags(), *tf.sysconfig.get_link_flags()], check=True
    )
    tf.experimental.register_filesystem_plugin(built)
    return Faults(ctypes.CDLL(built))


@contextlib.contextmanager
def begun(folder: str, lag: float = 0.0) -> Iterator[Faults]:
  """Yields the Faults of a folder, and forgets them at the end."""
  faults = load()
  assert faults is not None
  faults.begin(folder, lag)
  try:
    yield faults
  finally:
    faults.begin(folder)
