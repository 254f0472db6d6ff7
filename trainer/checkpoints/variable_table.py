"""What a model consists of: a table of its variables."""

import numpy as np

from trainer import formatting
from trainer.checkpoints import warm_start

_ROWS = 24  # a longer table is one of layers


def table(variables):
  """Name, shape, number of values and bytes of a model's own variables, and their sums.

  Args:
    variables: dict of name → tf.Variable; the step and what optimizers keep are left out.
  """
  own = warm_start.model_names(variables)
  rows = [
    (name, str(tuple(variable.shape.as_list())), _size(variable), _bytes(variable))
    for name, variable in variables.items()
    if name in own
  ]
  trainable = sum(_size(variables[name]) for name in own if variables[name].trainable)
  kept = sum(map(_bytes, variables.values()))
  shown = rows
  if len(rows) > _ROWS:
    shown = {}
    for name, _, size, count in rows:
      scope = name.split("/")[0]
      former = shown.get(scope, (0, 0, 0))
      shown[scope] = former[0] + 1, former[1] + size, former[2] + count
    shown = [
      (scope, f"{number} variables", size, count) for scope, (number, size, count) in shown.items()
    ]
    left = len(shown) - _ROWS
    if left > 0:
      shown = [
        *shown[: _ROWS // 2],
        (f"... {left} more ...", "", None, None),
        *shown[-_ROWS // 2 :],
      ]
  width, shapes = (max((len(row[index]) for row in shown), default=0) for index in (0, 1))
  lines = [
    f"  {name:<{width}}  {shape:<{shapes}}"
    + (f"  {size:>13,}  {formatting.readable(count):>9}" if size is not None else "")
    for name, shape, size, count in shown
  ]
  total = sum(row[2] for row in rows)
  return "\n".join(
    [
      f"The model has {total:,} parameters in {len(rows)} variables, {trainable:,} of them "
      "trained:",
      *lines,
      f"  With what its optimizer keeps: {formatting.readable(kept)}.",
    ]
  )


def _size(variable):
  return int(np.prod(variable.shape.as_list()))


def _bytes(variable):
  return _size(variable) * variable.dtype.base_dtype.size
