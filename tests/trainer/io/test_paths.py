"""Paths that need no TensorFlow."""

import pytest

from trainer import errors
from trainer.io import paths


def test_an_address_of_a_local_file_is_its_path(tmp_path):
  (tmp_path / "a.txt").write_text("here")
  assert paths.path(f"file://{tmp_path}") == paths.path(tmp_path)
  assert (paths.path(f"file://{tmp_path}") / "a.txt").read_text() == "here"


def test_buckets():
  assert str(paths.path("gs://bucket/digits") / "x") == "gs://bucket/digits/x"


def test_another_file_system_is_refused_with_words():
  with pytest.raises(
    errors.SettingError, match=r"hdfs://h/x is no usable path here: expected a local path, gs://"
  ):
    paths.path("hdfs://h/x")
