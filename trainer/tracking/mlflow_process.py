"""Asks MLflow in a process beside the training.

    mlflow_process.ask("http://127.0.0.1:5000", "steps", run="b1e9...", metric="train/loss")

MLflow's import takes a second of CPU time, and its client is Python: in a thread of the training
it would hold the GIL, and the training's steps would wait. The process has a lower priority than
the training. A Python process starts it at the first question and keeps it. When its parent ends,
even by SIGKILL, the socket to the parent closes, and this process ends after its answer.
"""

import contextlib
import importlib
import os
import signal
import socket
import sys
import threading
from typing import Any

from trainer import errors
from trainer.cli import json_lines, kept_process, processes
from trainer.tracking import mlflow_client, trackers

# With few cores, the training comes first. With 10, MLflow's import took 40 s beside four processes
# on two cores.
_NICE = 5

_lock = threading.Lock()
_process: kept_process.KeptProcess | None = None
_settings: dict[str, str] = {}  # MLflow's environment variables at the start of the process


def ask(uri: str, method: str, **arguments: Any) -> Any:
  """Calls a method of `mlflow_client.Client` in the other process, and waits for its result.

  Args:
    uri: of the server or store; "" for MLflow's own default.
    method: the method's name.
    **arguments: of the method; JSON can hold them.

  Returns:
    The result, as JSON holds it.

  Raises:
    UnreachableError: see `trackers`; or the process has ended. The next call starts another.
    RefusedError: see `trackers`.
  """
  with _lock:
    try:
      answer = _running().ask({"uri": uri, "method": method, "arguments": arguments})
    except kept_process.EndedError as error:
      raise trackers.UnreachableError(f"the process that calls MLflow {error}") from error
  if "refused" in answer:
    raise trackers.RefusedError(answer["refused"])
  if "failed" in answer:
    raise trackers.UnreachableError(answer["failed"])
  return answer["result"]


def prepare() -> None:
  """Starts the process, and does not wait for it."""
  with _lock:
    _running()


def _running():
  """Returns the process; starts it if it does not run."""
  global _process, _settings
  settings = {name: text for name, text in os.environ.items() if name.startswith("MLFLOW_")}
  # A user of a notebook may set MLFLOW_TRACKING_TOKEN after the message about refused access.
  if _process is not None and _settings != settings:
    _process.end()
  if _process is None or not _process.is_alive():
    _settings = settings
    command = [sys.executable, "-m", "trainer.tracking.mlflow_process"]
    _process = kept_process.KeptProcess(command, processes.with_octet())
  return _process


# -------------------------------------------------------------------- the other process


def _answer(clients, question):
  uri = question["uri"]
  try:
    if uri not in clients:
      clients[uri] = mlflow_client.Client(uri)
    return {"result": getattr(clients[uri], question["method"])(**question["arguments"])}
  except trackers.RefusedError as error:
    return {"refused": str(error)}
  except trackers.UnreachableError as error:
    return {"failed": str(error)}
  # MLflow's packages may raise anything, and the parent waits for an answer.
  except Exception as error:
    return {"failed": f"{type(error).__name__}: {errors.first_line(error)}"}


def main() -> None:
  """Answers questions until the parent ends."""
  # Ctrl-C in a terminal and a machine's shutdown signal each process. This process must outlive its
  # parent, which still sends how the training ended.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  signal.signal(signal.SIGTERM, signal.SIG_IGN)
  os.nice(_NICE)
  # The import takes a second: start it before the first question. If it fails, the first question
  # gets the error.
  with contextlib.suppress(Exception):
    importlib.import_module("mlflow")
  parent = json_lines.Connection(socket.socket(fileno=os.dup(0)))
  clients: dict[str, mlflow_client.Client] = {}
  while (questions := parent.receive()) is not None:
    for question in questions:
      parent.send(_answer(clients, question))


if __name__ == "__main__":
  main()
