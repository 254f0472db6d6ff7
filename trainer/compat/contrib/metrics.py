"""tf.contrib.metrics: tf_slim's metrics, with predictions before labels."""

from typing import Any

import tensorflow as tf

from trainer.compat.contrib.tf_slim.metrics import metric_ops
from trainer.compat.graph_mode.metric_pairs import deferrable

v1 = tf.compat.v1

for _name in dir(metric_ops):
  if _name.startswith("streaming_"):
    globals()[_name] = deferrable(getattr(metric_ops, _name))


# tf_slim's function changes the shape of its variable, which a resource variable cannot.
@deferrable
def streaming_concat(
  values: Any, axis: int = 0, max_size: int | None = None, name: str | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
  """Joins the values of all batches along an axis.

  Args:
    max_size: the most values to keep along the axis; None for all.
  """
  values = tf.convert_to_tensor(values)
  shape = values.shape.as_list()
  shape[axis] = None
  with v1.variable_scope(name, "streaming_concat"):
    kept = tf.Variable(
      tf.zeros([0 if size is None else size for size in shape], values.dtype),
      trainable=False,
      shape=shape,
      name="array",
    )
    before = kept.read_value()
    every = tf.concat([before, values], axis)
    if max_size is not None:
      every = tf.gather(every, tf.range(tf.minimum(tf.shape(every)[axis], max_size)), axis=axis)
    return before, kept.assign(every)


__all__ = [name for name in globals() if name.startswith("streaming_")]
