"""A loss whose shapes do not fit is told, one whose shapes do is not."""

import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import EstimatorSpec
from trainer.cli import notices


def model_fn(squeeze, loss_of):
  def column(features, labels, mode, params):
    specification = programs.line(features, labels, mode, params)
    y = tf.reduce_sum(features["x"], axis=1, keepdims=not squeeze)
    places = tf.range(5)[:, None] - tf.range(5)  # of another size: that is meant
    loss = specification.loss + 0 * (
      loss_of(labels, y) + tf.reduce_sum(tf.cast(places, tf.float32))
    )
    return EstimatorSpec(mode, loss=loss, train_op=specification.train_op)

  return column


@pytest.mark.parametrize("squeeze", [False, True])
@pytest.mark.parametrize(
  "loss_of",
  [
    lambda labels, y: tf.reduce_mean(tf.square(y - labels)),
    lambda labels, y: tf.reduce_mean(tf.math.squared_difference(labels, y)),
  ],
)
def test_a_difference_that_broadcasts_is_told_with_its_place(
  tmp_path, caplog, monkeypatch, squeeze, loss_of
):
  monkeypatch.setattr(notices, "_given", set())
  estimator = programs.estimator(tmp_path, model_fn(squeeze, loss_of))
  with caplog.at_level("WARNING", logger="absl"):
    estimator.trace("train", programs.train_input)
  assert (f"({__file__}:" in caplog.text) == (not squeeze)
  assert caplog.text.count("[8, 8]: each example minus each other") == int(not squeeze)
