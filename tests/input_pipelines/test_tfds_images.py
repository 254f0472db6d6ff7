"""Sets of TensorFlow Datasets, prepared here as small ones of the same names."""

import io
import logging

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import cifar10, image_cache, tf_flowers, tfds_images
from tests.input_pipelines import tiny_data
from trainer import errors

PARAMS = {"batch_size": 4}
TRAIN, TEST = list(range(40)), list(range(100, 107))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
  folder = tmp_path_factory.mktemp("tfds")
  tiny_data.tfds_set(folder, "tiny", "1.0.0", {"train": TRAIN, "test": TEST})
  tiny_data.tfds_set(folder, "cifar10", "3.0.2", {"train": TRAIN, "test": TEST}, (32, 32), 10)
  tiny_data.tfds_set(folder, "tf_flowers", "3.0.1", {"train": TRAIN}, None, 5)
  return str(folder)


@pytest.fixture(autouse=True)
def _empty_cache():
  image_cache.clear()


def read(data_dir, split="test", **settings):
  return tfds_images.input_fn(PARAMS, "tiny", split, data_dir=data_dir, download=False, **settings)


@pytest.mark.parametrize("cache", ["memory", None])
def test_evaluation_is_the_split_in_order(data_dir, cache):
  dataset = read(data_dir, cache=cache)
  assert dataset.element_spec == (
    {"image": tf.TensorSpec([None, 8, 8, 3], tf.float32)},
    tf.TensorSpec([None], tf.int32),
  )
  assert tiny_data.values(dataset) == TEST
  assert np.concatenate([labels for _, labels in dataset]).tolist() == [value % 3 for value in TEST]


@pytest.mark.parametrize("cache", ["memory", None])
@pytest.mark.parametrize(
  ("split", "expected"),
  [("train[:90%]", TRAIN[:36]), ("train[35:]+test[:2]", TRAIN[35:] + TEST[:2])],
)
def test_split_syntax(data_dir, cache, split, expected):
  assert tiny_data.values(read(data_dir, split, cache=cache)) == expected


@pytest.mark.parametrize("cache", ["memory", None])
def test_training_epochs(data_dir, cache):
  tf.random.set_seed(2)
  values = tiny_data.values(read(data_dir, "train", training=True, cache=cache).take(20))
  assert sorted(values[:40]) == sorted(values[40:]) == TRAIN
  assert values[:40] != values[40:] != TRAIN


@pytest.mark.parametrize(
  "make",
  [
    lambda data_dir, start: tfds_images.input_fn(
      PARAMS, "tiny", training=True, data_dir=data_dir, cache=None, start=start
    ),
    lambda data_dir, start: cifar10.input_fn(PARAMS, training=True, data_dir=data_dir, start=start),
    lambda data_dir, start: tf_flowers.input_fn(
      PARAMS, training=True, data_dir=data_dir, image_size=8, cache=None, start=start
    ),
  ],
)
def test_goes_on_at_its_place(data_dir, make):
  results = []
  for first, passed in ((0, 25), (100, 0)):
    tf.random.set_seed(4)
    results.append(tiny_data.values(make(data_dir, first).skip(passed).take(6)))
  assert results[0] == results[1]


@pytest.mark.parametrize("hosts", [2])
@pytest.mark.parametrize("cache", ["memory", None])
def test_hosts_read_even_parts(data_dir, hosts, cache):
  shares = [
    tiny_data.values(
      read(data_dir, "train[:37]", cache=cache, input_context=tiny_data.context(index, hosts))
    )
    for index in range(hosts)
  ]
  assert tiny_data.joined(shares) == TRAIN[:37]
  assert max(map(len, shares)) - min(map(len, shares)) == 1


def test_agrees_with_tfds(data_dir):
  import tensorflow_datasets as tfds

  expected = [
    int(example["image"][0, 0, 0])
    for example in tfds.as_numpy(tfds.load("tiny", split="train[10%:50%]", data_dir=data_dir))
  ]
  assert tiny_data.values(read(data_dir, "train[10%:50%]")) == expected


def test_cifar10(data_dir):
  dataset = cifar10.input_fn(PARAMS, "test", data_dir=data_dir)
  assert dataset.element_spec[0]["image"].shape == [None, 32, 32, 3]
  assert tiny_data.values(dataset) == TEST
  assert len(cifar10.CLASS_NAMES) == 10


def test_tf_flowers(data_dir):
  values = {
    split: tiny_data.values(tf_flowers.input_fn(PARAMS, split, data_dir=data_dir, image_size=8))
    for split in tf_flowers.SPLITS
  }
  assert values == {"train": TRAIN[:34], "validation": TRAIN[34:]}
  with pytest.raises(
    errors.SettingError, match="split is 'test': expected one of train, validation"
  ):
    tf_flowers.input_fn(PARAMS, "test", data_dir=data_dir)


def test_class_names(data_dir):
  assert tfds_images.class_names("tiny", data_dir) == ("class 0", "class 1", "class 2")


