"""One training at a time in a model_dir: by a file that tells of life."""

import dataclasses
import errno
import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import directory
from trainer.cli import processes
from trainer.io import files, storage
from trainer.loop import training_lock
from trainer.loop.training_lock import TrainingLock


def file_of(model_dir):
  return os.path.join(str(model_dir), training_lock.NAME)


def told(model_dir):
  with tf.io.gfile.GFile(file_of(model_dir)) as file:
    return json.loads(file.read())


# ------------------------------------------------------------------- a local disk


def test_it_tells_who_has_it_and_is_gone_at_the_end(tmp_path):
  lock = TrainingLock(str(tmp_path))
  with lock.hold():
    assert told(tmp_path)["pid"] == os.getpid()
    with lock.hold():  # as a training inside of train_and_evaluate
      lock.check()
    assert os.path.exists(file_of(tmp_path))
  assert list(tmp_path.iterdir()) == []
  with lock.hold(), pytest.raises(errors.ModelDirBusyError, match="this process"):
    with TrainingLock(str(tmp_path)).hold():
      pass


def test_a_folder_that_is_not_there_is_held_from_when_it_is(tmp_path):
  lock = TrainingLock(str(tmp_path / "model"))
  with lock.hold():
    assert not (tmp_path / "model").exists()
    (tmp_path / "model").mkdir()
    assert lock.take()
    assert not lock.take()
    with pytest.raises(errors.ModelDirBusyError), TrainingLock(str(tmp_path / "model")).hold():
      pass
  assert list((tmp_path / "model").iterdir()) == []


def test_lock_of_another_process_ends_when_it_is_killed(tmp_path):
  command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
  with subprocess.Popen(command, stdin=subprocess.PIPE) as other:
    holder = {
      "host": "far",
      "pid": other.pid,
      "started": "2026-01-02T03:04:05+00:00",
      "boot": processes.boot_id(),
      "process": processes.start_time(other.pid),
      "token": "x",
    }
    (tmp_path / training_lock.NAME).write_text(json.dumps(holder))
    said = (
      f"Another training goes on in {tmp_path} .*: process {other.pid} on host far, "
      "started 2026-01-02T03:04:05.*--force"
    )
    with pytest.raises(errors.ModelDirBusyError, match=said), TrainingLock(str(tmp_path)).hold():
      pass
    other.kill()
  assert told(tmp_path)["pid"] == other.pid  # what is left of it
  with TrainingLock(str(tmp_path), sleep=pytest.fail).hold():
    assert told(tmp_path)["pid"] == os.getpid()


def test_a_fork_does_not_end_the_lock(tmp_path):
  lock = TrainingLock(str(tmp_path))
  holding = lock.hold()
  holding.__enter__()
  child = os.fork()
  if not child:
    holding.__exit__(None, None, None)  # as where an exception ends the fork
    os._exit(0)
  assert os.waitpid(child, 0)[1] == 0
  lock.check()
  with pytest.raises(errors.ModelDirBusyError), TrainingLock(str(tmp_path)).hold():
    pass
  holding.__exit__(None, None, None)
  assert list(tmp_path.iterdir()) == []


def test_force_takes_it_and_the_other_one_ends_at_its_next_save(tmp_path, caplog):
  first, second = TrainingLock(str(tmp_path)), TrainingLock(str(tmp_path), force=True)
  with first.hold():
    with second.hold():
      assert f"--force: taking {tmp_path} from process {os.getpid()} on host" in caplog.text
      with pytest.raises(
        errors.ModelDirBusyError,
        match=f"Another training took .* from this one: process {os.getpid()} .*This training ends",
      ):
        first.check()
      second.check()
    # Also where the other one has ended before it looks.
    with pytest.raises(errors.ModelDirBusyError):
      first.check()
  assert list(tmp_path.iterdir()) == []


def test_end_of_the_former_holder_leaves_the_new_lock(tmp_path):
  second = TrainingLock(str(tmp_path), force=True)
  first = TrainingLock(str(tmp_path))
  with first.hold():
    holding = second.hold()
    holding.__enter__()
  assert os.path.exists(file_of(tmp_path))
  second.check()
  holding.__exit__(None, None, None)


