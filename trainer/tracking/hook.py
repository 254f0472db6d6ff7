"""The part of a tracking hook that does not depend on the tracker."""

import functools
from collections.abc import Mapping
from typing import Any

from trainer.hooks.estimator_protocol import Estimator
from trainer.loop import preemption
from trainer.tracking import run_files, sender, trackers

# Seconds that the end of a training waits for a working tracker. After a SIGTERM the machine goes
# away soon, and there is less time.
_PATIENCE, _IN_A_HURRY = 60.0, 2.0

# After this loop, operative_config.gin exists: another hook writes it after the first loop, and may
# run after this hook.
_CONFIGURED = 2


class TrackingHook:
  """Starts a thread that sends the run to a tracker, and waits for it a little at the end.

  The hook reads no variables, and the loop never waits for it.
  """

  reads_variables = False

  # Dataclasses that derive from this class have these settings.
  artifacts: Any = run_files.ALL
  seconds: float = 5.0

  _sender: sender.Sender | None = None
  _tracker: Any = None
  _loops = 0

  def make_tracker(self, model_dir: str) -> trackers.Tracker:
    """Returns the tracker of a run; each hook has its own."""
    raise NotImplementedError

  def begin(self, estimator: Estimator) -> None:
    """Starts the thread."""
    if estimator.device.is_chief:
      self._begin(estimator.model_dir, estimator.latest_step() or 0)

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Estimator) -> None:
    """Sends the parameters as soon as gin knows which ones took effect."""
    self._loops += 1
    if self._sender and self._loops == _CONFIGURED:
      self._send_configuration(estimator.model_dir)

  def end(self, step: int, estimator: Estimator) -> None:
    """Sends the missing parameters, and the end of the training."""
    if self._sender:
      if self._loops < _CONFIGURED:
        self._send_configuration(estimator.model_dir)
      self._close(trackers.FINISHED, _PATIENCE)

  def finished(self, estimator: Estimator) -> None:
    """Sends the last evaluation and the files, after the last export."""
    if not estimator.device.is_chief:
      return
    # The training was complete, and this process has only exported. Somebody may have killed the
    # earlier process after its last step, before it sent the parameters.
    if not self._sender:
      self._begin(estimator.model_dir, None)
      self._send_configuration(estimator.model_dir)
    self._send_files(estimator.model_dir, self.artifacts)
    self._close(trackers.FINISHED, _PATIENCE)
    self._stop()

  def failed(self, error: BaseException, estimator: Estimator) -> None:
    """Sends that the training has failed, or that somebody ended it."""
    if self._sender:
      was_ended = isinstance(error, preemption.Preempted | KeyboardInterrupt)
      self._close(trackers.KILLED if was_ended else trackers.FAILED, _IN_A_HURRY)
      self._stop()

  def _begin(self, model_dir, step):
    self._stop()
    self._loops = 0
    self._tracker = self.make_tracker(model_dir)
    self._sender = sender.Sender(self._tracker, model_dir, step, self.seconds)
    self._sender.start()

  def _send_configuration(self, model_dir):
    self._sender.ask(lambda: self._tracker.set_parameters(run_files.parameters(model_dir)))
    if run_files.CONFIG in self.artifacts:
      self._send_files(model_dir, [run_files.CONFIG])

  def _send_files(self, model_dir, wanted):
    self._sender.ask(functools.partial(run_files.send, self._tracker, model_dir, wanted))

  def _close(self, status, patience):
    self._sender.ask(lambda: self._tracker.close(status))
    self._sender.wait(patience)

  def _stop(self):
    if self._sender:
      self._sender.stop()
      self._sender = None
