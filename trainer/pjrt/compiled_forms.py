"""Compiled forms of programs in a folder, one file each.

    forms = CompiledForms("out/compiled")
    form, why = forms.find(digest, connected.key)  # None, and the reason
    forms.add(digest, connected.key, executable.serialize())

A file <key>.compiled is one line of JSON and then the form. The line has the digest of the program,
the form's other dependencies (see `devices.Devices.key`), and the form's checksum. A file appears
completely or not at all, and several processes may write to one folder.

A compiled form is machine code: use a folder only if you trust its author.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import socket
import threading
from collections.abc import Iterator, Mapping

from trainer import errors
from trainer.io import json_form

AUTO = "auto"  # the folder of the user's own runs
CACHE_BYTES = 4 * 2**30  # the most that it takes

_LINE = {"program": str, "key": dict[str, str], "sha256": str}
_REMEDY = "remove it; the next run compiles the program again"


class CompiledForms:
  """The compiled forms of a folder.

  Args:
    folder: need not exist yet.
    limit_bytes: if the files exceed it, the oldest by last use go; None for no limit.
  """

  def __init__(self, folder: str | os.PathLike, limit_bytes: int | None = None) -> None:
    self.folder = pathlib.Path(folder)
    self._limit_bytes = limit_bytes

  def has(self, program: str, key: Mapping[str, str]) -> bool:
    """Returns whether there is a form of a program; the form may be damaged."""
    return self._path(program, key).exists()

  def find(self, program: str, key: Mapping[str, str]) -> tuple[bytes | None, str]:
    """Looks for the form of a program.

    Args:
      program: the program's digest.
      key: see `devices.Devices.key`.

    Returns:
      (form, why): the form, or None and why there is no usable form.

    Raises:
      FileDamagedError: the form is damaged.
    """
    path = self._path(program, key)
    try:
      content = path.read_bytes()
    except FileNotFoundError:
      return None, self._missing(program, key)
    except OSError as error:
      raise _damaged(path, error.strerror) from error
    line, _, form = content.partition(b"\n")
    record = _record(line, path)
    if (record["program"], record["key"]) != (program, dict(key)):
      raise _damaged(path, "it is of another program")
    if record["sha256"] != digest(form):
      raise _damaged(path, "its content does not have its checksum")
    if self._limit_bytes is not None:
      with contextlib.suppress(OSError):  # another process may have removed it meanwhile
        os.utime(path)
    return form, ""

  def add(self, program: str, key: Mapping[str, str], form: bytes) -> None:
    """Writes the form of a program, and replaces an existing one.

    Raises:
      OutputError: it cannot write the form.
    """
    path = self._path(program, key)
    record = {"program": program, "key": dict(key), "sha256": digest(form)}
    line = json.dumps(record, sort_keys=True).encode()
    # Of two writers, also on two machines, each has a file of its own; the later one stays.
    writer = f"{socket.gethostname()}-{os.getpid()}-{threading.get_ident()}"
    aside = path.with_name(f"{path.name}.writing-{writer}")
    try:
      path.parent.mkdir(parents=True, exist_ok=True)
      aside.write_bytes(line + b"\n" + form)
      aside.replace(path)
    except OSError as error:
      with contextlib.suppress(OSError):  # a full disk leaves a part of the file
        aside.unlink()
      raise errors.OutputError(f"Cannot write {path}: {error.strerror}.") from error
    if self._limit_bytes is not None:
      self._keep_newest(self._limit_bytes)

  def _keep_newest(self, room):
    """Removes files, the oldest by last use first, until the rest fits."""
    found = []
    for path in self.folder.glob("*.compiled"):
      with contextlib.suppress(FileNotFoundError):  # another process removes them too
        found.append((path.stat(), path))
    for status, path in sorted(found, key=lambda each: -each[0].st_mtime_ns):
      room -= status.st_size
      if room < 0:
        path.unlink(missing_ok=True)

  def _path(self, program, key):
    text = json.dumps([dict(key), program], sort_keys=True)
    return self.folder / f"{digest(text.encode())[:16]}.compiled"

  def _missing(self, program, key):
    """Returns why there is no form: no form of the program, or the nearest form's differences."""
    others = list(self._records())
    if not others:
      return "the folder has no compiled form"
    keys = [record["key"] for record in others if record["program"] == program]
    if not keys:
      return "the folder has compiled forms of other programs"
    nearest = min((_differences(each, key) for each in keys), key=len)
    return "the compiled form is for another " + " and ".join(nearest)

  def _records(self) -> Iterator[dict]:
    for path in sorted(self.folder.glob("*.compiled")):
      try:
        with path.open("rb") as file:
          yield _record(file.readline(2**20).rstrip(b"\n"), path)
      except (OSError, errors.FileDamagedError):
        continue  # It is no form of this program, and the search is only for a hint.


def in_folder(name: str) -> CompiledForms:
  """Returns the compiled forms of a folder.

  Args:
    name: the folder's name; AUTO for the user's own: "compiled" in the folder OCTET_CACHE, or in
      ~/.cache/octet.
  """
  if name != AUTO:
    return CompiledForms(name)
  cache = os.environ.get("OCTET_CACHE") or os.path.expanduser("~/.cache/octet")
  return CompiledForms(os.path.join(cache, "compiled"), CACHE_BYTES)


def digest(content: bytes) -> str:
  """Returns the SHA-256 of a content."""
  return hashlib.sha256(content).hexdigest()


def _record(line, path):
  return json_form.parse(line, _LINE, str(path), _REMEDY)


def _damaged(path, why):
  return errors.FileDamagedError(f"{path} is damaged ({why}): {_REMEDY}.")


def _differences(theirs, key):
  return [
    name
    if len(str(theirs.get(name)) + str(key.get(name))) > 60
    else f"{name} ({theirs.get(name)}, here {key.get(name)})"
    for name in sorted({*theirs, *key})
    if theirs.get(name) != key.get(name)
  ]
