"""A small, fast network for CIFAR-10 that starts from whitened patches.

    Conv 24 2×2, whitened → GELU
    3 × (Conv 3×3 → MaxPool 2 → BatchNorm → GELU → Conv 3×3 → BatchNorm → GELU)
    MaxPool 3 → Flatten → Dense 10 without bias → ÷ 9

The network and its numbers come from K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU"
(2024), arXiv:2404.00498, after D. Page, "How to Train Your ResNet" (2018).
"""

from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import averaged_views, classification

_WHITENED = 5000  # images whose patches define the first layer
_PATCH = 2  # side of the whitened patches, in pixels
_EPSILON = 5e-4  # added to the patches' variances; the images have variance 1


@gin.configurable
@trainer.check_settings
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  images: Callable[..., tf.data.Dataset] | None = None,
  classes: int = 10,
  filters: Sequence[int] = (64, 256, 256),
  optimizer: Callable[[], Any] = keras.optimizers.SGD,
  label_smoothing: float = 0.2,
  weight_decay: float = 0.0,
  bias_decay: float = 0.0,
  synchronized: bool = False,
  views: averaged_views.Views = "mirror and translate",
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies small images.

  Args:
    features: {"image": float32 [b, 32, 32, 3]}, each channel with mean 0 and variance 1.
    labels: see `classification.spec`.
    mode: one of trainer.ModeKeys.
    params: not used.
    images: an input_fn of images for the first layer's patches. A training reads its first batch,
      of 5,000, when it makes its variables.
    classes: number of classes.
    filters: numbers of filters in the three blocks.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: see `classification.spec`.
    weight_decay: the loss gets this times half the sum of squares of the kernels and of the first
      layer's bias.
    bias_decay: the same for the biases of batch norm.
    synchronized: whether batch norm uses the mean and variance of the global batch; by default each
      core uses its own batch.
    views: of each image in evaluation, prediction and exports, see `averaged_views`.
    sample_weight: float32 [b], weights of the examples; the framework passes them if there are
      any.

  Raises:
    SettingError: images is missing.
  """
  del params
  if images is None:
    raise errors.SettingError(
      "Set cifar10_air.model_fn.images, an input_fn of the training images: the first layer is "
      "made from their patches."
    )
  network = Network(classes, filters, images, synchronized)
  logits = averaged_views.logits(network, features["image"], mode, views)
  penalties = [
    weight_decay
    * tf.add_n([tf.nn.l2_loss(tf.convert_to_tensor(each)) for each in network.kernels]),
    bias_decay * tf.add_n([tf.nn.l2_loss(tf.convert_to_tensor(each)) for each in network.biases]),
  ]
  return classification.spec(
    mode, logits, labels, optimizer, label_smoothing, penalties, sample_weight
  )


class Network:
  """The network's layers, for several calls.

  Args:
    classes: see `model_fn`; also for filters and images.
    filters: the same.
    images: the same.
    synchronized: the same.

  Attributes:
    kernels: the trained variables outside of batch norm.
    biases: the trained variables of batch norm.
  """

  def __init__(
    self,
    classes: int,
    filters: Sequence[int],
    images: Callable[..., tf.data.Dataset],
    synchronized: bool = False,
  ) -> None:
    channels = 3
    whiten = _FixedConvolution(
      2 * channels * _PATCH**2, _PATCH, kernel_initializer=_Whitening(images), name="whiten"
    )
    convolutions, norms = [], []
    self._layers: list[Any] = [whiten, keras.ops.gelu]
    for count in filters:
      for pool in (True, False):
        convolutions.append(
          keras.layers.Conv2D(
            count, 3, padding="same", use_bias=False, kernel_initializer=_Identity()
          )
        )
        norms.append(
          keras.layers.BatchNormalization(
            momentum=0.6, epsilon=1e-12, scale=False, synchronized=synchronized
          )
        )
        self._layers += [
          convolutions[-1],
          *([keras.layers.MaxPooling2D(2)] if pool else []),
          norms[-1],
          keras.ops.gelu,
        ]
    # float32 also with --precision=bfloat16: its 8 bits are too few for the loss.
    head = keras.layers.Dense(
      classes, use_bias=False, dtype="float32", kernel_initializer=_uniform()
    )
    self._layers += [keras.layers.MaxPooling2D(3), keras.layers.Flatten(), head]
    self._whiten, self._trained, self._norms = whiten, [*convolutions, head], norms

  def __call__(self, image: tf.Tensor, training: bool) -> tf.Tensor:
    """Maps images [b, 32, 32, 3] to logits (float32 [b, classes])."""
    x = image
    for layer in self._layers:
      if isinstance(layer, keras.layers.BatchNormalization):
        x = layer(x, training=training)
      elif isinstance(layer, keras.layers.Layer):
        x = layer(x)
      else:
        x = layer(x, approximate=False)
    return x / 9

  @property
  def kernels(self) -> list[Any]:
    """See the class."""
    return [self._whiten.bias, *(layer.kernel for layer in self._trained)]

  @property
  def biases(self) -> list[Any]:
    """See the class."""
    return [layer.beta for layer in self._norms]


class _FixedConvolution(keras.layers.Conv2D):
  """A convolution that trains only its bias."""

  def call(self, inputs):
    return keras.ops.conv(inputs, keras.ops.stop_gradient(self.kernel)) + self.bias


def _uniform():
  """The uniform distribution of He et al. for a leaky ReLU of slope √5: within ±1/√inputs."""
  return keras.initializers.VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")


class _Identity(keras.initializers.Initializer):
  """Passes each channel of the input through; further filters are random."""

  def __call__(self, shape, dtype=None):
    height, width, inputs, outputs = shape
    passed = min(inputs, outputs)
    kernel = np.zeros([height, width, inputs, passed], np.float32)
    kernel[height // 2, width // 2, range(passed), range(passed)] = 1
    random = _uniform()(shape, dtype)
    return keras.ops.concatenate([keras.ops.cast(kernel, dtype), random[..., passed:]], -1)


class _Whitening(keras.initializers.Initializer):
  """Filters for patches of images, with uncorrelated outputs of variance 1.

  Args:
    images: an input_fn of the images.
  """

  def __init__(self, images):
    self._images = images

  def __call__(self, shape, dtype=None):
    with tf.init_scope():
      features, _ = next(iter(self._images(params={"batch_size": _WHITENED})))
      filters = _whitening(features["image"].numpy())
    return keras.ops.cast(filters.reshape(shape), dtype)


def _whitening(images):
  """Returns filters and their negatives, [values of a patch, filters], for images [n, h, w, c]."""
  windows = np.lib.stride_tricks.sliding_window_view(images, (_PATCH, _PATCH), (1, 2))
  patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, _PATCH**2 * images.shape[-1])
  patches = patches.astype(np.float64)
  variances, vectors = np.linalg.eigh(patches.T @ patches / len(patches))
  filters = vectors / np.sqrt(variances + _EPSILON)
  return np.concatenate([filters, -filters], 1).astype(np.float32)
