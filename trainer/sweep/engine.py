"""The loop of a sweep's process: claims trials, starts them, follows them, records their results.

    engine.Engine(study, starter, slots, sweep_dir, common_arguments, count).finish_trials()

The loop runs in one thread. It writes each decision to the database before it acts on it, so the
process may die at any point.
"""

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from trainer import errors
from trainer.sweep import optuna_parts
from trainer.sweep import trial as trial_lib

if TYPE_CHECKING:
  from trainer.sweep import study as study_lib
  from trainer.sweep import trial_server

# Seconds between two looks at the metrics of the trials, and between two requests for more work.
_LOOK_SECONDS = 0.25
_IDLE_SECONDS = 2.0

# Heartbeats in `lease_seconds`: several may be late before a process counts as dead.
_BEATS = 6


class SweepInterrupted(Exception):
  """A signal ended the sweep, and its trials have saved.

  Attributes:
    number: of the signal.
  """

  def __init__(self, number: int) -> None:
    super().__init__(signal.Signals(number).name)
    self.number = number


@dataclasses.dataclass
class Engine:
  """Runs trials of a sweep in this process's workers.

  Attributes:
    study: the trials.
    starter: starts the processes of trials.
    slots: each worker's share of the machine, see `machine.slots`; one trial runs in each.
    sweep_dir: the sweep's folder.
    common: flags of trainer.main for all trials.
    count: number of trials in the sweep.
    lease_seconds: see `study.Study.open`; this process gives heartbeats several times in it.
    clock: returns seconds.
  """

  study: "study_lib.Study"
  starter: "trial_server.Starter"
  slots: Sequence[Mapping[str, Any]]
  sweep_dir: str
  common: Sequence[str]
  count: int
  lease_seconds: float = 60.0
  clock: Callable[[], float] = time.monotonic
  _running: dict[int, trial_lib.Run] = dataclasses.field(default_factory=dict, init=False)
  _signals: list[int] = dataclasses.field(default_factory=list, init=False)
  _last_beat: float = dataclasses.field(default=float("-inf"), init=False)
  _last_claim: float = dataclasses.field(default=float("-inf"), init=False)

  def finish_trials(self) -> None:
    """Works until all trials have finished, including trials of other processes.

    If another process dies, this one takes over its trials.

    Raises:
      SweepInterrupted: SIGINT or SIGTERM came; the trials have saved and can resume. A second
        signal kills them without saving.
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
    """Does all due work; returns whether the sweep continues."""
    if self._signals:
      return False
    self._beat()
    free = [slot for slot in range(len(self.slots)) if slot not in self._running]
    if free and self.clock() - self._last_claim >= _IDLE_SECONDS:
      self._take_trials(free)
      if not self._running and not self.study.count_unfinished(self.count):
        return False
    self.starter.wait(_LOOK_SECONDS)
    # A copy of the items: `_finish` changes `_running`.
    for slot, run in list(self._running.items()):
      if run.follow():
        logging.info(
          "%s ends early: sweep.pruner = %r finds its evaluations worse than the other trials'",
          run.name,
          run.settings.pruner,
        )
        self.starter.signal(run.name, signal.SIGTERM)
      if run.name in self.starter.ended:
        self._finish(slot, run, self.starter.ended.pop(run.name))
    return True

  def _take_trials(self, free):
    # Also without a free trial: the next request to the database waits for _IDLE_SECONDS.
    self._last_claim = self.clock()
    for slot in free:
      trial = self.study.claim(self.count)
      if trial is None:
        return
      self._start(slot, trial_lib.Run(trial, self.study.settings, self.sweep_dir, self.common))

  def _start(self, slot, run):
    if run.pruned:  # A process may decide to prune the trial, and die before it records that.
      self._tell(run, "pruned", None)
      return
    again = "bindings" in run.trial.user_attrs  # `prepare` adds them.
    run.prepare()
    logging.info("%s %s: %s", run.name, "resumes" if again else "starts", run.command)
    self.starter.start(run.name, run.arguments, run.log, run.lock, self.slots[slot])
    self._running[slot] = run

  def _finish(self, slot, run, code):
    del self._running[slot]
    run.follow()  # The metrics that the trial wrote since the last look.
    state, values = run.outcome(code)
    self._last_claim = float("-inf")  # The slot is free: claim a trial at once.
    if state == "interrupted":  # Another program sent the trial a signal.
      logging.info("A signal interrupted %s; it resumes", run.name)
      self.study.release(run.trial)
      return
    if state == "again":  # The same parameters with the next seed.
      self._start(slot, trial_lib.Run(run.trial, self.study.settings, self.sweep_dir, self.common))
      return
    self._tell(run, state, values)

  def _tell(self, run, state, values):
    self.study.finish(run.trial, state, values)
    if state == "fail":
      logging.warning("%s failed. %s", run.name, run.trial.user_attrs["error"])
    elif state == "complete":
      intervals = run.trial.user_attrs.get(trial_lib.INTERVALS, {})
      said = ", ".join(
        f"{name} {value:.5g}"
        + (" ({:.5g} to {:.5g})".format(*intervals[name]) if intervals.get(name) else "")
        for name, value in zip(self.study.settings.metrics, values, strict=True)
      )
      broken = optuna_parts.violated(run.trial)
      logging.info(
        "trial %d is complete: %s%s (%d of %d trials to go)",
        run.number,
        said,
        f"; it breaks {', '.join(broken)}" if broken else "",
        self.study.count_unfinished(self.count),
        self.count,
      )

  def _beat(self):
    """Gives the trials of this process a heartbeat.

    If none reached the database in time, another process may have taken a trial: then this process
    kills its copy.
    """
    if self.clock() - self._last_beat < self.lease_seconds / _BEATS:
      return
    self._last_beat = self.clock()
    for slot, run in list(self._running.items()):
      if not self.study.keep(run.trial):
        logging.warning(
          "Another process took %s over, and got no sign of life from this one.", run.name
        )
        self.starter.signal(run.name, signal.SIGKILL)
        del self._running[slot]

  def _stop_trials(self):
    """Makes all trials save and end, and releases them. A second signal kills them."""
    names = [run.name for run in self._running.values()]
    for name in names:
      logging.info("%s: saving", name)
      self.starter.signal(name, signal.SIGTERM)
    killed = False
    # OutputError means that the trial server has ended, and with it all trials.
    with contextlib.suppress(errors.OutputError):
      while not self.starter.ended.keys() >= set(names):
        self.starter.wait(_LOOK_SECONDS)
        if len(self._signals) > 1 and not killed:
          killed = True
          for name in names:
            self.starter.signal(name, signal.SIGKILL)
    for run in self._running.values():
      self.study.release(run.trial)
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
