"""Runs Python programs in forks of a process that has already imported TensorFlow.

    done = warm.run("-m", "trainer.checkpoints", "show", path)  # as subprocess.run
    process = warm.start("-c", PROGRAM, folder)  # as subprocess.Popen

The import of TensorFlow takes 3 s of CPU time. A fork has its own environment, folder, arguments,
path, streams, signals and exit code, as a process of its own; TensorFlow and Keras are there, and
nothing of Octet. Tests of what an interpreter imports, or prints meanwhile, start one themselves.
"""

import atexit
import concurrent.futures
import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import types

ROOT = pathlib.Path(__file__).parents[1]
_LARGEST_MESSAGE = 2**20

# CPU time of the forks that have ended, in seconds: os.times does not have it.
spent_seconds = 0.0


def start(*arguments, cwd=ROOT, env=None):
  """Starts `python *arguments`, with pipes for stdout and stderr; returns a Process or a Popen."""
  arguments = [str(each) for each in arguments]
  environment = dict(os.environ if env is None else env)
  if sys.platform != "linux":  # a fork with threads may hang on macOS
    pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    command = [sys.executable, *arguments]
    return subprocess.Popen(command, cwd=cwd, env=environment, text=True, **pipes)
  return Process(arguments, str(cwd), environment)


def start_with_streams(command, *, stdin, stdout, stderr, env):
  """Starts [sys.executable, *arguments] with these streams, as subprocess.Popen does.

  Args:
    command: the words.
    stdin: a descriptor.
    stdout, stderr: open files.
    env: all variables.
  """
  if sys.platform != "linux":
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env)
  streams = [stdin, stdout.fileno(), stderr.fileno()]
  return Process(command[1:], os.getcwd(), dict(env), streams)


def run(*arguments, cwd=ROOT, env=None, timeout=120):
  """Returns the CompletedProcess of `python *arguments`, with what it printed."""
  process = start(*arguments, cwd=cwd, env=env)
  output, error = process.communicate(timeout=timeout)
  return subprocess.CompletedProcess(arguments, process.returncode, output, error)


class Process:
  """What tests use of subprocess.Popen."""

  def __init__(self, arguments, folder, environment, streams=None):
    self.args = arguments
    self.returncode = None
    self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own = [control.detach()]
    if streams is None:
      (self.stdout, output), (self.stderr, error) = _pipe(), _pipe()
      streams = [os.open(os.devnull, os.O_RDONLY), output, error]
      own += streams
    request = json.dumps([arguments, folder, environment]).encode()
    socket.send_fds(_server(), [request], [*streams, own[0]])
    for each in own:
      os.close(each)
    self.pid = self._receive(60)["pid"]

  def poll(self):
    """Returns the exit code, None while the process runs."""
    if self.returncode is None and select.select([self._control], [], [], 0)[0]:
      self.wait()
    return self.returncode

  def wait(self, timeout=None):
    """Returns the exit code once the process has ended."""
    global spent_seconds
    if self.returncode is None:
      ended = self._receive(timeout)
      self.returncode = ended["code"]
      spent_seconds += ended["seconds"]
    return self.returncode

  def communicate(self, timeout=None):
    """Returns what stdout and stderr still have; ends the process at a timeout."""
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
      texts = [threads.submit(each.read) for each in (self.stdout, self.stderr)]
      try:
        self.wait(timeout)
      except subprocess.TimeoutExpired:
        self.kill()
        raise
      return tuple(text.result() for text in texts)

  def send_signal(self, number):
    """Sends a signal, if the process still runs."""
    if self.poll() is None:
      os.kill(self.pid, number)

  def kill(self):
    """Sends SIGKILL."""
    self.send_signal(signal.SIGKILL)

  def _receive(self, timeout):
    self._control.settimeout(timeout)
    try:
      message = self._control.recv(_LARGEST_MESSAGE)
    except TimeoutError:
      raise subprocess.TimeoutExpired(self.args, timeout) from None
    assert message, "the process that forks has ended"
    return json.loads(message)


def _pipe():
  reader, writer = os.pipe()
  return os.fdopen(reader), writer


