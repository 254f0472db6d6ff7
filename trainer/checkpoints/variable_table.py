"""The table of a model's variables that a training logs when it begins."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from trainer.checkpoints import own_names
from trainer.cli import formatting

# With more variables, the table shows the first and the last ones.
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
  rows = [
    [
      f"  {name}",
      str(tuple(variables[name].shape)),
      f"{counts[name]:,}",
      formatting.size(sizes[name]),
    ]
    for name in names
  ]
  if (left_out := len(rows) - _ROWS) > 0:
    rows[_ROWS // 2 : -_ROWS // 2] = [[f"  ... {left_out} more ...", "", "", ""]]
  total = sum(counts[name] for name in names)
  trainable = sum(counts[name] for name in names if variables[name].trainable)
  return "\n".join(
    [
      f"The model has {total:,} parameters in {len(names)} variables and trains {trainable:,}:",
      *([formatting.table(None, rows, right=(2, 3))] if rows else []),
      f"  With the optimizer's values: {formatting.size(sum(sizes.values()))}.",
    ]
  )
