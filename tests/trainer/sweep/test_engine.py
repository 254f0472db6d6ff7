"""The loop of a sweep, over trials that take no time: what is run, what is not run again,
whoever is killed and when.
"""

import contextlib
import itertools
import os
import signal
import statistics

import pytest

from tests import long
from tests.trainer.sweep import programs
from trainer import errors
from trainer.sweep import engine, study
from trainer.sweep import trial as trial_lib

COUNT = 4


class Killed(BaseException):
  """SIGKILL: nothing is tidied up."""


class Process:
  """A process that runs a sweep.

  Args:
    folder: the sweep's.
    settings: a settings.Settings.
    dead: the Processes before it that were killed.
    starter: a programs.Starter.
    workers: how many trials run at a time.
  """

  def __init__(self, folder, settings, dead=(), starter=None, workers=2):
    self.folder = str(folder)
    self.study = study.Study.open(study.url_for(self.folder), "s", settings, settings.definition())
    self.study.make_trials(COUNT)
    gone, is_dead = [process.study.worker for process in dead], self.study.is_dead
    self.study.is_dead = lambda worker: worker in gone or is_dead(worker)
    self.starter = starter or programs.Starter()
    seconds = itertools.count()
    self.engine = engine.Engine(
      self.study,
      self.starter,
      [{}] * workers,
      self.folder,
      ["--gin_file=a.gin"],
      COUNT,
      clock=lambda: 10.0 * next(seconds),
    )

  def run(self):
    self.engine.finish_trials()
    return self

  def kill_at(self, turn):
    """Has it raise Killed at this of the actions that others can see; each has two turns,
    before and after it.
    """
    turns = itertools.count()

    def tick():
      if next(turns) == turn:
        raise Killed

    def wrap(owner, name):
      original = getattr(owner, name)

      def wrapped(*args, **kwargs):
        tick()
        result = original(*args, **kwargs)
        tick()
        return result

      setattr(owner, name, wrapped)

    wrap(self.study, "_change_worker")
    for name in (
      "record_heartbeat",
      "set_trial_state_values",
      "set_trial_param",
      "set_trial_user_attr",
      "set_trial_intermediate_value",
    ):
      wrap(self.study._storage, name)
    for name in ("start", "wait", "signal"):
      wrap(self.starter, name)
    self.engine._stop_trials = lambda: None


@pytest.fixture
def settings(tmp_path):
  return programs.settings(tmp_path)


def results(process):
  """{number: (state, value, bindings)}."""
  return {
    trial.number: (trial.state.name, trial.value, trial.user_attrs.get("bindings"))
    for trial in process.study.trials()
  }


@pytest.fixture
def undisturbed(tmp_path, settings):
  folder = tmp_path / "undisturbed"
  folder.mkdir()
  return results(Process(folder, settings).run())


def test_all_trials_are_run_once(tmp_path, settings):
  process = Process(tmp_path, settings).run()
  found = results(process)
  assert [state for state, _, _ in found.values()] == ["COMPLETE"] * COUNT
  assert sorted(name for name, _, _ in process.starter.started) == [
    f"trial {number}" for number in range(COUNT)
  ]
  for name, arguments, _ in process.starter.started:
    number = int(name.split()[1])
    assert found[number][1] == pytest.approx(programs.x_of(arguments))
    assert programs.flag(arguments, "model_dir") == str(tmp_path / "trials" / str(number))
    assert [f"--gin_bindings={binding}" for binding in found[number][2]] == arguments[-2:]
    assert (tmp_path / "trials" / str(number) / "command.txt").read_text() == trial_lib.command(
      arguments
    ) + "\n"
  assert [trial.user_attrs["steps"] for trial in process.study.trials()] == [programs.STEPS] * COUNT
  assert Process(tmp_path, settings).run().starter.started == []


# Some of the turns that there are; tests/slow/sweep_kill.py kills real processes at random times.
@pytest.mark.parametrize("turn", long.except_for([29], [2, 11, 16, 29, 40, 55, 71, 90]))
def test_killed_anywhere_nothing_is_lost_or_doubled(tmp_path, settings, undisturbed, turn):
  killed = Process(tmp_path, settings)
  killed.kill_at(turn)
  with contextlib.suppress(Killed):
    killed.run()
  finished = {number for number, (state, _, _) in results(killed).items() if state == "COMPLETE"}
  process = Process(tmp_path, settings, dead=[killed]).run()
  assert results(process) == undisturbed
  assert not finished & {int(name.split()[1]) for name, _, _ in process.starter.started}
  for _, arguments, start in process.starter.started:  # from its checkpoint, where it had one
    assert start <= programs.STEPS
    assert programs.saved_step(programs.flag(arguments, "model_dir")) == programs.STEPS


def test_a_taken_up_trial_goes_on_from_its_checkpoint(tmp_path, settings):
  killed = Process(tmp_path, settings, workers=1)
  waits = itertools.count()
  original = killed.starter.wait

  def wait(seconds):
    if next(waits) == 3:
      raise Killed
    original(seconds)

  killed.starter.wait = wait
  killed.engine._stop_trials = lambda: None
  with pytest.raises(Killed):
    killed.run()
  process = Process(tmp_path, settings, dead=[killed]).run()
  (_, before, _), (_, again, start) = killed.starter.started[0], process.starter.started[0]
  assert again == before
  assert start == 3


