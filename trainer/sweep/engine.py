"""The loop of a sweep's process: claims trials, starts them, follows them, records their results.

    engine.Engine(study, starter, slots, sweep_dir, common_arguments, count).run()

The loop runs in one thread. It writes each decision to the database before it acts on it, so the
process may be killed at any point.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from trainer import errors
from trainer.sweep import trial as trial_lib

if TYPE_CHECKING:
  from trainer.sweep import study as study_lib
  from trainer.sweep import trial_server

# Seconds between two looks at the metrics of the trials, and between two requests for more work.
_LOOK_SECONDS = 0.25
_IDLE_SECONDS = 2.0


class SweepInterrupted(Exception):
  """A signal ended the sweep, and its trials have saved.

  Attributes:
    number: of the signal.
  """

  def __init__(self, number: int) -> None:
    super().__init__(signal.Signals(number).name)
    self.number = number


class Engine:
  """Runs trials of a sweep in this process's workers.

  Args:
    study: the trials.
    starter: starts the processes of trials.
    slots: each worker's share of the machine, see `machine.slots`; one trial runs in each.
    sweep_dir: the sweep's folder.
    common: flags of trainer.main for all trials.
    count: number of trials in the sweep.
    lease_seconds: see `leases.Leases`.
    clock: returns seconds.
  """

  def __init__(
    self,
    study: "study_lib.Study",
    starter: "trial_server.Starter",
    slots: Sequence[Mapping[str, Any]],
    sweep_dir: str,
    common: Sequence[str],
    count: int,
    lease_seconds: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
  ) -> None:
    self._study = study
    self._starter = starter
    self._slots = slots
    self._sweep_dir = sweep_dir
    self._common = common
    self._count = count
    self._beat_seconds = lease_seconds / 6  # several beats may be late before the lease ends
    self._clock = clock
    self._running: dict[int, trial_lib.Run] = {}  # by slot
    self._signals: list[int] = []
    self._last_beat = self._last_claim = float("-inf")

  def run(self) -> None:
    """Works until all trials are finished, also those of other processes.

    If another process dies, this one takes over its trials.

    Raises:
      SweepInterrupted: SIGINT or SIGTERM came; the trials have saved and can be continued. After a
        second signal, they are killed without saving.
      MetricMissingError: no evaluation reports the metric of the sweep.
    """
    with self._listening():
      try:
        while self._step():
          pass
      except BaseException:
        self._stop_trials()
        raise
      if self._signals:
        self._stop_trials()
        raise SweepInterrupted(self._signals[0])

  def _step(self):
    """Does the work that is due; returns whether the sweep goes on."""
    if self._signals:
      return False
    self._beat()
    free = [slot for slot in range(len(self._slots)) if slot not in self._running]
    if free and self._clock() - self._last_claim >= _IDLE_SECONDS:
      self._take_trials(free)
      if not self._running and not self._study.count_unfinished(self._count):
        return False
    self._starter.wait(_LOOK_SECONDS)
    for slot, run in list(self._running.items()):
      if run.follow():
        logging.info(
          "%s is ended early: sweep.pruner = %r judges its evaluations by those of the others",
          run.name,
          run.settings.pruner,
        )
        self._starter.signal(run.name, signal.SIGTERM)
      if run.name in self._starter.ended:
        self._finish(slot, run, self._starter.ended.pop(run.name))
    return True

  def _take_trials(self, free):
    self._last_claim = self._clock()
    if not self._study.make_trials(self._count):
      return
    for slot in free:
      trial = self._study.claim(self._count)
      if trial is None:
        return
      self._start(slot, trial_lib.Run(trial, self._study.settings, self._sweep_dir, self._common))

  def _start(self, slot, run):
    if run.pruned:  # a process decided to prune it, and was killed before it could record that
      self._tell(run, "pruned", None)
      return
    again = "bindings" in run.trial.user_attrs
    run.prepare()
    logging.info("%s %s: %s", run.name, "goes on" if again else "starts", run.command)
    self._starter.start(run.name, run.arguments, run.log, run.lock, self._slots[slot])
    self._running[slot] = run

  def _finish(self, slot, run, code):
    del self._running[slot]
    run.follow()  # the metrics that it wrote since the last look
    state, values = run.outcome(code)
    self._last_claim = float("-inf")  # the slot is free: claim a trial at once
    if state == "interrupted":  # somebody else sent the trial a signal
      logging.info("%s was interrupted, and goes on", run.name)
      self._study.leases.release(run.number)
      return
    self._tell(run, state, values)

  def _tell(self, run, state, values):
    self._study.finish(run.trial, state, values)
    if state == "fail":
      logging.warning("%s failed. %s", run.name, run.trial.user_attrs["error"])
    elif state == "complete":
      said = ", ".join(
        f"{name} {value:.5g}"
        for name, value in zip(self._study.settings.metrics, values, strict=True)
      )
      logging.info(
        "%s is complete: %s (%d of %d trials to go)",
        run.name,
        said,
        self._study.count_unfinished(self._count),
        self._count,
      )

  def _beat(self):
    """Renews the leases of this process.

    If another process has taken a trial meanwhile, because no beat reached it, the trial's process
    here is killed.
    """
    if self._clock() - self._last_beat < self._beat_seconds:
      return
    self._last_beat = self._clock()
    kept = self._study.leases.beat()
    for slot, run in list(self._running.items()):
      if run.number not in kept:
        logging.warning(
          "%s was taken by another process, which did not hear of this one.", run.name
        )
        self._starter.signal(run.name, signal.SIGKILL)
        del self._running[slot]

  def _stop_trials(self):
    """Makes all trials save and end, and releases them. After a second signal they are killed."""
    names = [run.name for run in self._running.values()]
    for name in names:
      logging.info("%s: saving", name)
      self._starter.signal(name, signal.SIGTERM)
    killed = False
    # OutputError means that the trial server has ended, and with it all trials.
    with contextlib.suppress(errors.OutputError):
      while not self._starter.ended.keys() >= set(names):
        self._starter.wait(_LOOK_SECONDS)
        if len(self._signals) > 1 and not killed:
          killed = True
          for name in names:
            self._starter.signal(name, signal.SIGKILL)
    for run in self._running.values():
      self._study.leases.release(run.number)
    self._running.clear()

  @contextlib.contextmanager
  def _listening(self):
    """Records SIGINT and SIGTERM inside a `with` block; the loop checks for them."""
    before = {
      number: signal.signal(number, lambda number, _: self._signals.append(number))
      for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
      yield
    finally:
      for number, handler in before.items():
        signal.signal(number, handler)
