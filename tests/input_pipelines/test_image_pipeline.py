"""Batches of images with all that is random: the same on any number of cores and after a resume."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import augment, image_cache, image_folder
from tests import long

CLASSES = 3
COUNT = 21
ALL = {
  "augment": functools.partial(
    augment.standard,
    flip="alternate",
    shift=2,
    cutout=4,
    randaugment=1,
    brightness=0.1,
    contrast=0.1,
    saturation=0.1,
  ),
  "mix": functools.partial(augment.mix, classes=CLASSES, mixup=0.4, cutmix=1.0),
}

# By cache. The augmentation comes after the cache, and RandAugment takes a second to trace.
RANDOM = {"memory": ALL, None: ALL | {"augment": functools.partial(ALL["augment"], randaugment=0)}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  root = tmp_path_factory.mktemp("images")
  random = np.random.RandomState(0)
  for number in range(COUNT):
    home = root / f"class {number % CLASSES}"
    home.mkdir(exist_ok=True)
    image = random.randint(0, 256, [20, 20, 3]).astype(np.uint8)
    (home / f"{number}.png").write_bytes(tf.io.encode_png(image).numpy())
  return str(root)


@pytest.fixture(autouse=True)
def _empty_cache():
  image_cache.clear()


def examples(folder, cache, count, batch_size=8, start=0, **settings):
  """(images, labels) of the training from example `start` on, without their batches."""
  tf.random.set_seed(3)
  dataset = image_folder.input_fn(
    {"batch_size": batch_size},
    folder,
    training=True,
    image_size=20,
    cache=cache,
    start=start,
    **settings,
  )
  batches = list(dataset.take(-(-count // batch_size)))
  images = np.concatenate([features["image"] for features, _ in batches])
  return images[:count], np.concatenate([labels for _, labels in batches])[:count]


@functools.cache
def whole(folder, cache):
  """The first 80 examples, in one batch."""
  return examples(folder, cache, 80, batch_size=80, **RANDOM[cache])


# From the beginning into the fourth epoch, and from a place on in the third. Both caches have both.
BATCHES = long.except_for(
  [("memory", 5, 0, 65), (None, 8, 56, 16)],
  [
    (cache, *each)
    for cache in ("memory", None)
    for each in ((5, 0, 65), (8, 1, 16), (8, 8, 16), (8, 56, 16))
  ],
)


@pytest.mark.parametrize(("cache", "batch_size", "start", "count"), BATCHES)
def test_batches_of_any_size_go_on_at_their_place(folder, cache, batch_size, start, count):
  several = examples(folder, cache, count, batch_size, start, **RANDOM[cache])
  for found, wanted in zip(several, whole(folder, cache), strict=True):
    np.testing.assert_array_equal(found, wanted[start : start + count])


def plain_and_mixed(folder, cache, **settings):
  plain = examples(folder, cache, 2 * COUNT)
  mixed = examples(
    folder, cache, 2 * COUNT, mix=functools.partial(augment.mix, classes=CLASSES, **settings)
  )
  return plain, mixed


@pytest.mark.parametrize("cache", ["memory", None])
def test_mixed_images_are_of_pairs_of_the_set(folder, cache):
  (plain, labels), (mixed, probabilities) = plain_and_mixed(folder, cache, cutmix=1.0)
  assert probabilities.shape == (2 * COUNT, CLASSES)
  partners = set()
  for number, image in enumerate(mixed):
    other = (image != plain[number]).any(-1)
    fits = [((image == each).all(-1) | ~other).all() for each in plain[:COUNT]]
    partner = int(np.argmax(fits))
    assert any(fits)
    partners.add(partner)
    wanted = np.zeros(CLASSES)
    wanted[labels[number]] += 1 - other.mean()
    wanted[labels[partner]] += other.mean()
    if other.any():
      np.testing.assert_allclose(probabilities[number], wanted, atol=1e-6)
  assert len(partners) > COUNT / 3


def test_partners_change_with_the_epoch(folder):
  (plain, _), (mixed, _) = plain_and_mixed(folder, "memory", mixup=4.0)
  order = [int(np.argmin(np.abs(plain[:COUNT] - one).sum((1, 2, 3)))) for one in plain]
  first = {row: mixed[place] for place, row in enumerate(order[:COUNT])}
  second = {row: mixed[COUNT + place] for place, row in enumerate(order[COUNT:])}
  assert all((first[row] != second[row]).any() for row in first)


def test_evaluation_is_not_mixed(folder):
  dataset = image_folder.input_fn({"batch_size": 4}, folder, image_size=20, **ALL)
  assert dataset.element_spec[1] == tf.TensorSpec([None], tf.int32)
