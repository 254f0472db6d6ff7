"""The networks of the comparisons, with inputs: every side has the same network, batch and numbers.

Data are random except the digits: the time of a step does not depend on the images' content.
"""

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Case:
  """A network and its input.

  Attributes:
    name: the name for people.
    network: the network's name here and in `torch_networks`.
    shape: an image's shape.
    batch_size: the global batch size.
    steps: the steps in a slice, and in a device loop.
    classes: number of classes.
    host_bound: whether a step is so short that the benchmark measures the host's work.
    examples: the number of examples in the data set.
  """

  name: str
  network: str
  shape: tuple[int, int, int]
  batch_size: int
  steps: int
  classes: int = 10
  host_bound: bool = False
  examples: int = 4096

  @property
  def title(self):
    return f"{self.name}, batch {self.batch_size}"

  def data(self):
    """(images uint8 [n, *shape], labels int32 [n]): random, or ten times the digits.

    The first call makes them.

    Without TensorFlow: the PyTorch side does not use it, and some processes cannot load both.
    """
    return _data(self)

  @property
  def white(self):
    """The value of a white pixel."""
    return 16.0 if self.network == "digits_mlp" else 255.0


@functools.cache
def _data(case):
  if case.network == "digits_mlp":
    from sklearn import datasets

    digits = datasets.load_digits()
    images, labels = (
      digits.images[:1437, :, :, np.newaxis].astype(np.uint8),
      digits.target[:1437].astype(np.int32),
    )
    return np.tile(images, (10, 1, 1, 1)), np.tile(labels, 10)
  generator = np.random.default_rng(1)
  return (
    generator.integers(0, 256, (case.examples, *case.shape), dtype=np.uint8),
    generator.integers(0, case.classes, case.examples, dtype=np.int32),
  )


CASES = {
  "digits": Case("digits MLP", "digits_mlp", (8, 8, 1), 32, 2000, host_bound=True),
  "cifar128": Case("CIFAR-10 CNN", "cifar10_cnn", (32, 32, 3), 128, 20),
  "cifar1024": Case("CIFAR-10 CNN", "cifar10_cnn", (32, 32, 3), 1024, 2),
  "fashion": Case("Fashion-MNIST CNN", "fashion_mnist_cnn", (28, 28, 1), 128, 6),
  "resnet50": Case("ResNet50 at 64×64", "resnet50", (64, 64, 3), 32, 2, classes=5, examples=512),
}


def policy(precision):
  """Keras's name of a precision."""
  return "mixed_bfloat16" if precision == "bfloat16" else precision


def model_fn(case):
  """Returns the model_fn of Octet's own model."""
  import functools

  from models import cifar10_cnn, digits_mlp, fashion_mnist_cnn, keras_applications

  return {
    "digits_mlp": digits_mlp.model_fn,
    "cifar10_cnn": cifar10_cnn.model_fn,
    "fashion_mnist_cnn": fashion_mnist_cnn.model_fn,
    "resnet50": functools.partial(
      keras_applications.model_fn, name="ResNet50", classes=case.classes
    ),
  }[case.network]


def keras_model(case):
  """Returns the same network as a keras.Model from float images in 0..1 to logits."""
  import keras

  from models import cifar10_cnn, digits_mlp, fashion_mnist_cnn, keras_applications

  image = keras.Input(case.shape, name="image")  # accepts {"image": ...} too
  if case.network == "digits_mlp":
    logits = digits_mlp.network(image, None, (128, 64), 0.2)
  elif case.network == "cifar10_cnn":
    logits = cifar10_cnn.network(image, None, case.classes, (32, 64), 512, 0.25, 0.5)
  elif case.network == "fashion_mnist_cnn":
    logits = fashion_mnist_cnn.network(image, None, case.classes, (64, 128, 256), 256, 0.25, 0.5)
  else:
    # Then like the model: BGR without the mean colour.
    x = keras.layers.Rescaling(255.0)(image)
    x = keras.layers.Lambda(keras.applications.resnet50.preprocess_input)(x)
    x = keras_applications.build("ResNet50", case.shape)(x)
    logits = keras.layers.Dense(case.classes, dtype="float32")(
      keras.layers.GlobalAveragePooling2D()(x)
    )
  return keras.Model(image, logits)


def dataset(case, batch_size, training):
  """Returns batches of ({"image": float32 [b, *shape] in 0..1}, labels)."""
  import tensorflow as tf

  from input_pipelines import in_memory

  images, labels = case.data()

  def scaled(features, labels):
    return {"image": tf.cast(features["image"], tf.float32) * (1 / case.white)}, labels

  return in_memory.batches(
    {"image": images}, labels, batch_size, training=training, preprocess=scaled
  )
