"""A folder with a sub-folder for each class."""

import logging
import os

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import augment, image_cache, image_folder
from tests import long
from tests.input_pipelines import tiny_data
from trainer import errors

PARAMS = {"batch_size": 3}


@pytest.fixture(autouse=True)
def _empty_cache():
  image_cache.clear()


@pytest.fixture
def folder(tmp_path):
  tiny_data.image_folder(tmp_path / "set")
  return tmp_path / "set"


@pytest.fixture(autouse=True)
def _parent(tmp_path):
  (tmp_path / "set").mkdir()


def read(folder, **settings):
  return image_folder.input_fn(PARAMS, str(folder), **{"image_size": 8, **settings})


@pytest.fixture(params=["memory", None, "disk"])
def cache(request, tmp_path):
  return str(tmp_path / "cache") if request.param == "disk" else request.param


def test_in_order_with_the_last_partial_batch(folder, cache):
  dataset = read(folder, cache=cache)
  assert dataset.element_spec == (
    {"image": tf.TensorSpec([None, 8, 8, 3], tf.float32)},
    tf.TensorSpec([None], tf.int32),
  )
  assert tiny_data.values(dataset) == list(range(0, 80, 10))
  assert [len(labels) for _, labels in dataset] == [3, 3, 2]
  assert np.concatenate([labels for _, labels in dataset]).tolist() == [0] * 4 + [1] * 4


def test_training_repeats_full_batches_with_each_image_once(folder, cache):
  tf.random.set_seed(1)
  dataset = read(folder, cache=cache, training=True)
  assert dataset.element_spec[0]["image"].shape == [3, 8, 8, 3]
  values = tiny_data.values(dataset.take(16))
  epochs = [values[start : start + 8] for start in range(0, 48, 8)]
  assert all(sorted(epoch) == list(range(0, 80, 10)) for epoch in epochs)
  assert len({tuple(epoch) for epoch in epochs}) > 1


@pytest.mark.parametrize(
  "settings",
  long.except_for(
    [{"cache": None, "crop": "random"}],
    [{"cache": "memory"}, {"cache": None}, {"cache": None, "crop": "random"}],
  ),
)
def test_the_seed_decides_the_order_and_the_augmentation(folder, settings):
  def first(seed):
    tf.random.set_seed(seed)
    dataset = read(folder, training=True, augment=_brighter, **settings)
    return np.concatenate([features["image"] for features, _ in dataset.take(6)])

  one = first(1)
  np.testing.assert_array_equal(one, first(1))
  assert (one != first(2)).any()


def test_augmentation_differs_by_epoch_and_is_off_in_evaluation(folder):
  def shown(images, draw):
    return tf.ones(tf.shape(images)) * draw(1)[:, :, tf.newaxis, tf.newaxis] * 255.0

  numbers = [
    image.flat[0]
    for features, _ in read(folder, training=True, augment=shown).take(16).as_numpy_iterator()
    for image in features["image"]
  ]
  assert len(set(numbers)) == len(numbers) == 48
  assert tiny_data.values(read(folder, augment=shown)) == list(range(0, 80, 10))


MEMORY, FILES = {"cache": "memory"}, {"cache": None, "crop": "random"}


@pytest.mark.parametrize(
  ("settings", "hosts"),
  long.except_for([(MEMORY, 2), (FILES, 1)], [(MEMORY, 1), (MEMORY, 2), (FILES, 1), (FILES, 2)]),
)
def test_goes_on_at_its_place(folder, settings, hosts):
  results = []
  for first, passed in ((0, 5), (5 * 3 * hosts, 0)):
    tf.random.set_seed(4)
    dataset = read(
      folder,
      training=True,
      start=first,
      input_context=tiny_data.context(0, hosts),
      augment=_brighter,
      **settings,
    )
    results.append(
      [features["image"] for features, _ in dataset.skip(passed).take(6).as_numpy_iterator()]
    )
  np.testing.assert_array_equal(*results)


def _brighter(images, draw):
  return augment.standard(images, draw, brightness=0.3)


def test_hosts_share_the_files(folder):
  hosts = 3
  shares = [
    tiny_data.values(read(folder, input_context=tiny_data.context(index, hosts)))
    for index in range(hosts)
  ]
  assert sorted(tiny_data.joined(shares)) == list(range(0, 80, 10))


def test_train_and_validation_are_apart_complete_and_stay(folder):
  splits = {
    split: tiny_data.values(read(folder, split=split, validation_share=0.4))
    for split in ("train", "validation")
  }
  assert sorted(splits["train"] + splits["validation"]) == list(range(0, 80, 10))
  assert splits["train"]
  assert splits["validation"]
  (folder / "ant" / "new.png").write_bytes(tiny_data.png(255))
  later = tiny_data.values(read(folder, split="validation", validation_share=0.4))
  assert [value for value in later if value != 255] == splits["validation"]


