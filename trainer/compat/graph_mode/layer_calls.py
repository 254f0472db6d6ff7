"""The replacement of Keras's Layer.__call__ in a program's functions."""

import functools

import keras

from trainer.compat.graph_mode import (
  habits,
  keras_inputs,
  keras_names,
  layer_updates,
  learning_phase,
)
from trainer.internals import patches

# From the outermost to the innermost: functions of (the inner call, layer, *args, **kwargs).
_PARTS = (learning_phase.call, layer_updates.call, keras_names.call, keras_inputs.call)


@patches.replaces(keras.layers.Layer, "__call__")
def _call(original, self, *args, **kwargs):
  if not habits.are_enabled():
    return original(self, *args, **kwargs)
  call = original
  for part in reversed(_PARTS):
    call = functools.partial(part, call)
  return call(self, *args, **kwargs)
