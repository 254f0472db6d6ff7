"""Sharded TFRecords: folders with a shards.json, which Octet 0.1.0 wrote, and others."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import image_cache, tfrecord
from tests.input_pipelines import tiny_data
from trainer import errors

PARAMS = {"batch_size": 4}
VALUES = list(range(0, 250, 10))
FEATURES = {
  "signal": ((2, 2), "float32"),
  "raw": ((3,), "uint8"),
  "many": ((), "int32"),
  "label": ((), "int64"),
}


@pytest.fixture(autouse=True)
def _empty_cache():
  image_cache.clear()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
  folder = tmp_path_factory.mktemp("shards")
  tiny_data.shards(folder, VALUES, 3)
  return folder


@pytest.fixture
def shards(written, tmp_path):
  """A copy to do harm to."""
  for path in written.iterdir():
    (tmp_path / path.name).write_bytes(path.read_bytes())
  return tmp_path


@pytest.fixture
def signals(tmp_path):
  """Two files of ten records each that no index tells of."""
  for number in range(2):
    tiny_data.tfrecord(
      tmp_path / f"signals-{number}",
      [
        tiny_data.example(
          signal=[float(10 * number + i)] * 4,
          raw=bytes([i, 2, 3]),
          many=[i],
          label=[10 * number + i],
        )
        for i in range(10)
      ],
    )
  return str(tmp_path / "signals-*")


def labels(dataset):
  return np.concatenate([labels for _, labels in dataset.as_numpy_iterator()]).tolist()


def read(path, **settings):
  return tfrecord.input_fn(PARAMS, str(path), **{"image_size": 8, **settings})


@pytest.mark.parametrize("cache", [None, "memory"])
def test_every_image_once_with_its_label(written, cache):
  dataset = read(written, cache=cache)
  assert dataset.element_spec == (
    {"image": tf.TensorSpec([None, 8, 8, 3], tf.float32)},
    tf.TensorSpec([None], tf.int32),
  )
  values = tiny_data.values(dataset)
  assert sorted(values) == VALUES
  assert labels(dataset) == [value % 3 for value in values]
  assert tiny_data.values(dataset) == values


@pytest.mark.parametrize("cache", [None, "memory"])
def test_training_epochs(written, cache):
  tf.random.set_seed(0)
  values = tiny_data.values(read(written, training=True, cache=cache).take(50))
  epochs = [values[start : start + 25] for start in range(0, 200, 25)]
  assert all(sorted(epoch) == VALUES for epoch in epochs)
  assert len({tuple(epoch) for epoch in epochs}) == 8


@pytest.mark.parametrize("hosts", [2, 4])  # of three files
def test_hosts_share_files_or_ranges(written, hosts):
  shares = [
    tiny_data.values(read(written, input_context=tiny_data.context(index, hosts)))
    for index in range(hosts)
  ]
  assert all(shares)
  assert sorted(tiny_data.joined(shares)) == VALUES


def test_other_records(signals):
  dataset = read(signals, features=FEATURES)
  features, _ = next(dataset.as_numpy_iterator())
  assert features["signal"].shape == (4, 2, 2)
  assert features["signal"][3, 0, 0] == 3
  np.testing.assert_array_equal(features["raw"], [[i, 2, 3] for i in range(4)])
  assert features["many"].dtype == np.int32
  assert labels(dataset) == list(range(20))


def test_other_records_without_label(signals):
  dataset = read(signals, features={"signal": ((2, 2), "float32")}, label_key=None)
  assert dataset.element_spec == {"signal": tf.TensorSpec([None, 2, 2], tf.float32)}


def test_other_records_in_training(signals):
  tf.random.set_seed(0)
  found = labels(read(signals, features=FEATURES, training=True).take(10))
  assert sorted(found[:20]) == sorted(found[20:]) == list(range(20))
  assert found[:20] != found[20:]


@pytest.mark.parametrize("known", [True, False])
def test_goes_on_at_its_place(written, signals, known):
  results = []
  for first, passed in ((0, 9), (36, 0)):
    tf.random.set_seed(4)
    dataset = (
      read(written, training=True, start=first)
      if known
      else read(signals, features=FEATURES, training=True, start=first)
    )
    results.append(labels(dataset.skip(passed).take(6)))
  assert results[0] == results[1]


def test_hosts_that_share_files_of_unknown_length(signals):
  shares = [
    labels(read(signals, features=FEATURES, input_context=tiny_data.context(index, 3)))
    for index in range(3)
  ]
  assert sorted(tiny_data.joined(shares)) == list(range(20))
  with pytest.raises(errors.InputError, match="have 20 records, fewer than the 21 hosts"):
    read(signals, features=FEATURES, input_context=tiny_data.context(0, 21))


def test_an_image_beside_other_features(tmp_path):
  tiny_data.tfrecord(
    tmp_path / "a.tfrecord",
    [tiny_data.example(photo=tiny_data.png(i), place=[0.5, float(i)], label=[i]) for i in range(6)],
  )
  spec = {"photo": "image", "place": ((2,), "float32"), "label": ((), "int64")}
  features, _ = next(read(tmp_path, features=spec).as_numpy_iterator())
  assert sorted(features) == ["image", "place"]
  assert features["place"][:, 1].tolist() == [0, 1, 2, 3]
  assert features["image"].shape == (4, 8, 8, 3)


@pytest.mark.parametrize(
  ("key", "dtype", "value"),
  [("label", "int64", 2**31), ("label", "float32", 1.5), ("place", "int32", -(2**31) - 1)],
)
def test_a_number_that_does_not_fit_its_type_is_named(tmp_path, key, dtype, value):
  spec = {"photo": "image", "place": ((1,), "int64"), "label": ((), "int64")}
  spec[key] = spec[key][0], dtype
  good = dict(photo=tiny_data.png(1), place=[2], label=[2.0 if dtype == "float32" else 2])
  records = [tiny_data.example(**good), tiny_data.example(**{**good, key: [value]})]
  tiny_data.tfrecord(tmp_path / "a.tfrecord", records)
  named = rf"a\.tfrecord: record 1 \(counted from 0\) has a number that is no int32.*\({key} of"
  with pytest.raises(tf.errors.InvalidArgumentError, match=named):
    list(read(tmp_path, features=spec))


def test_a_changed_size_is_found_before_reading(shards):
  path = shards / "data-00001-of-00003.tfrecord"
  path.write_bytes(path.read_bytes()[:-3])
  with pytest.raises(
    errors.InputError,
    match=r"data-00001-of-00003.tfrecord has \d+ bytes, and "
    r"shards.json lists \d+",
  ):
    read(shards)


def test_a_missing_shard_is_found(shards):
  os.remove(shards / "data-00002-of-00003.tfrecord")
  with pytest.raises(errors.InputError, match="data-00002-of-00003.tfrecord is missing"):
    read(shards)


def test_a_changed_byte_is_found_by_the_checksum(shards):
  tiny_data.flip_bit(shards / "data-00001-of-00003.tfrecord", 100)
  with pytest.raises(
    errors.InputError, match="data-00001-of-00003.tfrecord is damaged: its SHA-256"
  ):
    read(shards, verify="full")
  with pytest.raises(
    tf.errors.InvalidArgumentError,
    match="data-00001-of-00003.tfrecord: the record at byte 0 is damaged",
  ):
    list(read(shards))
  with pytest.raises(
    errors.InputError, match="data-00001-of-00003.tfrecord: the record at byte 0 is damaged"
  ):
    read(shards, cache="memory")


def test_an_unfinished_folder(shards):
  index = json.loads((shards / "shards.json").read_text())
  index["shards"][1] = None
  (shards / "shards.json").write_text(json.dumps(index))
  with pytest.raises(errors.InputError, match="has 2 of 3 shards: its shards.json was"):
    read(shards)


def test_a_glob_of_some_shards(written):
  assert len(tiny_data.values(read(written / "data-0000[01]*"))) == 16


@pytest.mark.parametrize("content", ["{", '{"version": 1}', "[]"])
def test_an_index_that_cannot_be_read(shards, content):
  (shards / "shards.json").write_text(content)
  with pytest.raises(errors.InputError, match="Cannot read .*shards.json"):
    read(shards)


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"features": None}, "set tfrecord.input_fn.features"),
    ({"features": {"signal": "float32"}}, r"features\['signal'\] is 'float32'"),
    ({"features": {"signal": ((), "floaty"), "label": ((), "int64")}}, "has the dtype 'floaty'"),
    ({"features": {"a": "image", "b": "jpeg", "label": ((), "int64")}}, "has 2 images, a, b"),
    ({"label_key": "target"}, "label_key is 'target', and the features are"),
  ],
)
def test_settings(signals, settings, message):
  with pytest.raises(errors.SettingError, match=message):
    read(signals, **{"features": FEATURES, **settings})


def test_settings_with_an_index(written):
  with pytest.raises(
    errors.SettingError, match="verify is 'maybe': expected one of size, full, off"
  ):
    read(written, verify="maybe")


def test_no_files(tmp_path):
  with pytest.raises(errors.InputError, match="There are no files .*nothing-"):
    read(tmp_path / "nothing-*")


def test_a_folder_whose_name_looks_like_a_pattern(signals, tmp_path):
  folder = tmp_path / "a[b]"
  folder.mkdir()
  for number in range(2):
    (tmp_path / f"signals-{number}").rename(folder / f"{number}.tfrecord")
  assert labels(tfrecord.input_fn(PARAMS, str(folder), FEATURES)) == list(range(20))
