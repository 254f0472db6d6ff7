"""The networks of `keras.applications` (Xception, VGG16, ResNet50 and all others) under a new head,
for fine-tuning or from random weights.

    keras_applications.model_fn.name = "Xception"
    keras_applications.model_fn.weights = "/data/xception_weights_notop.h5"

Nothing is ever downloaded. The published ImageNet weights are files for `include_top=False`
("..._notop.h5") under https://storage.googleapis.com/tensorflow/keras-applications/.
"""

import concurrent.futures
import contextlib
import difflib
import functools
import inspect

import gin
import keras
import numpy as np
import tensorflow as tf

import trainer
from models import classification
from trainer import errors


@gin.configurable
def model_fn(
  features,
  labels,
  mode,
  params,
  name="ResNet50",
  classes=5,
  weights=None,
  frozen=False,
  norm_momentum=None,
  pooling="avg",
  hidden_units=(),
  dropout=0.0,
  optimizer=keras.optimizers.Adam,
  label_smoothing=0.0,
):
  """A classifier of images.

  Args:
    features: {"image": float32 [b, size, size, 3]}, RGB from 0 to 1. Which sizes a network takes is
      its own: Xception from 71 on, VGG16 and ResNet50 from 32 on. The network's own
      `preprocess_input` is part of the model.
    labels: int32 [b], or None.
    mode: one of trainer.ModeKeys.
    params: not used.
    name: that of the function in keras.applications.
    classes: number of classes.
    weights: path of a weights file (`.h5`, `.weights.h5`, `.keras`) for the network without its
      head; None starts from random weights. It is read when training starts without a checkpoint,
      not to evaluate or predict.
    frozen: whether the network keeps its weights and batch norm its statistics, so that the head
      alone is trained.
    norm_momentum: that of batch norm's moving averages; None for the network's own. Its 0.99 takes
      some 500 steps to forget the start, and a run of less evaluates badly with it.
    pooling: "avg", "max" or "flatten": what the head does with the network's last images.
    hidden_units: widths of hidden layers in the head.
    dropout: the share dropped before the last layer, and between hidden ones.
    optimizer: a class or callable that makes the optimizer.
    label_smoothing: see `classification.spec`.

  Raises:
    SettingError: there is no network of that name or no such file, the file does not fit the
      network, or the images do not.
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
  x = network(preprocess(name, image), training=training and not frozen)
  x = _pooling(pooling)(x)
  for index, units in enumerate(hidden_units):
    x = keras.layers.Dense(units, activation="relu", name=f"head_hidden_{index}")(
      keras.layers.Dropout(dropout)(x, training=training)
    )
  logits = keras.layers.Dense(classes, dtype="float32", name="head")(
    keras.layers.Dropout(dropout)(x, training=training)
  )
  return classification.spec(mode, logits, labels, optimizer, label_smoothing, network.losses)


def build(name, image_shape):
  """The network (keras.Model), without its head, with random weights.

  SettingError if there is none of this name, or none for such images.
  """
  make = _named(name)
  try:
    return make(include_top=False, weights=None, input_shape=image_shape)
  except ValueError as error:
    raise errors.SettingError(
      f"keras_applications: {name} cannot take images of shape {image_shape}: {error}"
    ) from error


def preprocess(name, image):
  """Images as this network wants them, from RGB between 0 and 1: shifted, scaled, as BGR, or as
  they are from 0 to 255.
  """
  return inspect.getmodule(_named(name)).preprocess_input(tf.cast(image, tf.float32) * 255.0)


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


@functools.lru_cache(maxsize=1)  # one training: each replica asks for the same
def _read_weights(name, path, image_shape):
  """The values (numpy arrays) of the network's variables, in the order of their making, from a
  file.
  """
  if not tf.io.gfile.exists(path):
    raise errors.SettingError(
      f"keras_applications: there is no weights file {path!r}: expected a local file for {name} "
      "with include_top=False, or None for random weights "
      "(gin: model_fn.weights). Nothing is downloaded."
    )

  def read():
    made = []

    def creator(next_creator, **kwargs):
      made.append(next_creator(**kwargs))
      return made[-1]

    with tf.variable_creator_scope(creator):
      network = build(name, image_shape)
    try:
      network.load_weights(path)
    except Exception as error:  # Keras raises many kinds, of which none names the network
      raise errors.SettingError(
        f"keras_applications: the weights file {path!r} does not fit {name} with "
        f"include_top=False and images of {image_shape} "
        f"(gin: model_fn.weights): {error}"
      ) from error
    return [variable.numpy() for variable in made]

  # In a thread of its own, in which TensorFlow and Keras know nothing of the model_fn that is being
  # traced.
  with concurrent.futures.ThreadPoolExecutor(1) as executor:
    return executor.submit(read).result()


@contextlib.contextmanager
def _starting_from(values):
  """Inside, variables get these initial values, one after another: a value that were assigned
  would be assigned again by every step.
  """
  values = iter(values)

  def creator(next_creator, **kwargs):
    return next_creator(**dict(kwargs, initial_value=np.asarray(next(values))))

  with tf.variable_creator_scope(creator):
    yield
