"""tf.contrib.image: the figures are those of TensorFlow Addons 0.23 on 2.15, which took it over."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from trainer.compat.v1.contrib import image

_RANDOM = np.random.RandomState(0)
BYTES = _RANDOM.randint(0, 255, [7, 9, 3]).astype("uint8")
FLOATS = _RANDOM.rand(2, 6, 5, 2).astype("float32")
SHEARED = [1.0, 0.3, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
TILTED = [1.0, 0.0, 0.0, 0.2, 1.0, 0.5, 0.0, 0.01]


@pytest.mark.parametrize(
  ("make", "shape", "wanted"),
  [
    (lambda: image.rotate(BYTES, 0.3), (7, 9, 3), 1828332.0),
    (lambda: image.rotate(FLOATS, [0.5, -1.0], "BILINEAR"), (2, 6, 5, 2), 3071.0494),
    (lambda: image.rotate(BYTES[:, :, 0], 2.0), (7, 9), 211190.0),
    (lambda: image.transform(BYTES, SHEARED), (7, 9, 3), 1694056.0),
    (lambda: image.transform(FLOATS, TILTED, "BILINEAR", [4, 8]), (2, 4, 8, 2), 2646.8648),
  ],
)
def test_images_are_those_of_2_15(make, shape, wanted):
  with tf.Graph().as_default(), tf.Session() as session:
    found = session.run(make())
  assert found.shape == shape
  assert (found.ravel().astype(float) * np.arange(found.size)).sum() == pytest.approx(wanted)


def test_a_dataset_maps_with_them():
  data = tf.data.Dataset.from_tensors(BYTES).map(lambda one: image.rotate(one, 0.3))
  assert data.element_spec.shape == BYTES.shape
  np.testing.assert_array_equal(next(iter(data)), image.rotate(BYTES, 0.3))


def test_what_is_no_image_is_refused():
  with pytest.raises(TypeError, match=r"Invalid dtype bool\."):
    image.rotate(BYTES > 9, 0.3)
  with pytest.raises(TypeError, match="rank between 2 and 4; got"):
    image.transform(BYTES[0, 0], SHEARED)
