"""Converts Keras 3's optimizers to Keras 2's, as 2.15 does for an Estimator."""

import inspect
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.optimizers.base import Optimizer
from trainer.compat.optimizers.kinds import KINDS


def like(optimizer: keras.optimizers.Optimizer) -> Optimizer:
  """Returns the Keras 2 optimizer with the settings of a Keras 3 optimizer, as 2.15 converts them.

  Raises:
    ValueError: Keras 2 lacks the kind or a setting, or the class is the program's own.
  """
  name = type(optimizer).__name__
  if name not in KINDS or not type(optimizer).__module__.startswith("keras."):
    raise ValueError(
      f"An optimizer {name} has no counterpart in Keras 2; expected one of {', '.join(KINDS)} "
      "of tf.keras.optimizers, or a tf.compat.v1.train.Optimizer."
    )
  given = getattr(optimizer, "given", None)  # optimizers of trainer.compat.v2 keep it
  kept = _of_config(optimizer) if given is None else dict(given)
  rate = kept.get("learning_rate")
  if isinstance(rate, dict):
    kept["learning_rate"] = keras.optimizers.schedules.deserialize(rate)
  kept = {key: value for key, value in kept.items() if value is not None}
  known = {*arguments(name), "clipnorm", "clipvalue", "global_clipnorm"}
  if unknown := sorted(set(kept) - known):
    raise ValueError(f"{name}({unknown[0]}=...): an optimizer of Keras 2 has no such setting.")
  return KINDS[name](**kept)


def arguments(name: str) -> list[str]:
  """Returns the names of an optimizer's arguments, in order."""
  return [one for one in inspect.signature(KINDS[name].of_wheel).parameters if one != "kwargs"]


# Settings in each Keras 3 configuration, with the values that have no effect.
_OF_KERAS_3 = {
  "weight_decay": None,
  "use_ema": False,
  "ema_momentum": 0.99,
  "ema_overwrite_frequency": None,
  "loss_scale_factor": None,
  "gradient_accumulation_steps": None,
}


def _of_config(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
  with tf.init_scope():  # the configuration reads its variables
    config = optimizer.get_config()
  del config["name"]  # numbered by the process's count
  return {
    key: value
    for key, value in config.items()
    if key not in _OF_KERAS_3 or value != _OF_KERAS_3[key]
  }
