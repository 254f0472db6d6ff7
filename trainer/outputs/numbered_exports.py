"""Gives exports numbers as names; the largest is the newest.

    with numbered_exports.claim("out/digits/export") as (number, folder):
      ...                                            # writes out/digits/export/<number>
    numbered_exports.names("out/digits/export")      # ["1732283000", "1732286600"], oldest first
    numbered_exports.remove_old("out/digits/export", 5, newest="1732286600")

A number is the time in seconds since the epoch, as TensorFlow Serving expects. If the folder has
that number or a larger one, the export gets the next number after its largest: servers and
retention go by the numbers, and the machine's clock may go back.

Layout during an export:

    <base>/.writing-<number>-<id>-<writer>/    claims the number

A process makes the folder of its claim, then lists the folders. The process has the number only if
no other process claims it and no export has it. Of two claims of one number, the process that made
the later folder sees both, whatever the order of the listings. So two exports never get one number
on local disks, and on object stores with consistent listings (Google Cloud Storage, S3).
tf.io.gfile cannot create an object conditionally, so a store with stale listings gives no such
promise.
"""

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf

from trainer import errors
from trainer.io import files, storage
from trainer.outputs import description


def names(base: str) -> list[str]:
  """Returns the names of the exports in a folder, also of incomplete ones, oldest first."""
  return sort(listed(base))


def sort(found: Iterable[str]) -> list[str]:
  """Returns the names that are exports', oldest first."""
  return sorted(filter(_is_number, found), key=int)


def listed(base: str) -> list[str]:
  """Returns all names in a folder."""
  return [name.rstrip("/") for name in storage.listdir(base)]


@contextlib.contextmanager
def claim(base: str, clock: Callable[[], float] = time.time) -> Iterator[tuple[int, str]]:
  """Claims the number of a new export while the context is open.

  Args:
    base: the folder of the exports, made if needed.
    clock: returns the time in seconds since the epoch.

  Yields:
    (number, path of an empty folder beside the exports). The caller may rename the folder to the
    export.
  """
  number, folder = _claim_number(base, clock)
  try:
    yield number, folder
  finally:
    # The caller has renamed it, or it stays as litter and blocks nothing.
    with contextlib.suppress(tf.errors.OpError, errors.StorageError):
      storage.rmtree(folder)


def remove_old(base: str, keep: int | None, newest: str) -> None:
  """Removes all but the newest exports of a folder.

  An incomplete export does not count, and stays: another process may be writing it.

  Args:
    base: the folder.
    keep: the number of exports to keep; None keeps all.
    newest: the name of an export that stays in any case.
  """
  if keep is None:
    return
  whole = [name for name in names(base) if description.is_whole(os.path.join(base, name))]
  for name in whole[:-keep]:
    if name != newest:
      storage.rmtree(os.path.join(base, name))


def _claim_number(base, clock):
  """Makes the folder of a claim without rivals; returns the number and the folder."""
  storage.makedirs(base)
  taken = [int(name) for name in names(base)] + [number for number, _ in _claims(base)]
  number = files.next_number(taken, clock)
  while True:
    own = f"{files.WRITING}{number}-{uuid.uuid4().hex[:8]}-{files.writer()}"
    folder = os.path.join(base, own)
    storage.makedirs(folder)
    rivals = sorted({own, *(name for other, name in _claims(base) if other == number)})
    # The listing comes first: a rival publishes its export before it gives up its claim.
    if rivals == [own] and not storage.exists(os.path.join(base, str(number))):
      return number, folder
    storage.rmtree(folder)
    # Rivals that have seen each other continue with different numbers.
    number += 1 + rivals.index(own)


def _claims(base):
  """Returns (number, name of the folder) of the claims in a folder."""
  found = [
    (name.removeprefix(files.WRITING).partition("-")[0], name)
    for name in listed(base)
    if name.startswith(files.WRITING)
  ]
  return [(int(number), name) for number, name in found if _is_number(number)]


def _is_number(name):
  return name.isascii() and name.isdigit()  # isdigit alone accepts "²" too, and int refuses it.
