"""Trials in a database: as many as are wanted, one worker each, the same parameters whoever
takes them up.
"""

import os

import optuna
import pytest

from tests.trainer.sweep import programs
from trainer import errors
from trainer.sweep import study


@pytest.fixture
def settings(tmp_path):
  return programs.settings(tmp_path)


def opened(tmp_path, settings, dead=(), **arguments):
  """The study, as a process that finds the processes of these studies dead sees it."""
  found = study.Study.open(
    study.url_for(tmp_path), "s", settings, settings.definition(), **arguments
  )
  workers, is_dead = [other.worker for other in dead], found.is_dead
  found.is_dead = lambda worker: worker in workers or is_dead(worker)
  return found


def states(found):
  return [trial.state.name for trial in found.trials()]


def test_a_trial_from_its_making_to_its_end(tmp_path, settings):
  found = opened(tmp_path, settings)
  found.make_trials(2)
  found.make_trials(2)
  assert states(found) == ["WAITING", "WAITING"]
  one, two = found.claim(2), found.claim(2)
  assert (one.number, two.number, found.claim(2)) == (0, 1, None)
  found.finish(one, "complete", [0.5])
  two.report(0.3, 1)
  found.finish(two, "pruned")
  assert states(found) == ["COMPLETE", "PRUNED"]
  assert found.count_unfinished(2) == 0
  assert found.claim(2) is None
  found.make_trials(3)
  assert found.claim(2) is None  # the third is not of the first two
  assert found.claim(3).number == 2


def test_killed_trial_resumes_with_its_number_and_parameters(tmp_path, settings):
  killed = opened(tmp_path, settings)
  killed.make_trials(2)
  before = settings.space.suggest(killed.claim(2))
  # Another one was killed after its first parameter.
  half = killed.claim(2)
  half.suggest_float("experiment.x", 0.0, 1.0)
  found = opened(tmp_path, settings, dead=[killed])
  again, other = found.claim(2), found.claim(2)
  assert (again.number, other.number) == (0, 1)
  assert settings.space.suggest(again) == before
  assert float(settings.space.suggest(other)["experiment.x"]) == half.params["experiment.x"]
  assert states(found) == ["RUNNING", "RUNNING"]


def test_a_trial_that_was_claimed_and_never_begun_is_taken_up(tmp_path, settings):
  killed = opened(tmp_path, settings)
  killed.make_trials(1)

  def die(*_):
    raise KeyboardInterrupt

  killed._storage.set_trial_state_values = die
  with pytest.raises(KeyboardInterrupt):
    killed.claim(1)
  assert states(killed) == ["WAITING"]
  assert opened(tmp_path, settings).claim(1) is None
  assert opened(tmp_path, settings, dead=[killed]).claim(1).number == 0


def test_the_next_process_makes_the_rest_of_the_trials(tmp_path, settings):
  opened(tmp_path, settings).make_trials(2)
  found = opened(tmp_path, settings)
  found.make_trials(5)
  assert len(found.trials()) == 5


def test_only_one_of_two_processes_gets_a_dead_ones_trial(tmp_path, settings):
  dead = opened(tmp_path, settings)
  dead.make_trials(1)
  dead.claim(1)
  one, two = (opened(tmp_path, settings, dead=[dead]) for _ in range(2))
  beat, claimed = two._storage.record_heartbeat, []

  def late(trial_id):  # Both have looked before either acts.
    claimed.append(one.claim(1))
    beat(trial_id)

  two._storage.record_heartbeat = late
  assert two.claim(1) is None
  assert claimed[0].number == 0
  assert one.keep(claimed[0])


def test_a_silent_process_of_another_machine_loses_its_trial(tmp_path, settings, monkeypatch):
  one, two = opened(tmp_path, settings), opened(tmp_path, settings)
  one.worker[0] = "another machine"
  one.make_trials(1)
  trial = one.claim(1)
  assert two.claim(1) is None
  assert one.keep(trial)
  monkeypatch.setattr(two._storage, "grace_period", -1)  # The database's clock has gone on.
  assert two.claim(1).number == 0
  assert not one.keep(trial)
  one.release(trial)  # It is not its own to give back.
  assert opened(tmp_path, settings).claim(1) is None


def test_a_trial_that_was_given_back_is_free(tmp_path, settings):
  one = opened(tmp_path, settings)
  one.make_trials(1)
  one.release(one.claim(1))
  assert opened(tmp_path, settings).claim(1).number == 0


