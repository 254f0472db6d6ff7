"""The loop of a sweep: takes trials, starts them, follows them, writes down what came of them.

    engine.Engine(study, starter, slots, sweep_dir, common_arguments, count).run()

One process, one thread: nothing happens while nobody looks. What it has begun is in the database
before it acts, so that it may be killed anywhere.
"""

import contextlib
import signal
import time

from absl import logging

from trainer import errors
from trainer.sweep import trial as trial_lib

# How long it waits for news of its processes before it looks at their metrics, and how long before
# it asks the database for more work.
_LOOK_SECONDS = 0.25
_IDLE_SECONDS = 2.0


class Stopped(Exception):
  """The sweep was asked to end, and its trials have saved.

  Attributes:
    number: the signal's.
  """

  def __init__(self, number):
    super().__init__(signal.Signals(number).name)
    self.number = number


class Engine:
  """A process's part of a sweep.

  Args:
    study: a study.Study.
    starter: a trial_server.Starter.
    slots: what each worker's trials get of the machine, see machine.slots; one trial runs in each.
    sweep_dir: the sweep's folder.
    common: list of arguments of trainer.main that all trials have.
    count: how many trials the sweep has.
    lease_seconds: see leases.Leases.
    clock: seconds.
  """

  def __init__(
    self, study, starter, slots, sweep_dir, common, count, lease_seconds=60.0, clock=time.monotonic
  ):
    self._study = study
    self._starter = starter
    self._slots = slots
    self._sweep_dir = sweep_dir
    self._common = common
    self._count = count
    self._beat_seconds = lease_seconds / 6
    self._clock = clock
    self._running = {}  # slot: Run
    self._signals = []
    self._last_beat = self._last_claim = float("-inf")

  def run(self):
    """Works until all trials are finished, those of other processes too, whose trials it takes up
    if they die.

    Raises:
      Stopped: by SIGINT or SIGTERM; the trials have saved, and wait to be continued. A second
        signal does not let them save.
      MetricMissingError: no evaluation reports what the sweep is judged by.
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
        raise Stopped(self._signals[0])

  def _step(self):
    """Does what is to be done now; returns whether there is more."""
    if self._signals:
      return False
    self._beat()
    free = [slot for slot in range(len(self._slots)) if slot not in self._running]
    if free and self._clock() - self._last_claim >= _IDLE_SECONDS:
      self._take_trials(free)
      if not self._running and not self._study.unfinished(self._count):
        return False
    self._starter.wait(_LOOK_SECONDS)
    for slot, run in list(self._running.items()):
      if run.follow():
        logging.info("%s is ended early", run.name)
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
    if run.pruned:  # it was decided, and then this process was killed
      self._tell(run, "pruned", None)
      return
    again = "bindings" in run.trial.user_attrs
    run.prepare()
    logging.info("%s %s: %s", run.name, "goes on" if again else "starts", run.command)
    self._starter.start(run.name, run.arguments, run.log, run.lock, self._slots[slot])
    self._running[slot] = run

  def _finish(self, slot, run, code):
    del self._running[slot]
    run.follow()  # what it wrote since
    state, values = run.outcome(code)
    self._last_claim = float("-inf")
    if state == "interrupted":  # by somebody who did not ask this process
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
        self._study.unfinished(self._count),
        self._count,
      )

  def _beat(self):
    """Tells the others that this process is alive.

    A trial that they took, because they could not hear it, is not worked on any more.
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
    """Has all trials save and end, and gives them back. A second signal ends them at once."""
    names = [run.name for run in self._running.values()]
    for name in names:
      logging.info("%s: saving", name)
      self._starter.signal(name, signal.SIGTERM)
    killed = False
    with contextlib.suppress(errors.OutputError):  # the server has ended, and the trials with it
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
    """SIGINT and SIGTERM are noted, and end the loop at its next turn."""
    before = {
      number: signal.signal(number, lambda number, _: self._signals.append(number))
      for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
      yield
    finally:
      for number, handler in before.items():
        signal.signal(number, handler)
