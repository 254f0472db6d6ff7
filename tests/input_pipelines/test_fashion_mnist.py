import gzip
import logging
import struct
import types
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from input_pipelines import fashion_mnist
from trainer import errors

COUNTS = {"train": 20, "test": 12}
FILES = {
  ("train", "images"): "train-images-idx3-ubyte.gz",
  ("train", "labels"): "train-labels-idx1-ubyte.gz",
  ("test", "images"): "t10k-images-idx3-ubyte.gz",
  ("test", "labels"): "t10k-labels-idx1-ubyte.gz",
}


def made_up(split, offset=0):
  """(images uint8 [n, 28, 28], labels uint8 [n]): the first pixel numbers the images."""
  count = COUNTS[split]
  images = np.random.RandomState(count + offset).randint(0, 256, (count, 28, 28)).astype(np.uint8)
  images[:, 0, 0] = np.arange(count)
  return images, ((np.arange(count) + offset) % 10).astype(np.uint8)


def idx(array):
  return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx_files(folder):
  folder.mkdir(parents=True)
  for split in COUNTS:
    for kind, array in zip(("images", "labels"), made_up(split), strict=True):
      (folder / FILES[split, kind]).write_bytes(gzip.compress(idx(array)))
  return folder


def prepare(data_dir):
  """A prepared TFDS set with other images than the IDX files have."""
  features = tfds.features.FeaturesDict(
    {
      "image": tfds.features.Image(shape=(28, 28, 1)),
      "label": tfds.features.ClassLabel(num_classes=10),
    }
  )
  splits = {}
  for split in COUNTS:
    images, labels = made_up(split, offset=5)
    splits[split] = tf.data.Dataset.from_tensor_slices(
      {"image": images[..., np.newaxis], "label": labels.astype(np.int64)}
    )
  tfds.dataset_builders.store_as_tfds_dataset(
    name="fashion_mnist",
    version="3.0.1",
    features=features,
    split_datasets=splits,
    data_dir=data_dir,
    disable_shuffling=True,
  )
  return data_dir


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
  return str(prepare(tmp_path_factory.mktemp("tf[d]s*")))  # no pattern


@pytest.fixture
def idx_dir(tmp_path):
  return str(write_idx_files(tmp_path / "idx"))


@pytest.fixture(autouse=True)
def _nothing_installed(tmp_path, monkeypatch):
  """No network, no TFDS folder, no Debian package; and nothing remembered."""

  def no_network(*args, **kwargs):
    raise urllib.error.URLError("no network")

  monkeypatch.setattr(urllib.request, "urlopen", no_network)
  monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "no_tfds"))
  monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", str(tmp_path / "no_debian"))
  fashion_mnist.load.cache_clear()
  fashion_mnist._find.cache_clear()


def assert_is(split, offset, **kwargs):
  images, labels = fashion_mnist.load(split, **kwargs)
  expected_images, expected_labels = made_up(split, offset)
  assert (images.dtype, labels.dtype) == (np.uint8, np.int32)
  np.testing.assert_array_equal(images, expected_images[..., np.newaxis])
  np.testing.assert_array_equal(labels, expected_labels)


@pytest.mark.parametrize("split", COUNTS)
class TestSources:
  def test_a_folder_of_idx_files(self, idx_dir, split):
    assert_is(split, 0, idx_dir=idx_dir)

  def test_the_debian_package(self, monkeypatch, idx_dir, split):
    monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", idx_dir)
    assert_is(split, 0)

  def test_a_prepared_set_comes_first(self, prepared, idx_dir, split):
    assert_is(split, 5, data_dir=prepared, idx_dir=idx_dir)

  def test_the_default_folder_of_tfds(self, monkeypatch, prepared, split):
    monkeypatch.setenv("TFDS_DATA_DIR", prepared)
    assert_is(split, 5)

  def test_a_download_comes_last(self, monkeypatch, prepared, split):
    calls = []

    def builder(name, data_dir):
      download = lambda: calls.append((name, data_dir))
      return types.SimpleNamespace(
        download_and_prepare=download, data_path=f"{prepared}/fashion_mnist/3.0.1"
      )

    monkeypatch.setattr(
      urllib.request, "urlopen", lambda *args, **kwargs: types.SimpleNamespace(close=lambda: None)
    )
    monkeypatch.setattr(tfds, "builder", builder)
    assert_is(split, 5, data_dir="/nowhere")
    assert calls == [("fashion_mnist", "/nowhere")]

  def test_a_download_that_was_broken_off_is_not_prepared(self, prepared, tmp_path, idx_dir, split):
    incomplete = tmp_path / "half" / "fashion_mnist" / "incomplete.AB12_3.0.1"
    incomplete.mkdir(parents=True)
    (incomplete / "dataset_info.json").write_text("{}")
    assert_is(split, 0, data_dir=str(tmp_path / "half"), idx_dir=idx_dir)


def test_the_source_is_logged_once(idx_dir, caplog):
  with caplog.at_level(logging.INFO, logger="absl"):
    for split in ("train", "test", "test"):
      fashion_mnist.input_fn({"batch_size": 4}, split=split, idx_dir=idx_dir)
  assert [record.getMessage() for record in caplog.records] == [
    f"Fashion-MNIST: reading the IDX files in {idx_dir}"
  ]


