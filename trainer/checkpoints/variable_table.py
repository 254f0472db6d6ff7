"""The table of a model's variables that a training logs when it begins."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from trainer.checkpoints import own_names
from trainer.cli import formatting

# With more variables, the table has one row for each layer.
_ROWS = 24


def table(variables: Mapping[str, tf.Variable]) -> str:
  """Formats the table: name, shape, number of values and size of each variable, and the sums.

  Args:
    variables: name → variable. The global step and the optimizer's slots have no rows.

  Returns:
    The table's text.
  """
  own = own_names.model_names(variables)
  counts = {name: int(np.prod(variable.shape.as_list())) for name, variable in variables.items()}
  sizes = {name: counts[name] * variables[name].dtype.base_dtype.size for name in variables}
  names = [name for name in variables if name in own]
  if len(names) <= _ROWS:
    rows = [[name, str(tuple(variables[name].shape)), counts[name], sizes[name]] for name in names]
  else:
    rows = _rows_of_layers(names, counts, sizes)
  cells = [
    [f"  {name}", shape, *([f"{count:,}", formatting.size(size)] if size is not None else ["", ""])]
    for name, shape, count, size in rows
  ]
  total = sum(counts[name] for name in names)
  trainable = sum(counts[name] for name in names if variables[name].trainable)
  return "\n".join(
    [
      f"The model has {total:,} parameters in {len(names)} variables and trains {trainable:,}:",
      *([formatting.table(None, cells, right=(2, 3))] if cells else []),
      f"  With the optimizer's values: {formatting.size(sum(sizes.values()))}.",
    ]
  )


def _rows_of_layers(names, counts, sizes):
  """Makes a row for each layer. With very many layers only the first and last ones have rows."""
  layers = {}
  for name in names:
    layers.setdefault(name.split("/")[0], []).append(name)
  rows = [
    [
      layer,
      f"{len(own)} variables",
      sum(counts[name] for name in own),
      sum(sizes[name] for name in own),
    ]
    for layer, own in layers.items()
  ]
  left_out = len(rows) - _ROWS
  if left_out > 0:
    dots = [f"... {left_out} more ...", "", None, None]
    rows = [*rows[: _ROWS // 2], dots, *rows[-_ROWS // 2 :]]
  return rows
