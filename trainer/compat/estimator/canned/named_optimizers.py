"""canned.optimizers of tensorflow_estimator: optimizers by name, for wrappers of Estimators."""

from typing import Any

import tensorflow as tf

from trainer.compat.estimator.canned import base


def get_optimizer_instance(opt: Any, learning_rate: float | None = None) -> Any:
  """Returns an optimizer of tf.train for an optimizer, its name, or a function that makes one.

  Args:
    opt: "Adagrad", "Adam", "Ftrl", "RMSProp" or "SGD", an optimizer, or a function.
    learning_rate: the learning rate of a named optimizer.

  Raises:
    ValueError: no optimizer has the name, or the learning rate is missing.
  """
  face = base.Canned.face
  if isinstance(opt, str) and opt in face.optimizers and not learning_rate:
    raise ValueError("learning_rate must be specified when opt is string.")
  made = face.optimizer(opt, learning_rate)
  if not isinstance(made, tf.compat.v1.train.Optimizer):
    raise ValueError(f"The given object is not an Optimizer instance. Given: {made}")
  return made