def test_errors(data_dir, tmp_path):
  with pytest.raises(errors.SettingError, match="has no 'no_such_set'"):
    tfds_images.input_fn(PARAMS, "no_such_set", data_dir=data_dir)
  with pytest.raises(
    errors.SettingError,
    match=r"tfds_images.input_fn.split: tiny has no "
    r"'validation'; its splits are test, train",
  ):
    read(data_dir, "validation")
  with pytest.raises(
    errors.InputError,
    match=r"cifar10 is not in .*: set "
    r"cifar10.input_fn.data_dir",
  ):
    tfds_images.source(
      "cifar10", "train", str(tmp_path), download=False, gin_name="cifar10.input_fn"
    )
  with pytest.raises(
    errors.SettingError, match="differ in size: set tfds_images.input_fn.image_size"
  ):
    tfds_images.input_fn(PARAMS, "tf_flowers", data_dir=data_dir)


@pytest.fixture
def connections(monkeypatch):
  """The machines that a download asks for, each of which answers."""
  asked = []

  def create_connection(address, timeout):
    asked.append(address)
    return io.BytesIO()

  monkeypatch.setattr(tfds_images.socket, "create_connection", create_connection)
  monkeypatch.setattr(tfds_images.urllib.request, "getproxies", dict)
  return asked


def test_unreachable_machine_is_reported_before_the_download(tmp_path, connections, monkeypatch):
  def refuse(address, timeout):
    raise OSError("no route")

  monkeypatch.setattr(tfds_images.socket, "create_connection", refuse)
  with pytest.raises(
    errors.InputError,
    match=r"cifar10 is not in .*, and www\.cs\.toronto\.edu, .* does not answer "
    r"\(no route\)\. .*set cifar10\.input_fn\.data_dir",
  ):
    cifar10.input_fn(PARAMS, data_dir=str(tmp_path))


@pytest.mark.parametrize("remedy", ["bucket", "downloads"])
def test_bucket_or_earlier_download_replaces_an_absent_machine(
  remedy, tmp_path, connections, monkeypatch
):
  import tensorflow_datasets as tfds
  from tensorflow_datasets.core.download import resource

  def create_connection(address, timeout):
    if remedy == "downloads" or address[0] == "www.cs.toronto.edu":
      raise OSError("no route")
    return io.BytesIO()

  def download_and_prepare(self):
    raise ConnectionError("the download has begun")

  if remedy == "downloads":
    ((address, info),) = tfds.builder("cifar10", data_dir=tmp_path).url_infos.items()
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / resource.get_dl_fname(address, info.checksum)).touch()
  monkeypatch.setattr(tfds_images.socket, "create_connection", create_connection)
  monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", download_and_prepare)
  with pytest.raises(errors.InputError, match="the download has begun"):
    cifar10.input_fn(PARAMS, data_dir=str(tmp_path))


def test_names_of_classes_download_the_set_that_the_input_needs(tmp_path, connections, monkeypatch):
  import tensorflow_datasets as tfds

  def download_and_prepare(self):
    raise ConnectionError("the download has begun")

  monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", download_and_prepare)
  with pytest.raises(errors.InputError, match="the download has begun"):
    tfds_images.class_names("stanford_dogs", str(tmp_path))
  with pytest.raises(errors.InputError, match="download = True"):
    tfds_images.class_names("stanford_dogs", str(tmp_path), download=False)


def test_a_set_of_a_similar_name_is_proposed(tmp_path):
  with pytest.raises(errors.SettingError, match=r"no 'mnits' .* Did you mean mnist or "):
    tfds_images.input_fn(PARAMS, "mnits", data_dir=str(tmp_path))


def test_a_download_that_fails_is_one_sentence(tmp_path, connections, monkeypatch, caplog):
  caplog.set_level(logging.INFO, logger="absl")
  import tensorflow_datasets as tfds

  def download_and_prepare(self):
    raise ConnectionError("no network")

  monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", download_and_prepare)
  with pytest.raises(
    errors.InputError,
    match=r"its download failed \(ConnectionError: no "
    r"network\).*set cifar10.input_fn.data_dir",
  ):
    cifar10.input_fn(PARAMS, data_dir=str(tmp_path))
  assert connections == [("www.cs.toronto.edu", 443)]
  assert "Downloading cifar10 (162 MiB) to" in caplog.text


def test_a_damaged_image_is_named(tmp_path):
  tiny_data.tfds_set(tmp_path, "broken", "1.0.0", {"train": TRAIN})
  (path,) = (tmp_path / "broken" / "1.0.0").glob("*.tfrecord*")
  contents = [record.numpy() for record in tf.data.TFRecordDataset(str(path))]
  contents[23] = tiny_data.example(image=b"no image", label=[0])
  tiny_data.tfrecord(path, contents)
  with pytest.raises(
    errors.InputError,
    match=r"broken-train.*: record 23 \(counted from 0\) is no "
    r"JPEG",
  ):
    tfds_images.input_fn(PARAMS, "broken", data_dir=str(tmp_path))
  contents[23] = tiny_data.example(image=tiny_data.png(1)[:40], label=[0])
  tiny_data.tfrecord(path, contents)
  with pytest.raises(
    errors.InputError,
    match=r"broken-train.*: record 23 \(counted from 0\) is "
    r"damaged: \S",
  ):
    tfds_images.input_fn(PARAMS, "broken", data_dir=str(tmp_path))