def test_a_failure_is_the_trials_result_and_the_sweep_goes_on(tmp_path, settings):
  process = Process(
    tmp_path, settings, starter=programs.Starter({"trial 0": 2, "trial 2": -9})
  ).run()
  assert [state for state, _, _ in results(process).values()] == [
    "FAIL",
    "COMPLETE",
    "FAIL",
    "COMPLETE",
  ]
  said = [trial.user_attrs.get("error", "") for trial in process.study.trials()]
  assert "exit code 2" in said[0]
  assert "this is trial 0" in said[0]
  assert "SIGKILL (out of memory?)" in said[2]


PRUNED = (
  programs.SPACE + "sweep.pruner = 'median'\nsweep.pruner_options = {'n_startup_trials': 1}\n"
)


def test_trials_that_lag_behind_are_ended_and_free_their_place(tmp_path):
  process = Process(tmp_path, programs.settings(tmp_path, PRUNED), workers=1).run()
  found = results(process)
  states = [state for state, _, _ in found.values()]
  complete = []
  for state, _, bindings in found.values():
    x = programs.x_of(bindings)
    assert state == ("COMPLETE" if not complete or x >= statistics.median(complete) else "PRUNED")
    complete += [x] * (state == "COMPLETE")
  assert "PRUNED" in states
  assert {number for _, number in process.starter.signals} == {signal.SIGTERM}
  pruned = [trial for trial in process.study.trials() if trial.state.name == "PRUNED"]
  assert all(trial.user_attrs["steps"] < programs.STEPS for trial in pruned)


def test_a_decision_to_end_a_trial_outlives_who_made_it(tmp_path):
  settings = programs.settings(tmp_path, PRUNED)
  undisturbed = Process(tmp_path, settings, workers=1).run()
  number = next(
    trial.number for trial in undisturbed.study.trials() if trial.state.name == "PRUNED"
  )
  folder = tmp_path / "killed"
  folder.mkdir()
  killed = Process(folder, settings, workers=1)

  def signalled(*_):
    raise Killed

  killed.starter.signal = signalled
  killed.engine._stop_trials = lambda: None
  with pytest.raises(Killed):
    killed.run()
  process = Process(folder, settings, dead=[killed], workers=1).run()
  assert results(process) == results(undisturbed)
  assert f"trial {number}" not in [name for name, _, _ in process.starter.started]


@pytest.mark.parametrize(
  "number", long.except_for([signal.SIGINT], [signal.SIGINT, signal.SIGTERM])
)
def test_signal_makes_trials_save_and_the_command_resumes(tmp_path, settings, undisturbed, number):
  stopped = Process(tmp_path, settings)
  waits = itertools.count()
  original = stopped.starter.wait

  def wait(seconds):
    if next(waits) == 2:
      os.kill(os.getpid(), number)
    original(seconds)

  stopped.starter.wait = wait
  with pytest.raises(engine.SweepInterrupted) as caught:
    stopped.run()
  assert caught.value.number == number
  assert stopped.starter.signals == [("trial 0", signal.SIGTERM), ("trial 1", signal.SIGTERM)]
  process = Process(tmp_path, settings).run()  # nobody is dead: the trials were given back
  assert results(process) == undisturbed
  assert [start for _, _, start in process.starter.started[:2]] == [3, 3]


def test_a_trial_that_others_took_is_left_to_them(tmp_path, settings):
  process = Process(tmp_path, settings, workers=1)
  original = process.starter.wait
  waits = itertools.count()

  def wait(seconds):
    if next(waits) == 1:  # somebody who took this process for dead
      other = Process(tmp_path, settings, dead=[process])
      assert other.study.claim(COUNT).number == 0
    original(seconds)

  process.starter.wait = wait
  process.study.count_unfinished = lambda count: False  # or it would wait for the other one
  process.run()
  assert ("trial 0", signal.SIGKILL) in process.starter.signals
  assert results(process)[0][0] == "RUNNING"


@pytest.mark.parametrize("metric", ["acuracy", "test/accuracy"])
def test_unreported_metric_ends_the_sweep_at_first_evaluation(tmp_path, metric):
  process = Process(
    tmp_path,
    programs.settings(tmp_path, programs.SPACE.replace("'accuracy'", f"'{metric}'")),
    workers=1,
  )
  with pytest.raises(errors.SettingError, match=f"'{metric}'.*It reports accuracy, loss"):
    process.run()
  assert len(process.starter.started) == 1
  assert programs.saved_step(tmp_path / "trials" / "0") <= 2


def test_a_metric_that_is_missing_at_the_end_ends_the_sweep(tmp_path, monkeypatch):
  monkeypatch.setattr(programs, "evaluate", lambda *_: None)
  process = Process(tmp_path, programs.settings(tmp_path))
  with pytest.raises(errors.SettingError, match="It reports nothing"):
    process.run()
  assert len(process.starter.started) == 2


def test_a_folder_of_another_sweep_is_not_gone_on_with(tmp_path, settings):
  (tmp_path / "trials" / "0").mkdir(parents=True)
  (tmp_path / "trials" / "0" / "command.txt").touch()
  with pytest.raises(
    errors.SettingError, match="a trial of a sweep that the database does not know"
  ):
    Process(tmp_path, settings).run()
