"""Registers what a config may name without writing any Python: Keras's optimizers, schedules,
losses, metrics, activations, initializers and regularizers; of `tf.compat.v1` the optimizers, and
the decays and losses that `gin.tf` knew.

    digits_mlp.model_fn.optimizer = @keras.optimizers.Adam
    keras.optimizers.Adam.learning_rate = @keras.optimizers.schedules.CosineDecay()

They are found by walking Keras's public modules, so that a new Keras brings its new names along.
`@Adam` alone will do where no other module has an Adam; one that a program registers itself is
taken before these.

gin's own registrations (`import gin.tf.external_configurables`) need tf.estimator, which TensorFlow
no longer has. Its names of what is registered here are understood: tf.train.AdamOptimizer,
tf.losses.huber_loss, tf.keras.optimizers.Adam, tf.nn.relu.
"""

import inspect

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

# Those that turn names and configurations into objects: gin does that here.
_NOT_REGISTERED = ("deserialize", "get", "serialize")

# What gin.tf registers of these modules, beside the optimizers.
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

# A shortened name stands for something of the first of these that has it: for a program's own,
# Keras's, TensorFlow's.
_KERAS_RANK, _TENSORFLOW_RANK = 1, 2

_registered = set()


def register():
  """Registers all of them; calling it again does nothing, and a locked configuration stays locked.

  Imports TensorFlow.
  """
  import keras
  import tensorflow as tf

  def is_object(value):
    return inspect.isclass(value) or inspect.isfunction(value)

  for name in _KERAS_MODULES:
    module = keras
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
  """The parameters of a class, with those that its **kwargs pass on to its bases: where there
  are **kwargs, gin alone would take any name.
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
