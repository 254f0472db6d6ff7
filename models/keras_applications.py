"""The networks of `keras.applications` (Xception, VGG16, ResNet50 and others) with a new head.

They are fine-tuned from a weights file, or trained from random weights.

    keras_applications.model_fn.name = "Xception"
    keras_applications.model_fn.weights = "/data/xception_weights_notop.h5"

Nothing is ever downloaded. The published ImageNet weights are files under
https://storage.googleapis.com/tensorflow/keras-applications/, without the head for 1,000 classes
("..._notop.h5") or with it. Either will do: the head is left out.
"""

import concurrent.futures
import contextlib
import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import averaged_views, classification


@gin.configurable
def model_fn(
  features: dict[str, tf.Tensor],
  labels: tf.Tensor | None,
  mode: str,
  params: dict[str, Any],
  name: str = "ResNet50",
  classes: int = 5,
  weights: str | None = None,
  frozen: bool = False,
  norm_momentum: float | None = None,
  pooling: str = "avg",
  hidden_units: Sequence[int] = (),
  dropout: float = 0.0,
  optimizer: Callable[[], Any] = keras.optimizers.Adam,
  label_smoothing: float = 0.0,
  task: classification.Task = classification.spec,
  views: averaged_views.Views = "one",
  sample_weight: tf.Tensor | None = None,
) -> trainer.EstimatorSpec:
  """Classifies images.

  Args:
    features: {"image": float32 [b, size, size, 3]}, RGB from 0 to 1. The smallest size depends on
      the network: 71 for Xception, 32 for VGG16 and ResNet50. The network's own `preprocess_input`
      is part of the model.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    name: of the function in keras.applications.
    classes: number of classes; of a regression, of targets.
    weights: path of a weights file (`.h5`, `.weights.h5`, `.keras`) for the network, without its
      head or with ImageNet's head for 1,000 classes; None for random weights. A training without a
      checkpoint reads the file; evaluation and prediction do not.
    frozen: whether to train only the head. The network then keeps its weights and the statistics of
      its batch norms.
    norm_momentum: of batch norm's moving averages; None for the network's own. With 0.99 they need
      about 500 steps to forget their initial values. A shorter training evaluates badly.
    pooling: how the head reduces the network's last feature maps: "avg", "max" or "flatten".
    hidden_units: widths of hidden layers in the head.
    dropout: share of values dropped before each layer of the head.
    optimizer: makes the optimizer, such as its class.
    label_smoothing: see `classification.spec`.
    task: the task: classification.spec, multi_label.spec or regression.spec.
    views: of each image in evaluation, prediction and exports, see `averaged_views`.
    sample_weight: float32 [b], weights of the examples; the framework passes them if there are
      any.

  Raises:
    SettingError: there is no such network or file, or the file or the images do not fit the
      network.
  """
  del params
  training = mode == trainer.ModeKeys.TRAIN
  image = features["image"]
  with (
    _starting_from(_read_weights(name, weights, tuple(image.shape[1:])))
    if training and weights
    else contextlib.nullcontext()
  ):
    network = build(name, tuple(image.shape[1:]))
  network.trainable = not frozen
  for layer in network.layers if norm_momentum is not None else ():
    if isinstance(layer, keras.layers.BatchNormalization):
      layer.momentum = norm_momentum

  def logits_of(image, training):
    x = network(preprocess(name, image), training=training and not frozen)
    x = _pooling(pooling)(x)
    for index, units in enumerate(hidden_units):
      x = keras.layers.Dense(units, activation="relu", name=f"head_hidden_{index}")(
        keras.layers.Dropout(dropout)(x, training=training)
      )
    return keras.layers.Dense(classes, dtype="float32", name="head")(
      keras.layers.Dropout(dropout)(x, training=training)
    )

  logits = averaged_views.logits(logits_of, image, mode, views)
  return task(mode, logits, labels, optimizer, label_smoothing, network.losses, sample_weight)


