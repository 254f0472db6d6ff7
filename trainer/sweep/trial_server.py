"""A server process that imports the modules of all trials once, and forks itself for each trial.

    python -m trainer.sweep.trial_server SOCKET fork|spawn trainer.main

`Starter` starts this process and talks to it; nobody starts it by hand. A forked trial finds
TensorFlow and the modules of its gin files imported. Otherwise it runs as `python -m trainer.main`
does.

A fork is safe only while this process has one thread and has not used TensorFlow's runtime. A fork
copies only the thread that calls it, so a lock that another thread holds would stay locked for
ever. With OPENBLAS_NUM_THREADS=1, imports alone start neither threads nor devices. The server
checks both conditions before each fork. If one does not hold, it starts the trial as a new process
(spawn), and the log says so.

Trials end when this process ends, and this process ends when its parent ends, even by SIGKILL
(Linux).
"""

import fcntl
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from trainer import errors
from trainer.cli import command, json_lines, processes


class Starter:
  """Starts the server process and sends it requests.

  Args:
    how: "fork" or "spawn".
    log: file for the output of the server process.
    module: the module that a trial runs.

  Attributes:
    ended: name → exit code of ended trials; -n if signal n ended it. The caller removes the
      entries.
  """

  def __init__(self, how: str, log: str, module: str = "trainer.main") -> None:
    ours, theirs = socket.socketpair()
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with open(log, "ab") as file, theirs:
      self._process = subprocess.Popen(
        [sys.executable, "-m", "trainer.sweep.trial_server", str(theirs.fileno()), how, module],
        pass_fds=[theirs.fileno()],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=file,
        stderr=file,
        start_new_session=True,  # Ctrl-C in the terminal goes to the sweep alone.
      )
    self._log = log
    self._server = json_lines.Connection(ours)
    self._selector = selectors.DefaultSelector()
    self._selector.register(self._server, selectors.EVENT_READ)
    self._checked: list[Any] | None = None
    self.ended: dict[str, int] = {}

  def check(
    self, gin_files: Sequence[str], rows: Sequence[Sequence[str]], modules: Sequence[str] = (".",)
  ) -> str | None:
    """Loads lists of bindings in the server process, and so imports their modules there.

    Args:
      gin_files: of the experiment.
      rows: lists of bindings; each is loaded after the files.
      modules: modules that they may import and name, see `trainer.config.trust`.

    Returns:
      The message of the first error, or None.

    Raises:
      OutputError: the server process has ended.
    """
    self._server.send({"check": [list(gin_files), [list(row) for row in rows], list(modules)]})
    self._checked = None
    while self._checked is None:
      self.wait(None)
    return self._checked[0]

  def start(
    self, name: str, arguments: Sequence[str], log: str, lock: str, slot: Mapping[str, Any]
  ) -> None:
    """Starts a trial.

    Args:
      name: identifies the trial.
      arguments: flags of the module.
      log: file to append its output to.
      lock: file that its process keeps locked. If another process has the lock, it waits.
      slot: the trial's share of the machine, see `machine.slots`.
    """
    self._server.send(
      {"start": {"name": name, "arguments": arguments, "log": log, "lock": lock, **slot}}
    )

  def signal(self, name: str, number: int) -> None:
    """Sends a signal to a trial; does nothing if it has ended."""
    self._server.send({"signal": [name, int(number)]})

  def wait(self, seconds: float | None) -> None:
    """Waits for messages of the server process and updates `ended`.

    Args:
      seconds: the longest wait; None for no limit.

    Raises:
      OutputError: the server process has ended.
    """
    messages = _received(self._server) if self._selector.select(seconds) else []
    for message in messages or ():
      if "ended" in message:
        name, code = message["ended"]
        self.ended[name] = code
      else:
        self._checked = message["checked"]
    if messages is None:
      code = self._process.wait()
      with open(self._log, encoding="utf-8", errors="replace") as file:
        last = "\n".join(file.read().splitlines()[-15:])
      raise errors.OutputError(
        f"The process that starts trials has ended (exit code {code}); the "
        f"same command continues the sweep.\n{last}"
      )

  def close(self) -> None:
    """Kills the server process, and with it all trials."""
    self._selector.close()
    self._server.close()
    self._process.kill()
    self._process.wait()


def _received(connection):
  """Returns the new messages; None if the other process has ended."""
  try:
    return connection.receive()
  except ConnectionResetError:
    return None


# -------------------------------------------------------------------- the server process


