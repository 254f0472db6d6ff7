"""Names of checkpoints' files."""

import pytest
from etils import epath

from trainer.checkpoints import file_names


@pytest.mark.parametrize(
  ("path", "step"),
  [
    ("out/digits/model.ckpt-1200", 1200),
    ("model.ckpt-0", 0),
    ("model.ckpt-x", None),
    ("model.ckpt-5.index", None),
    ("best.ckpt-5", None),
  ],
)
def test_a_step_is_that_of_a_training_alone(path, step):
  assert file_names.step_of(path) == step
  assert file_names.is_of_training(path) == (step is not None)


def test_steps_are_those_with_an_index_as_numbers():
  names = ["model.ckpt-100.index", "model.ckpt-20.index", "model.ckpt-7.data-00000-of-00001"]
  assert file_names.steps([*names, "other.index", "model.ckpt-9"]) == [20, 100]


def test_written_checkpoints_have_the_size_of_all_their_files(tmp_path):
  (tmp_path / "model.ckpt-20.index").write_bytes(b"12")
  (tmp_path / "model.ckpt-20.data-00000-of-00001").write_bytes(b"345")
  (tmp_path / "model.ckpt-200.index").write_bytes(b"6")
  found = file_names.written(epath.Path(tmp_path))
  assert [(step, size) for step, size, _ in found] == [(20, 5), (200, 1)]
  assert found[0][2] == pytest.approx((tmp_path / "model.ckpt-20.index").stat().st_mtime, abs=2)


def test_a_dangling_link_is_no_checkpoint_and_ends_the_listing(tmp_path):
  (tmp_path / "model.ckpt-5.index").symlink_to(tmp_path / "gone")
  assert file_names.written(epath.Path(tmp_path)) == []
  assert file_names.written(epath.Path(tmp_path / "no folder")) == []