def test_to_remove_the_file_is_to_take_the_folder(tmp_path):
  lock = TrainingLock(str(tmp_path))
  with lock.hold():
    os.remove(file_of(tmp_path))
    with pytest.raises(
      errors.ModelDirBusyError, match="its file training.lock is missing. This training ends"
    ):
      lock.check()
    with TrainingLock(str(tmp_path)).hold():
      pass


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, monkeypatch):
  def replace(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")

  with monkeypatch.context() as patch:
    patch.setattr(os, "replace", replace)
    with (
      pytest.raises(errors.OutputError, match="Cannot write .*training.lock.*No space left"),
      TrainingLock(str(tmp_path)).hold(),
    ):
      pass
  assert list(tmp_path.iterdir()) == []
  with TrainingLock(str(tmp_path)).hold():
    pass


def test_own_file_that_could_not_be_removed_does_no_harm(tmp_path, monkeypatch, caplog):
  def remove(path):
    raise tf.errors.PermissionDeniedError(None, None, "Operation not permitted")

  with monkeypatch.context() as patch:
    patch.setattr(tf.io.gfile, "remove", remove)
    with TrainingLock(str(tmp_path)).hold():
      pass
  assert "Cannot remove" in caplog.text
  with TrainingLock(str(tmp_path), sleep=pytest.fail).hold():
    pass


def test_a_folder_in_its_place(tmp_path):
  (tmp_path / training_lock.NAME).mkdir()
  with pytest.raises(errors.OutputError, match=r"Cannot write .*training.lock \(--model_dir\)"):
    with TrainingLock(str(tmp_path)).hold():
      pass


def test_a_process_that_does_not_write_needs_none(tmp_path):
  lock = TrainingLock(str(tmp_path), is_needed=False)
  with lock.hold():
    assert not lock.take()
    lock.check()
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------- on another machine


class Elsewhere:
  """A folder of another file system, the clock of who waits there, and what happens while it waits.

  Attributes:
    events: by the number of the look: functions that are called before it.
    looks: how often was looked.
  """

  def __init__(self, folder):
    self.folder = folder
    tf.io.gfile.makedirs(folder)
    self.time = 0.0
    self.looks = 0
    self.events = {}

  def lock(self, **settings):
    return TrainingLock(self.folder, clock=lambda: self.time, sleep=self.sleep, **settings)

  def sleep(self, seconds):
    self.time += seconds
    self.looks += 1
    self.events.get(self.looks, lambda: None)()

  def write(self, beat=1, **more):
    """What another process would write."""
    holder = dict(
      host="far", pid=7, started="2026-01-02T03:04:05+00:00", boot="b", process="p", token="t"
    )
    with files.write_atomically(file_of(self.folder)) as file:
      file.write(json.dumps(dict(holder, beat=beat, **more)))


@pytest.fixture
def elsewhere(request):
  folder = Elsewhere(f"ram://{request.node.name}")
  yield folder
  tf.io.gfile.rmtree(folder.folder)


def test_it_is_there_while_it_is_held(elsewhere):
  lock = elsewhere.lock()
  with lock.hold():
    assert told(elsewhere.folder)["pid"] == os.getpid()
    with pytest.raises(errors.ModelDirBusyError, match="this process"), elsewhere.lock().hold():
      pass
    lock.check()
  assert not tf.io.gfile.exists(file_of(elsewhere.folder))
  assert elsewhere.looks == 0


def test_silent_holder_is_waited_for_and_reported(elsewhere, caplog):
  elsewhere.write()
  with elsewhere.lock().hold():
    assert told(elsewhere.folder)["pid"] == os.getpid()
  assert elsewhere.time == training_lock.EXPIRES_SECONDS
  assert (
    "process 7 on host far, started 2026-01-02T03:04:05+00:00. If that training does not rewrite "
    "the file within 90 s, it counts as dead" in caplog.text
  )


def test_one_that_shows_a_sign_of_life_keeps_the_folder(elsewhere):
  elsewhere.write()
  elsewhere.events[4] = lambda: elsewhere.write(beat=2)
  with (
    pytest.raises(errors.ModelDirBusyError, match="process 7 on host far"),
    elsewhere.lock().hold(),
  ):
    pass
  assert elsewhere.looks == 4
  assert told(elsewhere.folder)["pid"] == 7


def test_one_that_ends_is_not_waited_for_any_longer(elsewhere):
  elsewhere.write()
  elsewhere.events[2] = lambda: tf.io.gfile.remove(file_of(elsewhere.folder))
  with elsewhere.lock().hold():
    assert elsewhere.looks == 2


def test_dead_process_of_this_machine_is_not_waited_for(elsewhere):
  elsewhere.write(boot=processes.boot_id(), pid=2**22 + 1)
  with elsewhere.lock().hold():
    assert elsewhere.looks == 0


def test_one_of_this_machine_that_is_alive_is_known_at_once(elsewhere):
  pid = os.getppid()
  elsewhere.write(boot=processes.boot_id(), pid=pid, process=processes.start_time(pid))
  with pytest.raises(errors.ModelDirBusyError), elsewhere.lock().hold():
    pass
  assert elsewhere.looks == 0


def test_a_file_that_tells_nothing_is_waited_for_too(elsewhere):
  with tf.io.gfile.GFile(file_of(elsewhere.folder), "w") as file:
    file.write("{")
  with elsewhere.lock().hold():
    assert elsewhere.time == training_lock.EXPIRES_SECONDS


def test_force_does_not_wait(elsewhere, caplog):
  elsewhere.write()
  with elsewhere.lock(force=True).hold():
    assert told(elsewhere.folder)["pid"] == os.getpid()
  assert f"--force: taking {elsewhere.folder} from process 7 on host far" in caplog.text
  assert elsewhere.looks == 0
  assert not tf.io.gfile.exists(file_of(elsewhere.folder))


def test_check_of_a_taken_lock_fails_and_keeps_the_new_lock(elsewhere):
  lock = elsewhere.lock()
  with lock.hold():
    elsewhere.write()
    for _ in range(2):
      with pytest.raises(
        errors.ModelDirBusyError,
        match="Another training took .* from this one: process 7 on host far",
      ):
        lock.check()
  assert told(elsewhere.folder)["pid"] == 7


class Beats:
  """In place of the event that ends the thread: so many beats, then the end."""

  def __init__(self, *before):
    self._before = list(before)

  def wait(self, seconds):
    assert seconds == training_lock.BEAT_SECONDS
    if not self._before:
      return True
    self._before.pop(0)()
    return False

  def set(self):
    pass


def beat(lock, *before):
  """Has a lock beat so many times, each after something has happened."""
  ended, lock._ended = lock._ended, Beats(*before)
  lock._beat()
  lock._ended = ended


def test_a_beat_is_a_change_of_the_file(elsewhere):
  lock = elsewhere.lock()
  with lock.hold():
    before = told(elsewhere.folder)
    beat(lock, lambda: None, lambda: None)
    assert told(elsewhere.folder) == dict(before, beat=3)


def test_nothing_is_written_over_another_ones_file(elsewhere):
  lock = elsewhere.lock()
  with lock.hold():
    beat(lock, elsewhere.write, pytest.fail)
    assert told(elsewhere.folder)["pid"] == 7


def test_a_network_that_is_down_for_a_while_is_a_warning(elsewhere, monkeypatch, caplog):
  lock = elsewhere.lock()

  def is_down(*arguments, **options):
    raise tf.errors.UnavailableError(None, None, "the network is down")

  with lock.hold():
    with monkeypatch.context() as patch:
      patch.setattr(tf.io.gfile, "GFile", is_down)
      patch.setattr(storage, "RETRIES", storage.Retries(total_seconds=0.0))
      beat(lock, lambda: None)  # It reads the file before it writes it.
      lock.check()
    messages = [record.message for record in caplog.records]
    assert [each.split(" ram:")[0] for each in messages] == ["Cannot read", "Cannot read"]
    assert [each.count("Cannot ") for each in messages] == [1, 1]
    with monkeypatch.context() as patch:
      patch.setattr(training_lock.files, "write_atomically", is_down)
      beat(lock, lambda: None)
    assert caplog.records[-1].message == f"Cannot write {lock._path}: the network is down"
    beat(lock, lambda: None)
    assert told(elsewhere.folder)["beat"] == 2


# ------------------------------------------------------------------- trainings


def test_second_training_is_refused_and_evaluations_are_not(tmp_path):
  other = programs.estimator(tmp_path)
  seen = []

  def hook(step, metrics, estimator):
    with pytest.raises(errors.ModelDirBusyError, match=f"process {os.getpid()} on host"):
      other.train(programs.train_input, steps=1)
    seen.append(other.evaluate(programs.examples(8))["global_step"])
    seen.append(len(list(other.predict(programs.examples(8)))))

  programs.estimator(tmp_path, **programs.fixed_loops(2)).train(
    programs.train_input, steps=2, hooks=[hook]
  )
  assert seen == [0, 8]
  assert not os.path.exists(file_of(tmp_path))
  other.train(programs.train_input, steps=1)
  assert other.latest_step() == 3


def test_a_refused_training_reads_no_input(tmp_path):
  with TrainingLock(str(tmp_path)).hold(), pytest.raises(errors.ModelDirBusyError):
    programs.estimator(tmp_path).train(lambda params: pytest.fail("called"), steps=1)


def test_training_whose_folder_was_taken_ends_without_a_write(tmp_path):
  def hook(step, metrics, estimator):
    if step == 2:
      programs.estimator(tmp_path, force=True).train(programs.train_input, steps=5)

  first = programs.estimator(tmp_path, save_checkpoints_steps=2)
  with pytest.raises(errors.ModelDirBusyError, match="Another training took .* from this one"):
    first.train(programs.train_input, steps=10, hooks=[hook])
  assert directory.CheckpointDirectory(str(tmp_path)).steps() == [0, 5]


def test_two_trainings_that_begin_in_a_folder_that_is_not_there(tmp_path):
  def input_fn(params):
    programs.estimator(tmp_path / "model").train(programs.train_input, steps=2)
    return programs.train_input(params)

  estimator = programs.estimator(tmp_path / "model")
  with pytest.raises(errors.ModelDirBusyError, match="after this one began: restart"):
    estimator.train(input_fn, steps=5)
  estimator.train(programs.train_input, max_steps=5)
  assert estimator.latest_step() == 5


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_whatever_ends_a_training_frees_the_folder(error, tmp_path):
  def hook(step, metrics, estimator):
    raise error

  estimator = programs.estimator(tmp_path)
  with pytest.raises(error):
    estimator.train(programs.train_input, steps=2, hooks=[hook])
  assert not os.path.exists(file_of(tmp_path))
  estimator.train(programs.train_input, steps=2)


def test_a_training_elsewhere(elsewhere):
  estimator = programs.estimator(elsewhere.folder)
  seen = []
  estimator.train(
    programs.train_input,
    steps=2,
    hooks=[lambda step, metrics, _: seen.append(told(elsewhere.folder)["pid"])],
  )
  assert set(seen) == {os.getpid()}
  assert estimator.latest_step() == 2
  assert not tf.io.gfile.exists(file_of(elsewhere.folder))


def test_an_unknown_field_of_a_later_version_does_no_harm(elsewhere):
  elsewhere.write(boot=processes.boot_id(), pid=2**22 + 1, later="field")
  with elsewhere.lock().hold():
    assert set(told(elsewhere.folder)) == {
      field.name for field in dataclasses.fields(training_lock._Holder)
    } | {"beat"}


def test_a_holder_is_another_process_of_this_machine_or_this_one():
  this = training_lock._this()
  assert str(this).partition(", started")[0].endswith(", this process")
  other = dataclasses.replace(this, pid=this.pid + 1)
  assert str(other).partition(", started")[0] == f"process {this.pid + 1} on host {this.host}"
