"""Test-time augmentation: averages the logits of several views of an image.

    cifar10_cnn.model_fn.views = "mirror"

Evaluation, prediction and exports then use the mean, and an image takes as long as all its views.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import tensorflow as tf

import trainer
from trainer import errors

# "one": the unchanged image. "mirror": the image and its mirror image. "mirror and translate":
# these two, and both again moved by a pixel up left and down right, at half the weight.
Views: TypeAlias = Literal["one", "mirror", "mirror and translate"]


def logits(
  network: Callable[[tf.Tensor, bool], tf.Tensor], image: tf.Tensor, mode: str, views: Views
) -> tf.Tensor:
  """Calls a network with images, or with all their views outside of training.

  Args:
    network: maps images and whether it trains to logits. This calls it once.
    image: [b, h, w, c].
    mode: one of trainer.ModeKeys.
    views: the views in evaluation, prediction and exports.

  Returns:
    The logits, [b, classes]: the weighted mean over the views.

  Raises:
    SettingError: views has another value.
  """
  if views not in get_args(Views):
    raise errors.SettingError(
      f"model_fn.views is {views!r}: expected {', '.join(map(repr, get_args(Views)))}."
    )
  if mode == trainer.ModeKeys.TRAIN or views == "one":
    return network(image, mode == trainer.ModeKeys.TRAIN)
  moved = [(0.5, image)]
  if views == "mirror and translate":
    padded = tf.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    moved = [(0.25, image), (0.125, padded[:, 2:, 2:]), (0.125, padded[:, :-2, :-2])]
  each = [view for _, one in moved for view in (one, tf.reverse(one, [2]))]
  weights = [weight for weight, _ in moved for _ in range(2)]
  found = tf.split(network(tf.concat(each, 0), False), len(each))
  return tf.add_n([weight * one for weight, one in zip(weights, found, strict=True)])
