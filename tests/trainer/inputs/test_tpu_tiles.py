"""How much of a TPU's tiles is padding."""

import pytest
import tensorflow as tf

from trainer.inputs import tpu_tiles


@pytest.mark.parametrize(
  ("shape", "share"),
  [
    ((8, 128), 0),
    ((128, 8), 0),
    ((16, 256), 0),
    ((1024, 10), 0.375),
    ((128, 32, 32, 3), 0),
    ((8, 64), 0.5),
    ((9, 128), 7 / 16),
    ((128,), 7 / 8),
  ],
)
def test_waste_under_the_best_choice_of_axes(shape, share):
  assert tpu_tiles.waste(shape) == pytest.approx(share)


def test_a_batch_that_is_no_multiple_of_eight():
  spec = (tf.TensorSpec([12, 128], tf.float32),)
  assert "25%" in tpu_tiles.warnings(spec, 12)[0]
  assert "16" in tpu_tiles.warnings(spec, 12)[0]
  assert not tpu_tiles.warnings((tf.TensorSpec([16, 128], tf.float32),), 16)


def test_a_feature_that_pads_badly_is_named():
  [sentence] = tpu_tiles.warnings(({"x": tf.TensorSpec([32, 33], tf.float32)},), 32)
  assert 'features["x"]' in sentence
  assert "(32, 33)" in sentence