def test_live_processes_of_this_machine_are_named(tmp_path, settings):
  one, two = opened(tmp_path, settings), opened(tmp_path, settings)
  one.make_trials(2)
  one.claim(2)
  assert (one.other_pids(), two.other_pids()) == ([], [os.getpid()])
  one.finish(one.claim(2), "fail")
  assert two.other_pids() == [os.getpid()]  # for the first trial
  earlier = [*one.worker[:2], "earlier", "x"]  # The system gave the ID to another process since.
  assert two.is_dead(earlier)
  assert not two.is_dead(one.worker)


def test_trials_of_version_0_1_0_have_no_worker(tmp_path, settings):
  found = opened(tmp_path, settings)
  states_of = optuna.trial.TrialState
  for _ in range(2):
    found.optuna_study().add_trial(optuna.trial.create_trial(state=states_of.WAITING))
  found._storage.set_trial_state_values(1, states_of.RUNNING)
  assert [found.claim(2).number, found.claim(2).number] == [0, 1]
  assert not found._change_worker(1, None, ["b"])


def test_who_takes_a_trial_sees_what_others_have_found(tmp_path, settings):
  one, two = opened(tmp_path, settings), opened(tmp_path, settings)
  one.make_trials(2)
  mine, theirs = one.claim(2), two.claim(2)
  one.finish(mine, "complete", [0.5])
  assert theirs.study.best_value == 0.5


def test_trial_n_of_a_random_sweep_is_the_same_each_time(tmp_path, settings):
  def parameters(folder):
    (tmp_path / folder).mkdir()
    found = opened(tmp_path / folder, settings)
    found.make_trials(3)
    return [settings.space.suggest(found.claim(3)) for _ in range(3)]

  first = parameters("a")
  assert parameters("b") == first
  assert len({str(each) for each in first}) == 3


def test_another_definition_is_another_sweep(tmp_path, settings):
  opened(tmp_path, settings)
  opened(tmp_path, settings)
  other = programs.settings(tmp_path, programs.SPACE.replace("high = 1.0", "high = 2.0"))
  with pytest.raises(errors.SettingError, match="began with another space") as refused:
    opened(tmp_path, other)
  assert "was 1.0, is 2.0\n" in str(refused.value)
  assert "another --sweep_dir" in str(refused.value)
  with pytest.raises(errors.SettingError, match="began with another mode"):
    opened(tmp_path, programs.settings(tmp_path, programs.SPACE.replace("'max'", "'min'")))


def test_what_is_not_there_is_not_joined(tmp_path, settings):
  with pytest.raises(errors.SettingError, match="There is no sweep"):
    opened(tmp_path, settings, join=True)
  assert not (tmp_path / "sweep.db").exists()
  optuna.create_study(storage=study.url_for(tmp_path), study_name="another")
  with pytest.raises(
    errors.SettingError, match="--join: there is no sweep 's' in .*; there are: another"
  ):
    opened(tmp_path, settings, join=True)
  with pytest.raises(errors.SettingError, match="there are: another"):
    study.Study.read(study.url_for(tmp_path), "s")


def test_a_folder_may_have_the_signs_of_an_address(tmp_path, settings):
  folder = tmp_path / "lr%3D0.1?#@"
  opened(folder, settings).make_trials(1)
  assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [folder.name]
  assert (folder / "sweep.db").exists()
  found, _ = study.Study.read(study.url_for(str(folder)), "s")
  assert states(found) == ["WAITING"]


@pytest.mark.parametrize(
  ("url", "shown"),
  [
    ("sqlite:////runs/größe/sweep.db", "sqlite:////runs/größe/sweep.db"),
    ("postgresql://me:secret@host/a", "postgresql://me:***@host/a"),
    ("postgresql://me@host/a", "postgresql://me@host/a"),
    ("nonsense", "nonsense"),
  ],
  ids=["a file", "a password", "no password", "no address"],
)
def test_an_address_is_shown_without_its_password(url, shown):
  assert study.without_password(url) == shown


@pytest.mark.parametrize(
  ("url", "message"),
  [
    ("postgresql://me:secret@localhost:1/none", "cannot use it: .*onnect"),
    ("sqlite:////proc/none/sweep.db", "cannot use it.* or without --storage, a --sweep_dir that"),
    ("nonsense", "cannot use it.*Expected an address such as"),
    ("oracle://me:secret@localhost/none", "needs a missing Python package"),
  ],
)
def test_databases_that_cannot_be_reached(settings, url, message):
  with pytest.raises(errors.SettingError, match=message) as caught:
    study.Study.open(url, "s", settings, {})
  assert "--storage" in str(caught.value)
  assert "secret" not in str(caught.value)
