"""The settings of cifar10.input_fn, as the pipeline gets them; `test_tfds_images` reads sets."""

from input_pipelines import cifar10
from tests.input_pipelines import passed_on


def test_every_setting_reaches_the_pipeline(monkeypatch):
  passed_on.check_settings(cifar10.input_fn, monkeypatch)


def test_a_host_continues_at_its_share_of_the_examples(monkeypatch):
  passed_on.check_hosts(cifar10.input_fn, "cifar10", monkeypatch)


def test_a_split_is_one_of_tensorflow_datasets(monkeypatch):
  source, _ = passed_on.of(cifar10.input_fn, monkeypatch, split="train[45000:]")
  assert source[0][1] == "train[45000:]"


def test_classes_have_the_order_of_the_labels():
  assert cifar10.CLASS_NAMES[0] == "airplane"
  assert list(cifar10.CLASS_NAMES) == sorted(cifar10.CLASS_NAMES)
  assert len(set(cifar10.CLASS_NAMES)) == 10
