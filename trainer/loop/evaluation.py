"""The outer loop of an evaluation: every example counts once, on any number of replicas.

Whole batches are evaluated in device loops. A partial batch, as at the end of a set, is evaluated
by itself and at its own size, so that the loss of any model_fn, whatever it averages over, is that
of the examples and of nothing that was padded.
"""

import dataclasses

import tensorflow as tf
from absl import logging

# Groups in one call of the device, between which Python hears Ctrl-C.
_LOOP = 64


@dataclasses.dataclass(frozen=True)
class Result:
  """Of one evaluation: "loss" and the metrics by name (floats, or numpy arrays where a metric
  is one), and the number of examples.
  """

  values: dict
  examples: int


def run(loops, iterator, name, steps=None, beat=lambda: None):
  """Evaluates.

  Args:
    loops: loop.DeviceLoops.
    iterator: over groups, see `trainer.inputs`.
    name: of the evaluation, whose metrics are counted anew.
    steps: groups to evaluate at the most, or None.
    beat: called whenever it has got on.

  Returns:
    A Result; with no examples, one of no values.
  """
  loops.host_metrics(name).reset()
  loss_sum, examples, done, metrics = 0.0, 0, 0, {}
  group = next(iterator, None)
  while group is not None and (steps is None or done < steps):
    beat()
    element, rows = group
    size = tf.nest.flatten(element)[0].shape.as_list()[1]
    counts = rows.numpy()
    if not counts.any():
      break
    partial = [index for index, count in enumerate(counts) if 0 < count < size]
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
