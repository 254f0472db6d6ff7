"""Optimizers of Keras 3 as those of Keras 2, as 2.15 converts them for an Estimator."""

import inspect
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.optimizers.base import Optimizer
from trainer.compat.optimizers.kinds import KINDS


def like(optimizer: keras.optimizers.Optimizer) -> Optimizer:
  """The optimizer here with the settings of one of Keras 3, as 2.15 converts them.

  Raises:
    ValueError: there is none of its kind, or with such settings, or its class is the program's own.
  """
  name = type(optimizer).__name__
  if name not in KINDS or not type(optimizer).__module__.startswith("keras."):
    raise ValueError(
      f"An optimizer {name} cannot train as one of Keras 2 does; expected one of "
      f"{', '.join(KINDS)} of tf.keras.optimizers, or a tf.compat.v1.train.Optimizer."
    )
  given = getattr(optimizer, "given", None)  # which those of trainer.compat.v2 keep
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
  """The names of the arguments of an optimizer, in their order."""
  return [one for one in inspect.signature(KINDS[name]).parameters if one != "others"]


# What Keras 3 writes into each configuration, with the values that mean nothing.
_OF_KERAS_3 = {
  "weight_decay": None,
  "use_ema": False,
  "ema_momentum": 0.99,
  "ema_overwrite_frequency": None,
  "loss_scale_factor": None,
  "gradient_accumulation_steps": None,
}


def _of_config(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
  with tf.init_scope():  # it reads its variables
    config = optimizer.get_config()
  del config["name"]  # numbered by what the process has made
  return {
    key: value
    for key, value in config.items()
    if key not in _OF_KERAS_3 or value != _OF_KERAS_3[key]
  }
