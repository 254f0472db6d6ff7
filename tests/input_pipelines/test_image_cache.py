"""Decoded images in memory and in files: whole ones alone, and those of the asked settings."""

import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import image_cache, image_folder
from tests.input_pipelines import tiny_data
from trainer import errors

SIZE = (4, 4, 3)


@pytest.fixture(autouse=True)
def _empty_cache():
  image_cache.clear()
  yield
  image_cache.clear()


@pytest.fixture
def folder(tmp_path):
  tiny_data.image_folder(tmp_path / "set")
  return tmp_path / "set"


@pytest.fixture(autouse=True)
def _parent(tmp_path):
  (tmp_path / "set").mkdir()


def source(folder):
  names, labels, _ = image_folder.list_images(str(folder))
  return image_folder.source_of(str(folder), names, labels, channels=3)


def load(folder, cache, size=SIZE, crop="squash"):
  pixels, labels = image_cache.load(source(folder), size, crop, str(cache))
  return pixels.numpy()[:, 0, 0, 0].tolist(), labels.tolist()


EXPECTED = (list(range(0, 80, 10)), [0] * 4 + [1] * 4)


def files(cache):
  return sorted(path.name.rpartition("-")[2] for path in cache.iterdir())


@pytest.mark.parametrize("cache", ["memory", "cache"])
def test_all_examples_are_there_in_their_order(folder, tmp_path, cache):
  cache = cache if cache == "memory" else tmp_path / cache
  assert load(folder, cache) == EXPECTED
  pixels, labels = image_cache.load(source(folder), SIZE, "squash", str(cache))
  assert (pixels.shape, pixels.dtype, labels.dtype) == ((8, *SIZE), tf.uint8, np.int32)


def test_memory_is_filled_once(folder, monkeypatch):
  load(folder, "memory")
  monkeypatch.setattr(image_cache, "_fill", None)
  assert load(folder, "memory") == EXPECTED


@pytest.mark.parametrize("other", [{"size": (2, 4, 3)}, {"crop": "central"}])
def test_other_settings_have_their_own_pixels(folder, tmp_path, other):
  cache = tmp_path / "cache"
  load(folder, cache)
  load(folder, cache, **other)
  assert len(files(cache)) == 4


@pytest.mark.parametrize("cache", ["memory", "cache"])
def test_a_new_empty_class_changes_the_labels(folder, tmp_path, cache):
  cache = cache if cache == "memory" else tmp_path / cache
  load(folder, cache)
  (folder / "aardvark").mkdir()
  assert load(folder, cache) == (EXPECTED[0], [1] * 4 + [2] * 4)


@pytest.mark.parametrize("damage", ["no labels", "no pixels", "cut off"])
def test_files_of_half_a_cache_are_written_again(folder, tmp_path, damage):
  load(folder, tmp_path / "cache")
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
  assert load(folder, cache) == EXPECTED
  assert len(files(cache)) == 2


def test_two_machines_write_at_the_same_time(folder, tmp_path, monkeypatch):
  """The second one has the same process ID, and begins and ends while the first one writes."""
  cache, found = tmp_path / "cache", []

  class Slow(image_cache._Appended):
    def __setitem__(self, rows, values):
      super().__setitem__(rows, values)
      monkeypatch.undo()
      found.append(load(folder, cache))

  monkeypatch.setattr(image_cache, "_Appended", Slow)
  found.append(load(folder, cache))
  assert found == [EXPECTED, EXPECTED]
  assert len(files(cache)) == 2


def test_a_failure_leaves_no_file(folder, tmp_path, monkeypatch):
  cache = tmp_path / "cache"
  (folder / "bee" / "1.png").write_bytes(b"no image")
  with pytest.raises(errors.InputError, match=r"bee/1\.png"):
    load(folder, cache)
  assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(folder, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.OutputError, match=r"cache of image_folder\.input_fn to .*/file/cache"):
    load(folder, tmp_path / "file" / "cache")


def test_a_full_disk_is_told_before_the_decoding(folder, tmp_path, monkeypatch):
  monkeypatch.setattr(image_cache, "_fill", None)
  usage = types.SimpleNamespace(free=8 * 48 - 1)
  monkeypatch.setattr(image_cache.shutil, "disk_usage", lambda folder: usage)
  with pytest.raises(errors.SettingError, match="more than its disk has free"):
    load(folder, tmp_path / "cache")


def test_memory_is_checked_for_two_copies(folder, monkeypatch):
  free = types.SimpleNamespace(available=2 * 8 * 48)
  monkeypatch.setattr(image_cache.psutil, "virtual_memory", lambda: free)
  assert load(folder, "memory") == EXPECTED
  image_cache.clear()
  free.available -= 1
  with pytest.raises(errors.SettingError, match='cache = "memory" needs'):
    load(folder, "memory")
