"""An export's number is larger than those before it, and no two exports get one number."""

import collections
import multiprocessing
import os
import queue as queue_lib
import threading

import pytest
import tensorflow as tf

from tests.trainer.io import test_files
from trainer import errors
from trainer.io import files, storage
from trainer.outputs import numbered_exports


def publish(base, clock):
  """Claims a number and makes an export of it; returns the number."""
  with numbered_exports.claim(base, clock) as (number, folder):
    storage.write(os.path.join(folder, "saved_model.pb"), "A stand-in.")
    path = os.path.join(base, str(number))
    if storage.is_remote(base):
      storage.makedirs(path)
      storage.copy(os.path.join(folder, "saved_model.pb"), os.path.join(path, "saved_model.pb"))
    else:
      storage.rename(folder, path)
  return number


@pytest.fixture(params=["local", "remote"])
def base(request, tmp_path):
  return str(tmp_path / "export") if request.param == "local" else f"ram://{tmp_path}/export"


def test_numbers_grow_whatever_the_clock_says(base):
  times = [1000.5, 1000.9, 400.0, 2000.0, 100.0]
  assert [publish(base, lambda time=time: time) for time in times] == [1000, 1001, 1002, 2000, 2001]
  # Nothing is left of the claims.
  assert numbered_exports.names(base) == ["1000", "1001", "1002", "2000", "2001"]
  assert len(storage.listdir(base)) == 5


def test_names_are_sorted_as_numbers_and_others_are_none(tmp_path):
  for name in ("1000", "999", "²", "best", "exported.json", ".writing-2000-x"):
    (tmp_path / name).mkdir()
  assert numbered_exports.names(str(tmp_path)) == ["999", "1000"]


def test_a_number_that_is_being_written_is_taken(base):
  with numbered_exports.claim(base, lambda: 1000.0) as (first, _):
    with numbered_exports.claim(base, lambda: 1000.0) as (second, _):
      assert (first, second) == (1000, 1001)


def test_a_claim_of_a_killed_process_blocks_nothing(tmp_path):
  (tmp_path / f".writing-1000-0a0a0a0a-{test_files.name_of_a_dead_process()}").mkdir()
  assert publish(str(tmp_path), lambda: 1000.0) == 1001
  files.remove_litter(str(tmp_path))
  assert os.listdir(tmp_path) == ["1001"]


@pytest.mark.parametrize("when", ["before the listing", "after the listing"])
def test_a_rival_that_comes_between_the_steps(base, when, monkeypatch):
  """The other process claims the same number, or publishes it, while this one claims it."""
  original = storage.listdir
  looks = []

  def listdir(path):
    looks.append(path)
    # 1 and 2: which numbers there are. 3: who else claims the number.
    if len(looks) == 3 and when == "before the listing":
      storage.makedirs(os.path.join(base, ".writing-1000-00000000-other-1-1"))
    found = original(path)
    if len(looks) == 3 and when == "after the listing":
      storage.makedirs(os.path.join(base, "1000"))
    return found

  monkeypatch.setattr(storage, "listdir", listdir)
  with numbered_exports.claim(base, lambda: 1000.0) as (number, _):
    assert number > 1000


def test_old_exports_are_removed_and_incomplete_not_counted(base):
  numbers = [publish(base, lambda: 1000.0) for _ in range(4)]
  storage.makedirs(os.path.join(base, "5000"))  # is being copied to its place
  numbered_exports.remove_old(base, None, "1003")
  assert len(numbered_exports.names(base)) == 5
  numbered_exports.remove_old(base, 1, str(numbers[1]))
  assert numbered_exports.names(base) == ["1001", "1003", "5000"]


def test_an_export_that_fails_gives_its_number_back(base):
  with pytest.raises(tf.errors.NotFoundError), numbered_exports.claim(base, lambda: 1000.0):
    storage.read(os.path.join(base, "nothing"))
  assert storage.listdir(base) == []


def test_claim_that_cannot_be_removed_keeps_the_export_error(tmp_path, monkeypatch):
  def fail(path):
    raise errors.StorageError("It failed 7 times.")

  monkeypatch.setattr(storage, "rmtree", fail)
  with pytest.raises(KeyboardInterrupt), numbered_exports.claim(str(tmp_path)):
    raise KeyboardInterrupt


def publish_many(base, start, count, queue):
  """A process or a thread of a race."""
  start.wait()
  for _ in range(count):
    try:
      queue.put(publish(base, lambda: 1000.0))
    except Exception as error:  # the race ends, and the test says which
      queue.put(repr(error))


def race(base, kind, event, queue, workers, count):
  runners = [kind(target=publish_many, args=(base, event, count, queue)) for _ in range(workers)]
  for runner in runners:
    runner.start()
  event.set()
  numbers = [queue.get(timeout=300) for _ in range(workers * count)]
  for runner in runners:
    runner.join()
  return numbers


def test_threads_exporting_in_one_second_get_unique_numbers(base):
  numbers = race(base, threading.Thread, threading.Event(), queue_lib.Queue(), workers=4, count=3)
  assert len(set(numbers)) == 12
  assert len(storage.listdir(base)) == 12


@pytest.mark.long
def test_processes_exporting_in_one_second_get_unique_numbers(tmp_path):
  context = multiprocessing.get_context("forkserver")
  context.set_forkserver_preload([__name__])  # one import of TensorFlow for all
  event, queue = context.Event(), context.Queue()
  numbers = race(str(tmp_path), context.Process, event, queue, workers=16, count=8)
  assert collections.Counter(numbers).most_common(1)[0][1] == 1
  assert sorted(os.listdir(tmp_path), key=int) == [str(number) for number in sorted(numbers)]
