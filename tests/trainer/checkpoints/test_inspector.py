"""An Inspector reads a checkpoint again only if its files have changed."""

import os

import pytest
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import inspector, reader


@pytest.fixture
def path(tmp_path):
  path = str(tmp_path / "model.ckpt-5")
  tf.raw_ops.SaveV2(
    prefix=path, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.ones([100])]
  )
  return path


@pytest.fixture
def reads(monkeypatch):
  """The paths that are read."""
  found, verify = [], reader.verify
  monkeypatch.setattr(reader, "verify", lambda path: (found.append(path), verify(path)))
  return found


def damage(path):
  data = f"{path}.data-00000-of-00001"
  with open(data, "r+b") as file:
    file.write(b"\xff")
  os.utime(data, ns=(1, 1))


def test_an_unchanged_checkpoint_is_read_once(path, reads):
  inspected = inspector.Inspector()
  assert [inspected.problem(path) for _ in range(2)] == [None, None]
  assert reads == [path]


def test_a_changed_checkpoint_is_read_again_and_named(path, reads):
  inspected = inspector.Inspector()
  assert inspected.problem(path) is None
  damage(path)
  assert inspected.problem(path, looks_again=False) is None
  assert path in inspected.problem(path)
  assert inspected.known_problem(path) == inspected.problem(path)
  assert reads == [path, path]


def test_a_checkpoint_that_this_process_wrote_is_not_read(path, reads):
  inspected = inspector.Inspector()
  inspected.mark_valid(path)
  assert (inspected.problem(path), reads) == (None, [])
  inspected.mark_removed(path)
  inspected.problem(path)
  assert reads == [path]


def test_a_checkpoint_replaced_during_the_read_is_gone(path, monkeypatch):
  def verify(path):
    damage(path)
    raise errors.CheckpointDamagedError("damaged")

  monkeypatch.setattr(reader, "verify", verify)
  with pytest.raises(reader.GoneError, match="Another process replaced the checkpoint"):
    inspector.Inspector().problem(path)


def test_a_problem_is_logged_once(caplog):
  inspected = inspector.Inspector()
  for problem in ("a", "b", "a"):
    inspected.warn(problem, "It stays.")
  assert [each.getMessage() for each in caplog.records] == ["a It stays.", "b It stays."]
