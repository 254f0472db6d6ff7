"""The outer loop of an evaluation. Every example counts once, on any number of replicas.

Device loops evaluate the whole batches. A partial batch, such as the last one of a dataset, is
evaluated by itself at its own size. So no padding enters the loss, whatever a model_fn averages
over.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from trainer.loop import device_loops

# Most groups in one call of the device. Python handles Ctrl-C only between two calls.
_LOOP = 64


@dataclasses.dataclass(frozen=True)
class Result:
  """The result of one evaluation.

  Attributes:
    values: "loss" and the metrics by name: floats, or numpy arrays for metrics that are no scalars.
      Empty if there were no examples.
    examples: the number of examples.
  """

  values: dict[str, Any]
  examples: int


def run(
  loops: device_loops.DeviceLoops,
  iterator: tf.data.Iterator,
  name: str,
  steps: int | None = None,
  beat: Callable[[], None] = lambda: None,
) -> Result:
  """Evaluates the groups of an iterator.

  Args:
    loops: the device loops.
    iterator: over groups, see `trainer.inputs.groups`.
    name: the evaluation's name. Its metrics are reset first.
    steps: the most groups to evaluate; None for all.
    beat: called before each call of the device, to tell a watchdog that the evaluation progresses.

  Returns:
    The result.
  """
  loops.host_metrics(name).reset()
  loss_sum, examples, done, metrics = 0.0, 0, 0, {}
  group = next(iterator, None)
  while group is not None and (steps is None or done < steps):
    beat()
    element, rows = group
    size = tf.nest.flatten(element)[0].shape.as_list()[1]
    counts = rows.numpy()
    if not counts.any():  # a group of padding only: the data ended
      break
    partial = [index for index, count in enumerate(counts) if 0 < count < size]
    # A group may hold both kinds. The whole batches go first, with the partial ones marked as
    # empty; then each partial batch by itself.
    if partial:
      group, wanted = (element, tf.where(tf.equal(rows, size), rows, 0)), 1
    else:
      wanted = _LOOP if steps is None else min(_LOOP, steps - done)
    if (counts == size).any():
      result = loops.evaluate(iterator, group, tf.constant(wanted, tf.int64), name)
      loss_sum += float(result["loss_sum"])
      examples += int(result["rows"])
      done += int(result["steps"])
      group, metrics = result["group"], result["metrics"]
    else:
      done += 1
      group = next(iterator, None)
    for index in partial:
      result = loops.evaluate_partial(
        tf.nest.map_structure(lambda tensor, index=index: tensor[index, : counts[index]], element),
        name,
      )
      loss_sum += float(result["loss_sum"])
      examples += int(counts[index])
      metrics = result["metrics"]
  if steps is not None and done < steps:
    logging.warning(
      "The evaluation ended after %d of %d steps: the input has %d examples.", done, steps, examples
    )
  values = {
    key: value.numpy().item() if value.shape.rank == 0 else value.numpy()
    for key, value in metrics.items()
  }
  return Result({"loss": loss_sum / examples, **values} if examples else {}, examples)