@functools.cache
def _server():
  """Returns the connection to the process that forks, one for each process that runs tests."""
  connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
  descriptor = other.fileno()
  environment = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}
  command = [sys.executable, __file__, str(descriptor)]
  server = subprocess.Popen(command, env=environment, pass_fds=[descriptor])
  other.close()

  def end():
    connection.shutdown(socket.SHUT_RDWR)
    server.wait()

  atexit.register(end)
  return connection


# ------------------------------------------------------------- in the process that forks


def _serve(connection):
  """Forks for each request; returns what the fork has to run, in the fork alone."""
  gc.disable()
  importlib.import_module("tensorflow")
  importlib.import_module("keras")
  gc.freeze()  # so that no collection of a fork touches, and so copies, a million objects
  gc.enable()
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends pytest, which ends this
  signal.signal(signal.SIGCHLD, lambda *_: None)  # wakes select
  woken, wake = os.pipe()
  os.set_blocking(wake, False)
  signal.set_wakeup_fd(wake)
  controls = {}
  while True:
    ready, _, _ = select.select([connection, woken], [], [])
    if connection in ready:
      message, descriptors, _, _ = socket.recv_fds(connection, _LARGEST_MESSAGE, 4)
      if not message:
        os._exit(0)
      pid = os.fork()
      if not pid:
        signal.set_wakeup_fd(-1)
        for each in (woken, wake, connection.detach(), *controls.values()):
          os.close(each)
        return json.loads(message), descriptors
      *streams, controls[pid] = descriptors
      for each in streams:
        os.close(each)
      os.write(controls[pid], json.dumps({"pid": pid}).encode())
    if woken in ready:
      os.read(woken, 4096)
    _report_ended(controls)


def _report_ended(controls):
  while controls:
    pid, status, usage = os.wait4(-1, os.WNOHANG)
    if not pid:
      return
    code, seconds = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    with socket.socket(fileno=controls.pop(pid)) as connection:
      with contextlib.suppress(BrokenPipeError):  # a test that failed does not wait for its process
        connection.sendall(json.dumps({"code": code, "seconds": seconds}).encode())


def _run(arguments, folder, environment, descriptors):
  """Does what `python *arguments` does."""
  signal.signal(signal.SIGCHLD, signal.SIG_DFL)
  signal.signal(signal.SIGINT, signal.default_int_handler)
  *streams, control = descriptors
  os.close(control)
  for target, each in enumerate(streams):
    os.dup2(each, target)
    os.close(each)
  os.chdir(folder)
  os.environ.clear()
  os.environ.update(environment)
  random.seed()
  sys.modules["numpy"].random.seed()
  given = environment.get("PYTHONPATH", "").split(os.pathsep)
  added = [os.path.abspath(each) for each in given if each]  # as the interpreter makes them
  if arguments[0] == "-P":
    del arguments[0]
  else:
    kind = arguments[0]
    added.insert(0, {"-c": "", "-m": folder}.get(kind, os.path.dirname(os.path.abspath(kind))))
  sys.path[:] = [*added, *sys.path[1:]]
  code = _exit_code(lambda: _execute(arguments))
  threading._shutdown()  # waits for threads
  atexit._run_exitfuncs()
  for stream in (sys.stdout, sys.stderr):
    stream.flush()
  # The interpreter's own end would touch, and so copy, each object of TensorFlow's modules: 1 s.
  os._exit(code)


def _execute(arguments):
  kind, *others = arguments
  if kind == "-c":
    sys.argv = ["-c", *others[1:]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(others[0], "<string>", "exec"), vars(main))
  elif kind == "-m":
    sys.argv = others
    runpy.run_module(others[0], run_name="__main__", alter_sys=True)
  else:
    sys.argv = arguments
    runpy.run_path(kind, run_name="__main__")


def _exit_code(function):
  """Calls a function; returns what Python would leave with."""
  try:
    function()
  except SystemExit as left:
    if left.code is None or isinstance(left.code, int):
      return left.code or 0
    print(left.code, file=sys.stderr)
    return 1
  except BaseException:
    sys.excepthook(*sys.exc_info())
    return 1
  return 0


if __name__ == "__main__":
  _request, _descriptors = _serve(socket.socket(fileno=int(sys.argv[1])))
  _run(*_request, _descriptors)
