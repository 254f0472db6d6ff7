"""The process that starts trials: it imports once what all of them need, and forks for each.

    python -m trainer.sweep.trial_server SOCKET fork|spawn trainer.main  # started by `Starter`,
                                                                         # never by hand

A trial that is forked finds TensorFlow and the modules of its gin files imported, and is else what
`python -m trainer.main` is. That is safe for as long as this process has one thread (a fork takes
along only the thread that calls it, and locks that others hold stay locked) and TensorFlow's
runtime has not been used: imports alone start neither threads nor devices, with
OPENBLAS_NUM_THREADS=1. Both are looked at before each fork, and where one does not hold, the trial
is started afresh (spawn), with a word in the log.

A trial ends with this process, and this process with the one that started it, also where that was
killed with SIGKILL (Linux).
"""

import fcntl
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import traceback

from trainer import command, errors, processes


class Starter:
  """The other end: the sweep's.

  Args:
    how: "fork" or "spawn".
    log: the file for what the process says.
    module: what a trial runs.

  Attributes:
    ended: dict of name → exit code of the trials that have ended (negative: by a signal) and were
      not asked for yet.
  """

  def __init__(self, how, log, module="trainer.main"):
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
        start_new_session=True,
      )
    self._log = log
    self._lines = _Lines(ours)
    self._checked = None
    self.ended = {}

  def check(self, gin_files, rows):
    """Has the rows, lists of bindings, loaded each after the gin files, in the process that has
    what they name imported.

    Returns:
      The message of the first mistake, or None.
    """
    self._lines.send({"check": [list(gin_files), [list(row) for row in rows]]})
    self._checked = None
    while self._checked is None:
      self.wait(None)
    return self._checked[0]

  def start(self, name, arguments, log, lock, slot):
    """Starts `python -m <module>` with arguments.

    Args:
      name: a string to know it by.
      arguments: list of flags.
      log: the file that gets what it says, after what is there.
      lock: a file that it holds locked for as long as it lives. It waits if another one does.
      slot: what it gets of the machine, see machine.slots.
    """
    self._lines.send(
      {"start": {"name": name, "arguments": arguments, "log": log, "lock": lock, **slot}}
    )

  def signal(self, name, number):
    """Sends a signal to a trial; nothing happens if it has ended."""
    self._lines.send({"signal": [name, int(number)]})

  def wait(self, seconds):
    """Takes in what the process has to tell: returns after the first news, or after so many
    seconds; None for no limit.
    """
    for message in self._lines.receive(seconds):
      if "ended" in message:
        name, code = message["ended"]
        self.ended[name] = code
      else:
        self._checked = message["checked"]
    if self._lines.closed:
      code = self._process.wait()
      with open(self._log, encoding="utf-8", errors="replace") as file:
        last = "\n".join(file.read().splitlines()[-15:])
      raise errors.OutputError(
        f"The process that starts trials has ended (exit code {code}); the "
        f"same command continues the sweep.\n{last}"
      )

  def close(self):
    """Ends the process, and with it what it has started."""
    self._lines.close()
    self._process.kill()
    self._process.wait()


class _Lines:
  """Messages over a socket, a line of JSON each."""

  def __init__(self, connection):
    self.connection = connection
    self._selector = selectors.DefaultSelector()
    self._selector.register(connection, selectors.EVENT_READ)
    self._rest = b""
    self.closed = False

  def send(self, message):
    try:
      self.connection.sendall(json.dumps(message).encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
      self.closed = True

  def receive(self, seconds):
    """The messages that are there or come within so many seconds; [] also if the other end was
    closed.
    """
    if self.closed or not self._selector.select(seconds):
      return []
    try:
      data = self.connection.recv(1 << 16)
    except ConnectionResetError:
      data = b""
    self.closed = not data
    *lines, self._rest = (self._rest + data).split(b"\n")
    return [json.loads(line) for line in lines]

  def close(self):
    self.closed = True
    self._selector.close()
    self.connection.close()


# -------------------------------------------------------------------- the process


def _serve(connection, how, module):
  """Does what it is told until the other end is closed."""
  lines = _Lines(connection)
  # A child that ends wakes the selector.
  reader, writer = os.pipe()
  os.set_blocking(reader, False)
  os.set_blocking(writer, False)
  signal.signal(signal.SIGCHLD, lambda *_: None)
  signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  lines._selector.register(reader, selectors.EVENT_READ)
  running = {}  # pid: name
  while not lines.closed:
    ready = [key.fileobj for key, _ in lines._selector.select()]
    if reader in ready:
      _drain(reader)
      for pid, code in _reap():
        lines.send({"ended": [running.pop(pid), code]})
    for message in lines.receive(0) if connection in ready else []:
      if "check" in message:
        lines.send({"checked": [_check(*message["check"])]})
      elif "signal" in message:
        name, number = message["signal"]
        for pid, known in running.items():
          if known == name:
            os.kill(pid, number)
      else:
        running[_start(message["start"], how, module)] = message["start"]["name"]


def _drain(reader):
  try:
    while os.read(reader, 4096):
      continue
  except BlockingIOError:
    return


def _reap():
  """(pid, exit code) of each child that has ended."""
  found = []
  while True:
    try:
      pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
      return found
    if not pid:
      return found
    found.append((pid, os.waitstatus_to_exitcode(status)))


def _check(gin_files, rows):
  """The message of what is wrong with the first row that does not load, or None.

  The files' modules are imported from then on.
  """
  from trainer import config
  from trainer.sweep import binding_targets

  try:
    for row in rows:
      config.load(gin_files, row)
    binding_targets.check(gin_files, rows)
  except errors.OctetError as error:
    return command.message(error)
  except Exception:
    return traceback.format_exc()
  finally:
    config.clear()
  return None


def _start(request, how, module):
  """The pid of the new process."""
  forked = how == "fork"
  if forked and (reason := _why_not_fork()):
    print(f"{request['name']} is started afresh: {reason}", flush=True)
    forked = False
  own = os.getpid()
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
    os._exit(code)


def _why_not_fork():
  """Why this process cannot be forked, or ""."""
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
  """Makes a new process one of its own, with its share of the machine."""
  os.setsid()  # Ctrl-C is for the sweep
  processes.end_with_parent(parent)
  signal.set_wakeup_fd(-1)
  signal.signal(signal.SIGCHLD, signal.SIG_DFL)
  log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
  for descriptor in (1, 2):
    os.dup2(log, descriptor)
  lock = os.open(request["lock"], os.O_WRONLY | os.O_CREAT, 0o666)
  fcntl.flock(lock, fcntl.LOCK_EX)  # and never let go
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


def main():
  descriptor, how, module = int(sys.argv[1]), *sys.argv[2:]
  signal.signal(signal.SIGTERM, signal.SIG_DFL)
  connection = socket.socket(fileno=descriptor)
  connection.set_inheritable(False)
  processes.end_with_parent(os.getppid())
  # Where the sweep has ended before that was set, nobody holds the other end any more.
  _serve(connection, how, module)


if __name__ == "__main__":
  main()
