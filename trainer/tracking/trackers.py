"""The methods of a tracker, and its errors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from trainer.tracking import record as record_lib

# How a training ended, in MLflow's words.
FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"


class UnreachableError(Exception):
  """There is no server, no answer or no access. A later try may succeed."""


class RefusedError(Exception):
  """The tracker refuses these values for good."""


class Tracker(Protocol):
  """A run in a tracker. Each method may take long, and raises UnreachableError.

  Attributes:
    name: of the tracker, with its address, for messages.
    record: the record in the run's folder; known after `open`.
  """

  name: str
  record: record_lib.Record

  def open(self, kinds: Iterable[str]) -> Mapping[str, Iterable[int]]:
    """Makes the run, or finds it again.

    Args:
      kinds: of the lines of metrics.jsonl.

    Returns:
      Kind → the steps that the tracker has.
    """

  def send(self, lines: Sequence[Mapping[str, Any]]) -> None:
    """Sends lines of metrics.jsonl."""

  def set_parameters(self, parameters: Mapping[str, str]) -> None:
    """Sends the run's parameters."""

  def add_files(self, files: Mapping[str, str]) -> None:
    """Sends files or folders of this machine: name in the tracker → path."""

  def close(self, status: str) -> None:
    """Notes how the training ended; a later process may go on with it."""


def values_of(line: Mapping[str, Any]) -> dict[str, float]:
  """Returns the metrics of a line of metrics.jsonl: "kind/name" → value, NaN for None."""
  return {
    f"{line['kind']}/{name}": float("nan") if value is None else float(value)
    for name, value in line.items()
    if name not in ("step", "time", "kind")
  }
