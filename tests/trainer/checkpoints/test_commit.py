"""Whatever a killed process left, a checkpoint is whole or gone after the recovery."""

import pytest
import tensorflow as tf

from trainer.checkpoints import commit, reader
from trainer.io import files

NAME = "model.ckpt-5"
DATA = f"{NAME}.data-00000-of-00001"


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def written(folder, value):
  """Writes a checkpoint that nobody has committed; returns its folder."""
  aside = folder / f"{files.WRITING}{NAME}"
  aside.mkdir()
  tf.raw_ops.SaveV2(
    prefix=str(aside / NAME), tensor_names=["a"], shape_and_slices=[""], tensors=[[value]]
  )
  return aside


def value(folder):
  return reader.read(str(folder / NAME), ["a"])["a"][0]


def test_a_save_leaves_the_checkpoint_alone(tmp_path):
  commit.save(str(tmp_path / NAME), {"a": tf.constant([2.0])})
  commit.save(str(tmp_path / NAME), {"a": tf.constant([3.0])})
  assert (names(tmp_path), value(tmp_path)) == ([DATA, f"{NAME}.index"], 3.0)


@pytest.mark.parametrize("moved", [(), ("data",)])
def test_recovery_completes_a_whole_checkpoint(tmp_path, moved):
  aside = written(tmp_path, 2.0)
  if moved:  # a process died in the middle of `commit`
    (aside / DATA).rename(tmp_path / DATA)
  commit.recover(str(tmp_path))
  assert (names(tmp_path), value(tmp_path)) == ([DATA, f"{NAME}.index"], 2.0)


@pytest.mark.parametrize("lost", [f"{NAME}.index", DATA])
def test_recovery_removes_a_checkpoint_without_a_part(tmp_path, lost):
  (written(tmp_path, 2.0) / lost).unlink()
  commit.recover(str(tmp_path))
  assert names(tmp_path) == []


def test_recovery_removes_a_damaged_checkpoint(tmp_path):
  data = written(tmp_path, 2.0) / DATA
  data.write_bytes(b"x" * len(data.read_bytes()))
  commit.recover(str(tmp_path))
  assert names(tmp_path) == []


def test_the_index_is_removed_before_the_data(tmp_path, monkeypatch):
  commit.save(str(tmp_path / NAME), {"a": tf.constant([2.0])})
  removed = []
  monkeypatch.setattr(commit.storage, "remove", removed.append)
  commit.remove(str(tmp_path / NAME), [str(tmp_path / DATA)])
  assert removed == [str(tmp_path / f"{NAME}.index"), str(tmp_path / DATA)]
