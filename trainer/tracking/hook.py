"""The part of a tracking hook that does not depend on the tracker."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainer.hooks.estimator_protocol import Estimator
from trainer.loop import preemption
from trainer.tracking import record as record_lib
from trainer.tracking import run_files, sender

# How a training ended, in MLflow's words.
FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"

# Seconds that the end of a training waits for a working tracker. After a SIGTERM the machine goes
# away soon, and there is less time.
_PATIENCE, _IN_A_HURRY = 60.0, 2.0


class TrackingHook:
  """Starts a thread that sends the run to a tracker, and waits for it a little at the end.

  The hook reads no variables, and the loop never waits for it. Each tracker has a class with the
  methods below; they may take long, and raise what the tracker's library raises.

  Attributes:
    name: of the tracker, with its address, for messages.
    record: the record in the run's folder; known after `open`.
    has_warned: whether a warning has told that the tracker lacks something.
  """

  reads_variables = False

  # Dataclasses that derive from this class have these settings.
  artifacts: Any = run_files.ALL
  seconds: float = 5.0

  name = ""
  record: record_lib.Record
  has_warned = False
  _sender: sender.Sender | None = None

  def open(self, model_dir: str, kinds: Iterable[str]) -> Mapping[str, Iterable[int]]:
    """Makes the run of a folder, or finds it again.

    Args:
      model_dir: the folder of the run.
      kinds: of the lines of metrics.jsonl.

    Returns:
      Kind → the steps that the tracker has.
    """
    raise NotImplementedError

  def send(self, lines: Sequence[Mapping[str, Any]]) -> None:
    """Sends lines of metrics.jsonl; a metric is "eval_<name>/loss" there."""
    raise NotImplementedError

  def set_parameters(self, parameters: Mapping[str, str]) -> None:
    """Sends the run's parameters, and its origin."""
    raise NotImplementedError

  def add_files(self, files: Mapping[str, str]) -> None:
    """Sends files or folders of this machine: name in the tracker → path."""
    raise NotImplementedError

  def close(self, status: str) -> None:
    """Notes how the training ended; a later process may go on with it."""
    raise NotImplementedError

  def begin(self, estimator: Estimator) -> None:
    """Starts the thread."""
    if estimator.device.is_chief:
      self.has_warned = False
      self._start(estimator.model_dir, estimator.latest_step() or 0)

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Estimator) -> None:
    """Does nothing: the thread reads metrics.jsonl."""

  def end(self, step: int, estimator: Estimator) -> None:
    """Sends the rest of the training."""
    self._finish(FINISHED, [name for name in self.artifacts if name == run_files.CONFIG], _PATIENCE)

  def finished(self, estimator: Estimator) -> None:
    """Sends the last evaluation and the files, after the last export."""
    if estimator.device.is_chief:
      self._start(estimator.model_dir, None)
      self._finish(FINISHED, self.artifacts, _PATIENCE)

  def failed(self, error: BaseException, estimator: Estimator) -> None:
    """Sends that the training has failed, or that somebody ended it."""
    was_ended = isinstance(error, preemption.Preempted | KeyboardInterrupt)
    self._finish(KILLED if was_ended else FAILED, [], _IN_A_HURRY)

  def _start(self, model_dir, step):
    self._sender = sender.Sender(self, model_dir, step, self.seconds)
    self._sender.start()

  def _finish(self, status, artifacts, patience):
    if self._sender:
      self._sender.finish(status, artifacts, patience)
      self._sender = None


def values_of(line: Mapping[str, Any]) -> dict[str, float]:
  """Returns the metrics of a line of metrics.jsonl: "kind/name" → value, NaN for None."""
  return {
    f"{line['kind']}/{name}": float("nan") if value is None else float(value)
    for name, value in line.items()
    if name not in ("step", "time", "kind")
  }
