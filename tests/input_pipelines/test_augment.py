"""Augmentation of batches."""

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import augment, randomness

IMAGES = np.random.RandomState(0).randint(0, 256, [64, 12, 10, 3]).astype(np.uint8)


def apply(images=IMAGES, seed=1, epoch=0, **settings):
  count = len(images)
  draws = randomness.Draws(
    tf.constant(seed, tf.int64),
    tf.fill([count], tf.constant(epoch, tf.int64)),
    tf.range(count, dtype=tf.int64),
  )
  off = dict(flip=False, shift=0)
  return augment.standard(tf.constant(images), draws, **{**off, **settings}).numpy()


def test_off_is_nothing():
  np.testing.assert_array_equal(apply(), IMAGES)


def test_flip_mirrors_about_half():
  result = apply(flip=True)
  flipped = [
    np.array_equal(after, before[:, ::-1]) for after, before in zip(result, IMAGES, strict=True)
  ]
  same = [np.array_equal(after, before) for after, before in zip(result, IMAGES, strict=True)]
  assert all(a != b for a, b in zip(flipped, same, strict=True))
  assert 20 < sum(flipped) < 44


def test_an_alternating_flip_shows_both_views_in_two_epochs():
  views = [apply(flip="alternate", epoch=epoch) for epoch in range(3)]
  flipped = np.array(
    [[(a == b[:, ::-1]).all() for a, b in zip(v, IMAGES, strict=True)] for v in views]
  )
  same = np.array([[(a == b).all() for a, b in zip(v, IMAGES, strict=True)] for v in views])
  assert (flipped != same).all()
  assert (flipped[0] == same[1]).all()
  assert (flipped[0] == flipped[2]).all()
  assert 20 < flipped[0].sum() < 44
  other = apply(flip="alternate", seed=2)
  assert not np.array_equal(other, views[0])


def test_shift_is_a_window_of_the_mirrored_image():
  result = apply(shift=2)
  padded = np.pad(IMAGES, [(0, 0), (2, 2), (2, 2), (0, 0)], "reflect")
  places = set()
  for number, after in enumerate(result):
    found = [
      (y, x)
      for y in range(5)
      for x in range(5)
      if np.array_equal(padded[number, y : y + 12, x : x + 10], after)
    ]
    assert len(found) == 1
    places.update(found)
  assert len(places) > 15  # of the 25 that there are


def test_a_shift_larger_than_the_image_stays_inside():
  assert apply(images=IMAGES[:, :2, :2], shift=4).shape == (64, 2, 2, 3)


def test_cutout_is_one_square():
  result = apply(cutout=4)
  changed = (result != IMAGES).any(-1)
  assert (result[changed] == 128).all()
  for mask in changed:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    assert 1 <= len(rows) <= 4
    assert 1 <= len(columns) <= 4
    # A pixel that was grey before is not seen to change.
    assert mask[np.ix_(rows, columns)].mean() > 0.9


@pytest.mark.parametrize("setting", ["brightness", "contrast", "saturation"])
def test_colours_stay_in_range_and_differ_by_example(setting):
  result = apply(
    images=np.full_like(IMAGES, 100) + np.arange(3, dtype=np.uint8) * 20 + (IMAGES > 128),
    **{setting: 0.5},
  )
  assert result.dtype == np.float32
  assert result.min() >= 0
  assert result.max() <= 255
  spread = (
    result.reshape(64, -1).std(1) if setting != "brightness" else result.reshape(64, -1).mean(1)
  )
  assert spread.std() > 1


def test_brightness_is_a_shift_of_at_most_the_share():
  grey = np.full([64, 4, 4, 3], 128, np.uint8)
  moved = apply(images=grey, brightness=0.1).reshape(64, -1) - 128
  assert np.ptp(moved, axis=1).max() == 0
  assert 15 < np.abs(moved).max() <= 25.5
