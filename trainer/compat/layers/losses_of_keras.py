"""Losses of Keras 3 that take `reduction="auto"`, the value of Keras 2's `Reduction.AUTO`."""

from typing import Any

import tensorflow as tf

# Keras 3 refuses "auto", which was the mean outside of a strategy's loops.
_MEAN = "sum_over_batch_size"


def _taking_auto(cls: type) -> type:
  def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
    def known(value: Any) -> Any:
      return _MEAN if isinstance(value, str) and value == "auto" else value

    cls.__init__(self, *map(known, args), **{name: known(value) for name, value in kwargs.items()})

  # A saved model names Keras's own class.
  own = {"__init__": __init__, "__doc__": cls.__doc__, "__module__": "keras.losses"}
  return type(cls.__name__, (cls,), own)


_losses = tf.keras.losses
_found = {
  name: _taking_auto(found)
  for name, found in vars(_losses).items()
  if isinstance(found, type) and issubclass(found, _losses.Loss)
}
__all__ = sorted(_found)
globals().update(_found)
