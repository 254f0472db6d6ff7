"""Augmentation of batches, and mixes of pairs."""

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import augment, randomness
from trainer import errors

IMAGES = np.random.RandomState(0).randint(0, 256, [64, 12, 10, 3]).astype(np.uint8)


def draws(count, seed=1, epoch=0):
  return randomness.Draws(
    tf.constant(seed, tf.int64),
    tf.fill([count], tf.constant(epoch, tf.int64)),
    tf.range(count, dtype=tf.int64),
  )


def apply(images=IMAGES, seed=1, epoch=0, **settings):
  off = dict(flip=False, shift=0)
  random = draws(len(images), seed, epoch)
  return augment.standard(tf.constant(images), random, **{**off, **settings}).numpy()


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


CLASSES = 5
LABELS = np.arange(64) % CLASSES
OTHERS, THEIR_LABELS = IMAGES[::-1], LABELS[::-1]


def mix(labels=LABELS, **settings):
  """(images, probabilities, weights of the own labels where the partner has another)."""
  settings = {"classes": CLASSES, **settings}
  tensors = [tf.constant(each) for each in (IMAGES, labels, OTHERS, THEIR_LABELS)]
  images, probabilities = (
    each.numpy() for each in augment.mix(*tensors, draws(len(IMAGES)), **settings)
  )
  assert images.dtype == probabilities.dtype == np.float32
  np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
  return images, probabilities, probabilities[np.arange(64), LABELS]


DIFFER = LABELS != THEIR_LABELS


def test_mixup_is_a_mean_of_both_images_and_labels():
  images, _, weights = mix(mixup=1.0)
  wanted = IMAGES * weights[:, None, None, None] + OTHERS * (1 - weights[:, None, None, None])
  np.testing.assert_allclose(images[DIFFER], wanted[DIFFER], atol=1e-3)
  assert 0.2 < weights[DIFFER].std() < 0.4  # of uniform numbers: 0.29


def test_small_concentration_leaves_most_images_almost_unchanged():
  _, _, weights = mix(mixup=0.1)
  assert np.mean((weights < 0.05) | (weights > 0.95)) > 0.6


def test_the_weights_have_the_distribution():
  for concentration, variance in ((0.2, 1 / 5.6), (1.0, 1 / 12), (4.0, 1 / 36)):
    found = augment._quantiles(concentration)
    np.testing.assert_allclose([found.mean(), found.var()], [0.5, variance], rtol=2e-3)


def test_cutmix_mixes_labels_by_the_area_of_the_other_image():
  images, _, weights = mix(cutmix=1.0)
  theirs = (images == OTHERS).all(-1) & (IMAGES != OTHERS).any(-1)
  own = (images == IMAGES).all(-1)
  assert (theirs | own).all()
  np.testing.assert_allclose(weights[DIFFER], 1 - theirs.mean((1, 2))[DIFFER], atol=1e-6)
  for mask in theirs:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    assert mask[np.ix_(rows, columns)].all()
  assert 0.2 < theirs.mean() < 0.6


def test_mixup_or_cutmix_is_drawn_per_example_and_some_get_none():
  images, _, _ = mix(mixup=1.0, cutmix=1.0, share=0.8)
  same = (images == IMAGES).all((1, 2, 3))
  is_cut = ((images == IMAGES) | (images == OTHERS)).all((1, 2, 3)) & ~same
  assert 3 <= same.sum() <= 24
  assert 15 <= is_cut.sum() <= 35
  assert (~same & ~is_cut).sum() >= 15


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    (
      {"mixup": 0.2, "classes": None},
      "augment.mix.classes is None: expected the number of classes",
    ),
    ({}, "set augment.mix.mixup or augment.mix.cutmix"),
    ({"mixup": -0.1}, "augment.mix.mixup is -0.1: expected a number from 0 on"),
    ({"cutmix": -1.0}, "augment.mix.cutmix is -1.0"),
    ({"mixup": 0.2, "share": 1.5}, "augment.mix.share is 1.5: expected a number from 0 to 1"),
  ],
)
def test_mixes_that_cannot_be(settings, message):
  with pytest.raises(errors.SettingError, match=message):
    mix(**settings)


def test_a_label_beyond_the_classes():
  with pytest.raises(tf.errors.InvalidArgumentError, match="augment.mix.classes is 5"):
    mix(labels=LABELS + 1, mixup=0.2)
