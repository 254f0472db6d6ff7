"""Listings of checkpoints, on a local folder and where a listing may be stale."""

import pytest
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import listing
from trainer.io import storage


def test_a_local_folder_has_what_its_listing_names(tmp_path):
  listing.write_state(str(tmp_path), ["model.ckpt-5", "model.ckpt-7"])
  state = listing.read_state(str(tmp_path))
  assert listing.steps(str(tmp_path), ["model.ckpt-5.index"], state) == [5]


def test_a_remote_folder_is_asked_where_listing_and_state_differ(tmp_path, monkeypatch):
  """Of 5, 6, 7 and 8, the listing has 5 and 8, and the state has 5, 6 and 7. 6 and 8 exist."""
  listing.write_state(str(tmp_path), ["model.ckpt-5", "model.ckpt-6", "model.ckpt-7"])
  for step in (6, 8):
    (tmp_path / f"model.ckpt-{step}.index").touch()
  asked, exists = [], storage.exists
  monkeypatch.setattr(storage, "is_remote", lambda path: True)
  monkeypatch.setattr(storage, "exists", lambda path: (asked.append(path), exists(path))[1])
  state = listing.read_state(str(tmp_path))
  names = ["model.ckpt-5.index", "model.ckpt-8.index"]
  assert listing.steps(str(tmp_path), names, state) == [5, 6, 8]
  assert len(asked) == 3  # 5 is in both


def test_a_folder_without_a_state_has_none(tmp_path):
  assert listing.read_state(str(tmp_path)) is None
  assert listing.read_state(str(tmp_path / "no folder")) is None


def test_a_state_out_of_reach_is_named(tmp_path, monkeypatch):

  def refuse(path, mode):
    raise tf.errors.PermissionDeniedError(None, None, "no")

  monkeypatch.setattr(storage, "read", refuse)
  with pytest.raises(errors.CheckpointError, match=f"Cannot read {tmp_path}/checkpoint: "):
    listing.read_state(str(tmp_path))
