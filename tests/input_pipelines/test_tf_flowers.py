"""The settings of tf_flowers.input_fn, and its splits; `test_tfds_images` reads sets."""

import pytest

from input_pipelines import tf_flowers
from tests.input_pipelines import passed_on
from trainer import errors


def test_every_setting_reaches_the_pipeline(monkeypatch):
  passed_on.check_settings(tf_flowers.input_fn, monkeypatch)


def test_a_host_continues_at_its_share_of_the_examples(monkeypatch):
  passed_on.check_hosts(tf_flowers.input_fn, "tf_flowers", monkeypatch)


@pytest.mark.parametrize(
  ("split", "part"), [("train", "train[:85%]"), ("validation", "train[85%:]")]
)
def test_the_splits_are_parts_of_the_one_split(monkeypatch, split, part):
  source, _ = passed_on.of(tf_flowers.input_fn, monkeypatch, split=split)
  assert source[0][1] == part


@pytest.mark.parametrize("split", ["test", "", "train[:10%]"])
def test_another_split_is_refused(split):
  with pytest.raises(errors.SettingError, match="expected one of train, validation"):
    tf_flowers.input_fn({"batch_size": 4}, split)