def test_without_any_source_the_error_lists_three_ways(tmp_path):
  with pytest.raises(errors.InputError) as caught:
    fashion_mnist.input_fn({"batch_size": 4})
  message = str(caught.value)
  for part in (
    "fashion_mnist.input_fn.data_dir = ",
    "apt-get install dataset-fashion-mnist",
    "fashion_mnist.input_fn.idx_dir = ",
    "no network",
    str(tmp_path / "no_tfds"),
    str(tmp_path / "no_debian"),
    *FILES.values(),
  ):
    assert part in message


def test_a_folder_that_was_named_must_have_the_files(tmp_path, idx_dir, monkeypatch):
  monkeypatch.setattr(fashion_mnist, "DEBIAN_FOLDER", idx_dir)
  other = write_idx_files(tmp_path / "other")
  (other / FILES["test", "labels"]).unlink()
  with pytest.raises(
    errors.InputError, match=f"{other} is without {FILES['test', 'labels']}"
  ) as caught:
    fashion_mnist.load("train", idx_dir=str(other))
  assert "not tried: idx_dir is set" in str(caught.value)


@pytest.mark.parametrize(
  "damage, message",
  [
    (lambda data: gzip.compress(data)[:-40], "gzip cannot decompress it"),
    (lambda data: gzip.compress(data)[:100], "gzip cannot decompress it"),
    (lambda data: b"<html>404</html>", "gzip cannot decompress it"),
    (lambda data: gzip.compress(data[:-1]), "its header announces another size"),
    (lambda data: gzip.compress(data + b"\0"), "its header announces another size"),
    (lambda data: gzip.compress(data[:10]), "its header announces another size"),
    (
      lambda data: gzip.compress(b"\1" + data[1:]),
      "starts with '01 00 08 03'; expected '00 00 08 03'",
    ),
    (lambda data: gzip.compress(b""), "starts with ''"),
  ],
)
def test_a_damaged_file_is_named(idx_dir, damage, message):
  path = f"{idx_dir}/{FILES['train', 'images']}"
  with open(path, "wb") as file:
    file.write(damage(idx(made_up("train")[0])))
  with pytest.raises(errors.InputError, match=message) as caught:
    fashion_mnist.load("train", idx_dir=idx_dir)
  assert path in str(caught.value)


@pytest.mark.parametrize(
  "kind, array, message",
  [
    ("labels", np.zeros(7, np.uint8), "7 labels"),
    ("labels", np.full(20, 10, np.uint8), "the label 10; expected 0 to 9"),
    ("images", np.zeros((20, 32, 32), np.uint8), r"shape \[20, 32, 32\]"),
  ],
)
def test_files_must_fit(idx_dir, kind, array, message):
  path = f"{idx_dir}/{FILES['train', kind]}"
  with open(path, "wb") as file:
    file.write(gzip.compress(idx(array)))
  with pytest.raises(errors.InputError, match=message) as caught:
    fashion_mnist.load("train", idx_dir=idx_dir)
  assert path in str(caught.value)


@pytest.mark.parametrize("training", [False, True])
def test_shapes_types_and_range(idx_dir, training):
  dataset = fashion_mnist.input_fn({"batch_size": 8}, training=training, idx_dir=idx_dir)
  batch = 8 if training else None
  assert dataset.element_spec == (
    {"image": tf.TensorSpec([batch, 28, 28, 1], tf.float32)},
    tf.TensorSpec([batch], tf.int32),
  )
  features, labels = next(iter(dataset))
  assert features["image"].numpy().min() == 0
  assert features["image"].numpy().max() == 1
  assert set(labels.numpy()) <= set(range(len(fashion_mnist.CLASS_NAMES)))


def numbers(features):
  """Which images of made_up these are."""
  return np.rint(features["image"][:, 0, 0, 0] * 255).astype(int).tolist()


def test_training_sees_every_example_once_an_epoch(idx_dir):
  batches = fashion_mnist.input_fn({"batch_size": 5}, training=True, idx_dir=idx_dir).take(8)
  seen = [number for features, _ in batches.as_numpy_iterator() for number in numbers(features)]
  assert sorted(seen[:20]) == sorted(seen[20:]) == list(range(20))
  assert seen[:20] != seen[20:]


def test_evaluation_is_once_and_in_order(idx_dir):
  batches = fashion_mnist.input_fn({"batch_size": 5}, split="test", idx_dir=idx_dir)
  assert [numbers(features) for features, _ in batches.as_numpy_iterator()] == [
    [0, 1, 2, 3, 4],
    [5, 6, 7, 8, 9],
    [10, 11],
  ]


def test_the_seed_gives_the_order(idx_dir):
  def order(seed):
    tf.random.set_seed(seed)
    return numbers(
      next(
        fashion_mnist.input_fn(
          {"batch_size": 20}, training=True, idx_dir=idx_dir
        ).as_numpy_iterator()
      )[0]
    )

  assert order(1) == order(1)
  assert order(1) != order(2)


def test_an_unknown_split_is_named(idx_dir):
  with pytest.raises(
    errors.SettingError,
    match=r"no split 'valid'; expected one of train, test "
    r".*fashion_mnist\.input_fn\.split",
  ):
    fashion_mnist.input_fn({"batch_size": 4}, split="valid", idx_dir=idx_dir)
