"""A process that imports what takes seconds once, and answers questions as long as this one runs.

    process = KeptProcess([sys.executable, "-m", "trainer.outputs.check_saved_model"], environment)
    answer = process.ask({"path": "out/export/1"})

The program reads JSON objects, one a line, from the socket that is its standard input, and writes
one line for each. It ends when the other side closes the socket, which happens even if a SIGKILL
ends this process.
"""

import atexit
import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.cli import json_lines, processes

_EXIT_SECS = 10.0
_LAST_LINES = 3  # of what the program printed, in a message


class EndedError(Exception):
  """The process gave no answer; the message is "died of SIGKILL: <its last lines>"."""


class KeptProcess:
  """Starts the process, which ends at the latest with this one.

  Args:
    command: the words of the command.
    environment: all its variables.
    timeout_seconds: the longest wait for an answer; None for no limit.
  """

  def __init__(
    self,
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout_seconds: float | None = None,
  ) -> None:
    self._owner = os.getpid()
    self._timeout_seconds = timeout_seconds
    self._printed = tempfile.TemporaryFile("w+")  # noqa: SIM115  open as long as the process runs
    ours, theirs = socket.socketpair()
    ours.settimeout(timeout_seconds)
    self._connection = json_lines.Connection(ours)
    with theirs:
      self._process = subprocess.Popen(
        command, stdin=theirs.fileno(), stdout=self._printed, stderr=self._printed, env=environment
      )
    atexit.register(self.end)

  @property
  def pid(self) -> int:
    """The process's ID."""
    return self._process.pid

  def is_alive(self) -> bool:
    """Whether the process can be asked."""
    # A fork inherits this object, but the socket belongs to the fork's parent.
    return self._owner == os.getpid() and self._process.poll() is None

  def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
    """Sends a question; returns the answer.

    Raises:
      EndedError: the process has ended, or did not answer in time and was killed.
    """
    try:
      self._connection.send(question)
      while (answers := self._connection.receive()) == []:
        pass
    except TimeoutError:
      self.end()
      raise EndedError(f"gave no answer for {self._timeout_seconds:g} s") from None
    except OSError:  # the process ended
      answers = None
    except BaseException:  # KeyboardInterrupt: the next question must not get this one's answer
      self.end()
      raise
    if answers:
      return answers[0]
    # A process closes its socket before it has ended. A kill would hide how it ended.
    with contextlib.suppress(subprocess.TimeoutExpired):
      self._process.wait(_EXIT_SECS)
    self.end()
    self._printed.seek(0)
    last = " ".join(self._printed.read().strip().splitlines()[-_LAST_LINES:])
    raise EndedError(f"{processes.how_it_ended(self._process.returncode)}: {last}")

  def end(self) -> None:
    """Kills the process, if it still runs."""
    if self._owner == os.getpid():
      atexit.unregister(self.end)
      self._connection.close()
      self._process.kill()
      self._process.wait()
