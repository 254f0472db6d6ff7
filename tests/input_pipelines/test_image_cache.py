"""Decoded images in memory and in files: whole ones alone, and those of the asked settings."""

import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import image_cache, image_folder, labelled_images
from tests.input_pipelines import tiny_data
from trainer import errors

SIZE = (4, 4, 3)


@pytest.fixture(autouse=True)
def _empty_cache(monkeypatch):
  """Empties the memory, and has a text of a number decode to an image of this value."""

  def decode(text, size, crop):
    return tf.fill(size, tf.cast(tf.strings.to_number(text), tf.uint8))

  monkeypatch.setattr(image_cache.images, "decode", decode)
  image_cache.clear()
  yield
  image_cache.clear()


TEXTS = [str(number) for number in range(0, 80, 10)]


def source(texts=TEXTS):
  examples = tf.data.Dataset.from_tensor_slices((texts, [0] * 4 + [1] * 4)).enumerate()
  return labelled_images.Source(
    name="my/set.input_fn",
    key=("set", tuple(texts)),
    count=len(texts),
    image_shape=(None, None, 3),
    stream=lambda *_: examples.map(lambda at, one: (at, (at, {"image": one[0]}, one[1]))),
    example_name=lambda position: f"photo {position}",
  )


def load(cache, size=SIZE, crop="squash", given=None):
  pixels, labels = image_cache.load(given or source(), size, crop, str(cache))
  return pixels.numpy()[:, 0, 0, 0].tolist(), labels.tolist()


EXPECTED = (list(range(0, 80, 10)), [0] * 4 + [1] * 4)


def files(cache):
  return sorted(path.name.rpartition("-")[2] for path in cache.iterdir())


@pytest.mark.parametrize("cache", ["memory", "cache"])
def test_all_examples_are_there_in_their_order(tmp_path, cache):
  cache = cache if cache == "memory" else tmp_path / cache
  assert load(cache) == EXPECTED
  pixels, labels = image_cache.load(source(), SIZE, "squash", str(cache))
  assert (pixels.shape, pixels.dtype, labels.dtype) == ((8, *SIZE), tf.uint8, np.int32)


def test_memory_is_filled_once(monkeypatch):
  load("memory")
  monkeypatch.setattr(image_cache, "_fill", None)
  assert load("memory") == EXPECTED


@pytest.mark.parametrize("other", [{"size": (2, 4, 3)}, {"crop": "central"}])
def test_other_settings_have_their_own_pixels(tmp_path, other):
  cache = tmp_path / "cache"
  load(cache)
  load(cache, **other)
  assert len(files(cache)) == 4


def test_a_new_empty_class_has_another_cache(tmp_path):
  (tmp_path / "set").mkdir()
  tiny_data.image_folder(tmp_path / "set")

  def key():
    names, labels, _ = image_folder.list_images(str(tmp_path / "set"))
    return image_folder.source_of(str(tmp_path / "set"), names, labels, channels=3).key

  before = key()
  assert key() == before
  (tmp_path / "set" / "aardvark").mkdir()
  assert key() != before


@pytest.mark.parametrize("damage", ["no labels", "no pixels", "cut off"])
def test_files_of_half_a_cache_are_written_again(tmp_path, damage):
  load(tmp_path / "cache")
  # TensorFlow keeps a file in memory by its path.
  cache = tmp_path / "copied"
  shutil.copytree(tmp_path / "cache", cache)
  [pixels] = cache.glob("*.pixels")
  [labels] = cache.glob("*.labels.npy")
  if damage == "no labels":
    labels.unlink()
    pixels.write_bytes(b"\0" * 8 * 48)  # of a process that was killed in between
  elif damage == "no pixels":
    pixels.unlink()
  else:
    pixels.write_bytes(pixels.read_bytes()[:100])
  assert load(cache) == EXPECTED
  assert len(files(cache)) == 2


def test_two_machines_write_at_the_same_time(tmp_path, monkeypatch):
  """The second one has the same process ID, and begins and ends while the first one writes."""
  cache, found, appended = tmp_path / "cache", [], image_cache._Appended

  class Slow(appended):
    def __setitem__(self, rows, values):
      super().__setitem__(rows, values)
      monkeypatch.setattr(image_cache, "_Appended", appended)
      found.append(load(cache))

  monkeypatch.setattr(image_cache, "_Appended", Slow)
  found.append(load(cache))
  assert found == [EXPECTED, EXPECTED]
  assert len(files(cache)) == 2


def test_a_failure_leaves_no_file(tmp_path):
  cache = tmp_path / "cache"
  with pytest.raises(errors.InputError, match="photo 5 is damaged"):
    load(cache, given=source([*TEXTS[:5], "no image", *TEXTS[6:]]))
  assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.OutputError, match=r"cache of my/set\.input_fn to .*/file/cache"):
    load(tmp_path / "file" / "cache")


def test_a_full_disk_is_told_before_the_decoding(tmp_path, monkeypatch):
  monkeypatch.setattr(image_cache, "_fill", None)
  usage = types.SimpleNamespace(free=8 * 48 - 1)
  monkeypatch.setattr(image_cache.shutil, "disk_usage", lambda folder: usage)
  with pytest.raises(errors.SettingError, match="more than its disk has free"):
    load(tmp_path / "cache")


def test_memory_is_checked_for_two_copies(monkeypatch):
  free = types.SimpleNamespace(available=2 * 8 * 48)
  monkeypatch.setattr(image_cache.psutil, "virtual_memory", lambda: free)
  assert load("memory") == EXPECTED
  image_cache.clear()
  free.available -= 1
  with pytest.raises(errors.SettingError, match='cache = "memory" needs'):
    load("memory")
