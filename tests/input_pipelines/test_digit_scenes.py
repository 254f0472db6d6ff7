"""Scenes of digits: what is drawn, what both kinds of labels say, which split has which digits."""

import numpy as np
import pytest

from input_pipelines import digit_scenes, digits
from trainer import errors


def batch(**settings):
  ((features, labels),) = digit_scenes.input_fn({"batch_size": 200}, "test", **settings).take(1)
  return features["image"].numpy(), labels.numpy()


def test_both_kinds_of_labels_say_the_same():
  images, present = batch()
  again, pixels = batch(labels="pixels")
  np.testing.assert_array_equal(images, again)
  assert (images.shape, images.dtype, images.max()) == ((200, 32, 32, 1), np.float32, 1.0)
  assert (present.shape, present.dtype) == ((200, 10), np.int32)
  assert (pixels.shape, pixels.dtype) == ((200, 32, 32), np.int32)
  for scene in range(200):
    found = set(pixels[scene].ravel()) - {0}
    assert set(np.flatnonzero(present[scene]) + 1) == found
    assert 1 <= len(found) <= 4
  # A pixel of a digit has a quarter of the ink at the least, and one without ink is background.
  assert images[..., 0][pixels > 0].min() >= 0.25
  assert set(pixels[images[..., 0] == 0]) == {0}
  assert set(present.sum(0) > 0) == {True}


@pytest.mark.parametrize("split", digits.SPLITS)
def test_digits_are_those_of_the_split(split):
  images, pixels = digit_scenes.load(split)
  sources = {image.tobytes() for image in digits.load(split)[0][..., 0]}
  other = {image.tobytes() for image in digits.load("train" if split == "test" else "test")[0]}
  seen = 0
  for image, classes in zip(images[:40, ..., 0], pixels[:40], strict=True):
    for row in range(0, 32, 16):
      for column in range(0, 32, 16):
        square = image[row : row + 16, column : column + 16]
        if not square.any():
          continue
        # Some 8 × 8 pixels of the square are the digit as it is there, and all others are empty.
        places = [(y, x) for y in range(9) for x in range(9)]
        cut = [square[y : y + 8, x : x + 8] for y, x in places]
        whole = [each.tobytes() for each in cut if each.sum() == square.sum()]
        assert sources.intersection(whole)
        assert not (other - sources).intersection(whole)
        assert len(set(classes[row : row + 16, column : column + 16].ravel()) - {0}) == 1
        seen += 1
  assert seen > 60


def test_scenes_are_always_the_same():
  """A change would make figures incomparable."""
  _, pixels = digit_scenes.load("test")
  assert [sorted(set(each.ravel()) - {0}) for each in pixels[:4]] == EXPECTED
  assert len(digit_scenes.load("train")[1]) == 4000


EXPECTED = [[4, 5, 6], [2], [1, 2, 6, 9], [3]]


def test_other_labels_and_splits():
  with pytest.raises(errors.SettingError, match="is 'boxes': expected one of digits, pixels"):
    batch(labels="boxes")
  with pytest.raises(errors.SettingError, match="no split 'valid'"):
    digit_scenes.load("valid")
