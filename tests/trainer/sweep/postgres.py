"""A PostgreSQL server of the tests' own, on a port of its own, that ends with them."""

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import socket
import subprocess


class UnavailableError(Exception):
  """It cannot be started; the text says why."""


@contextlib.contextmanager
def server(folder):
  """The address of an empty database, for as long as the context is open; UnavailableError if there
  is no PostgreSQL to start.

  Args:
    folder: an empty folder, which the server's user must be able to reach.
  """
  programs = sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [
    os.path.dirname(found) for found in [shutil.which("initdb")] if found
  ]
  if not programs:
    raise UnavailableError("PostgreSQL is not installed (Debian: postgresql)")
  try:
    import psycopg  # noqa: F401
  except ImportError:
    raise UnavailableError("the Python package psycopg is not installed") from None
  folder = pathlib.Path(folder)
  identity = {}
  if os.getuid() == 0:  # as whom it does not run
    try:
      user = pwd.getpwnam("postgres")
    except KeyError:
      raise UnavailableError("tests run as root, and there is no user postgres") from None
    os.chown(folder, user.pw_uid, user.pw_gid)
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
  port = _free_port()

  def call(name, *arguments):
    done = subprocess.run(
      [f"{programs[-1]}/{name}", *arguments],
      cwd=folder,
      capture_output=True,
      text=True,
      timeout=120,
      env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
      **identity,
    )
    if done.returncode:
      raise UnavailableError(f"{name} failed: {(done.stderr or done.stdout)[-500:]}")

  data = str(folder / "data")
  call("initdb", "-D", data, "-U", "sweep", "--auth=trust", "--encoding=UTF8", "--no-sync")
  options = (
    f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
  )
  call("pg_ctl", "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
  try:
    yield f"postgresql://sweep@127.0.0.1:{port}/postgres"
  finally:
    call("pg_ctl", "-D", data, "-m", "immediate", "stop")


def _free_port():
  with socket.socket() as found:
    found.bind(("127.0.0.1", 0))
    return found.getsockname()[1]