def build(name: str, image_shape: tuple[int | None, ...]) -> keras.Model:
  """Builds a network without its head, with random weights.

  Args:
    name: of the function in keras.applications.
    image_shape: (height, width, channels).

  Raises:
    SettingError: there is no such network, or it cannot take such images.
  """
  make = _named(name)
  try:
    return make(include_top=False, weights=None, input_shape=image_shape)
  except ValueError as error:
    raise errors.SettingError(
      f"keras_applications: {name} cannot take images of shape {image_shape}: {error}"
    ) from error


def preprocess(name: str, image: tf.Tensor) -> tf.Tensor:
  """Converts RGB images in 0..1 to a network's input, such as BGR without the mean colour."""
  module: Any = inspect.getmodule(_named(name))
  return module.preprocess_input(tf.cast(image, tf.float32) * 255.0)


def _named(name):
  make = getattr(keras.applications, name, None)
  names = [
    other
    for other in dir(keras.applications)
    if inspect.isfunction(getattr(keras.applications, other))
  ]
  if name not in names:
    near = difflib.get_close_matches(name, names, n=3) or names
    raise errors.SettingError(
      f"keras_applications: there is no network {name!r}; expected one "
      f"such as {', '.join(near)} (gin: model_fn.name)."
    )
  return make


def _pooling(pooling):
  layers = {
    "avg": keras.layers.GlobalAveragePooling2D,
    "max": keras.layers.GlobalMaxPooling2D,
    "flatten": keras.layers.Flatten,
  }
  if pooling not in layers:
    raise errors.SettingError(
      f"keras_applications: pooling is {pooling!r}; expected one of "
      f"{', '.join(layers)} (gin: model_fn.pooling)."
    )
  return layers[pooling]()


@functools.lru_cache(maxsize=1)  # each replica of a training asks for the same file
def _read_weights(name, path, image_shape):
  """Reads the network's variables from a file, as numpy arrays in the order of their creation."""
  if not tf.io.gfile.exists(path):
    raise errors.SettingError(
      f"keras_applications: there is no weights file {path!r}: expected a local file for {name}, "
      "or None for random weights (gin: model_fn.weights). Octet downloads no weights."
    )

  def built(make):
    """Returns a new network, and its variables in the order of their creation."""
    made = []

    def creator(next_creator, **kwargs):
      made.append(next_creator(**kwargs))
      return made[-1]

    with tf.variable_creator_scope(creator):
      return make(), made

  def read():
    network, made = built(lambda: build(name, image_shape))
    try:
      network.load_weights(path)
      return [variable.numpy() for variable in made]
    except Exception as error:  # Keras raises many kinds of errors, without the network's name
      with contextlib.suppress(Exception):
        # The head's variables come last. The head may need another image size; no other variable's
        # shape depends on it.
        whole, with_head = built(lambda: _named(name)(weights=None))
        whole.load_weights(path)
        if all(one.shape == other.shape for one, other in zip(made, with_head, strict=False)):
          return [variable.numpy() for variable in with_head[: len(made)]]
      raise errors.SettingError(
        f"keras_applications: the weights file {path!r} fits {name} for images of {image_shape} "
        f"neither without its head nor with ImageNet's head (gin: model_fn.weights): {error}"
      ) from error

  # In another thread, because graphs, variable scopes and Keras's state belong to a thread. Here
  # they belong to the traced model_fn.
  with concurrent.futures.ThreadPoolExecutor(1) as executor:
    return executor.submit(read).result()


@contextlib.contextmanager
def _starting_from(values):
  """Gives these initial values, in order, to the variables made inside a `with` block.

  An assignment would become a part of the step and run in each step.
  """
  values = iter(values)

  def creator(next_creator, **kwargs):
    return next_creator(**dict(kwargs, initial_value=np.asarray(next(values))))

  with tf.variable_creator_scope(creator):
    yield