def test_disk_cache_is_written_once_and_not_used_for_new_files(folder, tmp_path):
  cache = tmp_path / "cache"
  read(folder, cache=str(cache))
  before = {path.name: path.stat().st_mtime_ns for path in cache.iterdir()}
  assert len(before) == 2
  assert tiny_data.values(read(folder, cache=str(cache))) == list(range(0, 80, 10))
  assert {path.name: path.stat().st_mtime_ns for path in cache.iterdir()} == before
  (folder / "ant" / "0.png").write_bytes(tiny_data.png(99))
  assert tiny_data.values(read(folder, cache=str(cache)))[0] == 99
  assert len(list(cache.iterdir())) == 4


@pytest.mark.parametrize("content", [b"", b"not an image", tiny_data.png(5)[:40]])
def test_a_bad_file_is_named_when_it_is_decoded_once(folder, content, tmp_path):
  (folder / "bee" / "1.png").write_bytes(content)
  for cache in ("memory", str(tmp_path / "cache")):
    with pytest.raises(errors.InputError, match=r"bee/1\.png is (no JPEG|damaged: \S)"):
      read(folder, cache=cache)
  assert not list((tmp_path / "cache").iterdir())


def test_the_last_file_may_be_the_bad_one(folder):
  (folder / "bee" / "3.png").write_bytes(b"")
  with pytest.raises(errors.InputError, match=r"bee/3\.png is no JPEG"):
    read(folder)


def test_what_is_no_image_is_named_when_it_is_decoded_each_time(folder):
  (folder / "bee" / "1.png").write_bytes(b"not an image")
  with pytest.raises(tf.errors.InvalidArgumentError, match=r"bee/1\.png is no JPEG"):
    list(read(folder, cache=None))


def test_other_files_and_depths(folder, caplog):
  caplog.set_level(logging.INFO, logger="absl")
  (folder / "ant" / "notes.txt").write_text("x")
  (folder / "ant" / ".hidden.png").write_bytes(b"")
  (folder / ".git").mkdir()
  (folder / "ant" / "more").mkdir()
  (folder / "ant" / "more" / "5.PNG").write_bytes(tiny_data.png(200, 9, 12))
  names, labels, classes = image_folder.list_images(str(folder))
  assert classes == ("ant", "bee")
  assert labels == [0] * 5 + [1] * 4
  assert names[4] == "ant/more/5.PNG"
  assert tiny_data.values(read(folder))[4] == 200
  said = [record.message for record in caplog.records if str(folder) in record.message]
  assert said == [
    f"{folder} has 9 images in 2 classes: ant (5), bee (4).",
    f"Ignored files in {folder}: 1 .txt; expected .jpg, .jpeg, .png, .gif, .bmp.",
  ]  # once, though the folder was listed twice


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"split": "test"}, "split is 'test': expected one of train, validation, all"),
    ({"split": "train"}, "needs validation_share"),
    ({"image_size": None}, "set image_folder.input_fn.image_size"),
    ({"crop": "random", "training": True}, "set cache = None"),
    ({"crop": "left"}, "crop is 'left'"),
  ],
)
def test_settings(folder, settings, message):
  with pytest.raises(errors.SettingError, match=message):
    read(folder, **settings)


def test_no_folder_no_images(tmp_path):
  with pytest.raises(errors.InputError, match="There is no folder .*nowhere"):
    read(tmp_path / "nowhere")
  with pytest.raises(
    errors.InputError, match="has no images: expected a sub-folder for each class"
  ):
    read(tmp_path / "set")


@pytest.mark.parametrize("place", [b"ant/\xff.png", b"\xff/1.png"])
def test_a_name_that_tensorflow_cannot_read_is_told(folder, place):
  path = os.path.join(os.fsencode(folder), place)
  os.makedirs(os.path.dirname(path), exist_ok=True)
  with open(path, "wb") as file:
    file.write(tiny_data.png(5))
  with pytest.raises(errors.InputError, match=r"set has a file or folder whose name is no UTF-8"):
    read(folder)
  if place.startswith(b"\xff"):
    with pytest.raises(errors.InputError, match="no UTF-8"):
      image_folder.class_names(str(folder))


def test_more_hosts_than_images(folder):
  with pytest.raises(errors.InputError, match="has 8 images in this split, fewer than the 9 hosts"):
    read(folder, input_context=tiny_data.context(0, 9))
