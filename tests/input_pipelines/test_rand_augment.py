"""The operations of RandAugment, each by what it does to an image, and the choice among them."""

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import augment, rand_augment, randomness
from trainer import errors

IMAGES = np.random.RandomState(0).randint(0, 256, [64, 12, 10, 3]).astype(np.uint8)


def apply(name, images=IMAGES, sign=1.0, strength=0.5):
  signs = tf.fill([len(images)], sign)
  return rand_augment.OPERATIONS[name](tf.constant(images), signs, strength).numpy()


def draws(examples, epoch=0):
  count = len(examples)
  return randomness.Draws(
    tf.constant(1, tf.int64),
    tf.fill([count], tf.constant(epoch, tf.int64)),
    tf.constant(examples, tf.int64),
  )


def randaugment(images, examples, **settings):
  settings = {"flip": False, "shift": 0, "randaugment": 2, **settings}
  return augment.standard(tf.constant(images), draws(examples), **settings).numpy()


def test_there_are_fourteen():
  assert len(rand_augment.OPERATIONS) == 14
  assert (apply("identity") == IMAGES).all()


@pytest.mark.parametrize(
  "name", ["shear x", "shear y", "translate x", "translate y", "rotate", "brightness", "color"]
)
def test_directions_differ_and_no_strength_is_nothing(name):
  assert (apply(name) != apply(name, sign=-1.0)).any()
  np.testing.assert_array_equal(apply(name, strength=0.0), IMAGES)


def test_translations_move_by_whole_shares_of_the_side():
  strength = 3 / 12 / (150 / 331)  # three of twelve rows
  moved = apply("translate y", strength=strength)
  np.testing.assert_array_equal(moved[:, :-3], IMAGES[:, 3:])
  assert (moved[:, -3:] == 128).all()
  back = apply("translate y", sign=-1.0, strength=strength)
  np.testing.assert_array_equal(back[:, 3:], IMAGES[:, :-3])


def test_a_shear_leaves_the_middle_row():
  images = IMAGES[:, :11]
  sheared = apply("shear x", images)
  np.testing.assert_array_equal(sheared[:, 5], images[:, 5])
  assert (sheared[:, 0] != images[:, 0]).any()


def test_a_rotation_keeps_the_middle():
  images = IMAGES[:, :11, :9]
  turned = apply("rotate", images)
  np.testing.assert_array_equal(turned[:, 5, 4], images[:, 5, 4])
  assert (turned[:, 0, 0] == 128).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_colours_are_blends(sign):
  factor = 1 + 0.45 * sign
  pixels = IMAGES.astype(float)
  grey = np.floor(pixels @ rand_augment.GREY_WEIGHTS + 0.5)
  others = {
    "brightness": 0.0,
    "color": grey[..., None],
    "contrast": np.round(grey.mean((1, 2)))[:, None, None, None],
  }
  for name, other in others.items():
    wanted = np.clip(other + (pixels - other) * factor, 0, 255)
    assert np.abs(apply(name, sign=sign) - wanted).max() <= 1, name


def test_sharpness_is_a_blend_with_means_of_neighbours():
  image = np.zeros([1, 5, 5, 1], np.uint8)
  image[0, 2, 2] = 130
  softer = apply("sharpness", image, sign=-1.0)[0, :, :, 0]
  assert softer[2, 2] == 130 - round(0.45 * 80)  # 5 of 13 parts are its own: 50
  assert (softer[1:4, 1:4] > 0).all()
  assert (softer[0] == 0).all()


def test_values_are_cut_turned_and_stretched():
  np.testing.assert_array_equal(apply("posterize"), IMAGES & 0b11111100)
  np.testing.assert_array_equal(apply("posterize", strength=1.0), IMAGES & 0b11110000)
  np.testing.assert_array_equal(apply("solarize"), np.where(IMAGES >= 128, 255 - IMAGES, IMAGES))
  stretched = apply("autocontrast", IMAGES // 4 + 90)
  assert (stretched.min((1, 2)) == 0).all()
  assert (stretched.max((1, 2)) == 255).all()
  flat = np.full([2, 4, 4, 3], 7, np.uint8)
  np.testing.assert_array_equal(apply("autocontrast", flat), flat)


def test_equalized_values_are_even():
  # Of 1,024 pixels each value in 100..131 has 32, so each is 32 of 992 from the next: 255 ÷ 31.
  values = np.random.RandomState(1).permutation(np.repeat(np.arange(100, 132), 32))
  image = values.reshape(1, 32, 32, 1).astype(np.uint8)
  step = (1024 - 32) // 255
  wanted = np.minimum(((values - 100) * 32 + step // 2) // step, 255).reshape(image.shape)
  np.testing.assert_array_equal(apply("equalize", image), wanted)
  flat = np.full([2, 4, 4, 3], 7, np.uint8)
  np.testing.assert_array_equal(apply("equalize", flat), flat)


def test_each_image_has_its_own_operations_whatever_the_batch():
  whole = randaugment(IMAGES, np.arange(64))
  assert whole.dtype == np.uint8
  changed = (whole != IMAGES).any((1, 2, 3)).mean()
  assert changed > 0.8  # the rest drew the identity, or what does nothing to them
  for rows in (slice(0, 5), slice(5, 6), slice(40, 64)):
    np.testing.assert_array_equal(randaugment(IMAGES[rows], np.arange(64)[rows]), whole[rows])


def test_all_operations_are_drawn():
  image = np.random.RandomState(1).randint(30, 200, [1, 20, 20, 3]).astype(np.uint8)
  same = np.broadcast_to(image, [2000, 20, 20, 3])
  results = randaugment(same, np.arange(2000), randaugment=1)
  # Nine have two directions; the identity and four others have one.
  assert len(np.unique(results.reshape(2000, -1), axis=0)) == 5 + 2 * 9


@pytest.mark.parametrize("magnitude", [-1.0, 31.0])
def test_a_magnitude_out_of_range(magnitude):
  with pytest.raises(errors.SettingError, match="standard.magnitude is .*a number from 0 to 30"):
    randaugment(IMAGES, np.arange(64), magnitude=magnitude)
