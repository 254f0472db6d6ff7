"""Registers what a config may name without writing any Python: Keras's optimizers, schedules, losses, metrics, activations, initializers and
regularizers, and the optimizers of `tf.compat.v1.train`.

    digits_mlp.model_fn.optimizer = @keras.optimizers.Adam
    keras.optimizers.Adam.learning_rate = @keras.optimizers.schedules.CosineDecay()

They are found by walking Keras's public modules, so that a new Keras brings its new names along. `@Adam` alone will do where no other module has
an Adam. gin's own registrations (`import gin.tf`) need tf.estimator, which TensorFlow no longer has.
"""

import inspect

import gin

_KERAS_MODULES = ("activations", "initializers", "losses", "metrics", "optimizers", "optimizers.schedules", "regularizers")

# Those that turn names and configurations into objects: gin does that here.
_NOT_REGISTERED = ("deserialize", "get", "serialize")

_registered = set()


def register():
  """Registers all of them; calling it again does nothing. Imports TensorFlow.

  Raises:
    RuntimeError: the configuration is locked.
  """
  import keras
  import tensorflow as tf

  for name in _KERAS_MODULES:
    module = keras
    for part in name.split("."):
      module = getattr(module, part)
    _register_module(module, f"keras.{name}", lambda value: inspect.isclass(value) or inspect.isfunction(value))
  optimizer = tf.compat.v1.train.Optimizer
  _register_module(tf.compat.v1.train, "tf.compat.v1.train", lambda value: inspect.isclass(value) and issubclass(value, optimizer))


def _register_module(module, module_name, wanted):
  for name in dir(module):
    value = getattr(module, name)
    selector = f"{module_name}.{name}"
    if name.startswith("_") or name in _NOT_REGISTERED or selector in _registered or not wanted(value):
      continue
    gin.external_configurable(value, name=name, module=module_name, allowlist=_known_parameters(value))
    _registered.add(selector)


def _known_parameters(value):
  """The parameters of a class, with those that its **kwargs pass on to its bases: where there are **kwargs, gin alone would take any name."""
  names = []
  for base in inspect.getmro(value)[:-1] if inspect.isclass(value) else ():
    if "__init__" in vars(base):
      _, *parameters = inspect.signature(base.__init__).parameters.values()
      names += [parameter.name for parameter in parameters if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)]
      if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        break
  return list(dict.fromkeys(names))
