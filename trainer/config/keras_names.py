"""Registers names of Keras and TensorFlow with gin, so that a config can use them without Python.

    digits_mlp.model_fn.optimizer = @keras.optimizers.Adam
    keras.optimizers.Adam.learning_rate = @keras.optimizers.schedules.CosineDecay()

The names are Keras's optimizers, schedules, losses, metrics, activations, initializers and
regularizers. A walk through Keras's public modules finds them, so a new Keras adds its new names.
The names of `tf.compat.v1` are the optimizers, decays, losses and activations that `gin.tf`
registers.

`@Adam` alone is enough. If a program registers its own Adam, `@Adam` means the program's.

gin's own registrations (`import gin.tf.external_configurables`) need tf.estimator, and TensorFlow
no longer has it. gin's old names work as well: tf.train.AdamOptimizer, tf.losses.huber_loss,
tf.keras.optimizers.Adam, tf.nn.relu.
"""

import inspect
from typing import Any

from trainer.config import gin_internals, gin_names

_KERAS_MODULES = (
  "activations",
  "initializers",
  "losses",
  "metrics",
  "optimizers",
  "optimizers.schedules",
  "regularizers",
)

# These functions turn names and configurations into objects, and gin does this itself.
_NOT_REGISTERED = ("deserialize", "get", "serialize")

# What gin.tf registers from these modules, beside the optimizers.
_GIN_TF = {
  "train": (
    "exponential_decay",
    "inverse_time_decay",
    "natural_exp_decay",
    "piecewise_constant",
    "polynomial_decay",
  ),
  "losses": (
    "absolute_difference",
    "cosine_distance",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
  ),
  "nn": (
    "crelu",
    "dropout",
    "elu",
    "leaky_relu",
    "relu",
    "relu6",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
  ),
}

# A short name means a program's own registration first, then Keras's, then TensorFlow's.
_KERAS_RANK, _TENSORFLOW_RANK = 1, 2

_registered: set[str] = set()


def register() -> None:
  """Registers all names, and imports TensorFlow for that.

  A second call does nothing. A locked configuration stays locked.
  """
  import keras
  import tensorflow as tf

  def is_object(value):
    return inspect.isclass(value) or inspect.isfunction(value)

  for name in _KERAS_MODULES:
    module: Any = keras
    for part in name.split("."):
      module = getattr(module, part)
    _register_module(module, f"keras.{name}", is_object, _KERAS_RANK)
  v1 = tf.compat.v1
  _register_module(
    v1.train,
    "tf.compat.v1.train",
    lambda value: inspect.isclass(value) and issubclass(value, v1.train.Optimizer),
    _KERAS_RANK,
  )
  for name, known in _GIN_TF.items():
    _register_module(getattr(v1, name), f"tf.compat.v1.{name}", is_object, _TENSORFLOW_RANK, known)
    gin_internals.rename(f"tf.{name}.", f"tf.compat.v1.{name}.")
  gin_internals.rename("tf.keras.", "keras.")


def _register_module(module, module_name, wanted, rank, names=None):
  for name in names or dir(module):
    value = getattr(module, name)
    selector = f"{module_name}.{name}"
    if (
      name.startswith("_")
      or name in _NOT_REGISTERED
      or selector in _registered
      or not wanted(value)
    ):
      continue
    gin_internals.stand_back(selector, rank)
    gin_names.external_configurable(
      value, name=name, module=module_name, allowlist=_known_parameters(value)
    )
    _registered.add(selector)


def _known_parameters(value):
  """Returns the parameter names of a class, and the ones that **kwargs pass to its bases.

  Without this list, gin would accept any name for a class with **kwargs, misspelt ones too.
  """
  names = []
  for base in inspect.getmro(value)[:-1] if inspect.isclass(value) else ():
    if "__init__" in vars(base):
      _, *parameters = inspect.signature(base.__init__).parameters.values()
      names += [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
      ]
      if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        break
  return list(dict.fromkeys(names))