def _serve(connection, how, module):
  """Answers requests until the other end closes."""
  sweep = json_lines.Connection(connection)
  # When a child ends, SIGCHLD writes a byte to this pipe and wakes the selector.
  reader, writer = os.pipe()
  os.set_blocking(reader, False)
  os.set_blocking(writer, False)
  signal.signal(signal.SIGCHLD, lambda *_: None)
  signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  selector = selectors.DefaultSelector()
  selector.register(sweep, selectors.EVENT_READ)
  selector.register(reader, selectors.EVENT_READ)
  running = {}  # pid: name
  messages = []
  while messages is not None:
    ready = [key.fileobj for key, _ in selector.select()]
    if reader in ready:
      os.read(reader, 4096)
      for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
          sweep.send({"ended": [running.pop(pid), os.waitstatus_to_exitcode(status)]})
    messages = _received(sweep) if sweep in ready else []
    for message in messages or ():
      if "check" in message:
        sweep.send({"checked": [_check(*message["check"])]})
      elif "signal" in message:
        name, number = message["signal"]
        for pid, known in running.items():
          if known == name:
            os.kill(pid, number)
      else:
        running[_start(message["start"], how, module)] = message["start"]["name"]


def _check(gin_files, rows, modules):
  """Loads each row after the gin files, and so imports their modules for all later trials.

  Returns the message of the first error, or None.
  """
  from trainer import config
  from trainer.sweep import binding_targets

  try:
    binding_targets.check(gin_files, rows, modules)
  except errors.OctetError as error:
    return command.message(error)
  except Exception:
    return traceback.format_exc()
  finally:
    config.clear()
  return None


def _start(request, how, module):
  """Starts a trial; returns its process ID."""
  forked = how == "fork"
  if forked and (reason := _why_not_fork()):
    print(f"Starting {request['name']} in a new process: {reason}", flush=True)
    forked = False
  own = os.getpid()
  # Otherwise the child has a copy of the text in the buffers and writes it a second time.
  sys.stdout.flush()
  sys.stderr.flush()
  pid = os.fork()
  if pid:
    return pid
  code = 1
  try:
    _prepare(request, own)
    if not forked:
      os.execv(sys.executable, [sys.executable, "-m", module, *request["arguments"]])
    code = _run(module, request["arguments"])
  except BaseException:
    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    # The child must never return into the server's loop.
    os._exit(code)


def _why_not_fork():
  """Returns why this process must not fork, or ""."""
  threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
  if threads != 1:
    return (
      f"importing its modules left {threads} threads running"
      if threads
      else "this system does not tell how many threads there are"
    )
  if "tensorflow" in sys.modules:
    from trainer.internals import tensorflow_internals

    if tensorflow_internals.has_started():
      return "importing its modules has used TensorFlow"
  return ""


def _prepare(request, parent):
  """Sets up a new child process: its session, output, lock and share of the machine."""
  os.setsid()  # A session of its own: Ctrl-C in the terminal goes to the sweep alone.
  processes.end_with_parent(parent)
  signal.set_wakeup_fd(-1)
  signal.signal(signal.SIGCHLD, signal.SIG_DFL)
  log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
  for descriptor in (1, 2):
    os.dup2(log, descriptor)
  lock = os.open(request["lock"], os.O_WRONLY | os.O_CREAT, 0o666)
  # Held until the process ends. A trial of a killed sweep may still be saving.
  fcntl.flock(lock, fcntl.LOCK_EX)
  os.set_inheritable(lock, True)
  if request["cores"] and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, request["cores"])
  os.environ.pop("OPENBLAS_NUM_THREADS", None)
  os.environ.update(request["environment"])


def _run(module, arguments):
  """Runs a module as `python -m` does; returns the exit code."""
  sys.argv = [module, *arguments]
  try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
  except SystemExit as error:
    if error.code is None or isinstance(error.code, int):
      return error.code or 0
    print(error.code, file=sys.stderr)
    return 1
  return 0


def main() -> None:
  """Runs the server process."""
  descriptor, how, module = int(sys.argv[1]), *sys.argv[2:]
  signal.signal(signal.SIGTERM, signal.SIG_DFL)
  connection = socket.socket(fileno=descriptor)
  connection.set_inheritable(False)
  processes.end_with_parent(os.getppid())
  # If the parent ended before the line above, the other end of the socket is closed, and _serve
  # returns at once.
  _serve(connection, how, module)


if __name__ == "__main__":
  main()
