"""The outer loop of an evaluation. Every example counts once, on any number of replicas.

Device loops evaluate whole batches. A partial batch, such as the last batch of a dataset, runs
alone at its own size. No padding therefore enters the loss, for any mean in a model_fn.
"""

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer.programs import eval_loop


@dataclasses.dataclass(frozen=True)
class Result:
  """The result of one evaluation.

  Attributes:
    values: "loss" and the metrics by name: floats, or numpy arrays for other metrics than scalars.
      Empty if there were no examples.
    examples: the number of examples.
  """

  values: dict[str, Any]
  examples: int


@dataclasses.dataclass
class _Totals:
  """What the batches add up to so far."""

  # Of the rest of the loss, and of each of its global means: see group_results.sums_of_losses.
  loss_sums: Any = 0.0
  metrics: dict[str, tf.Tensor] = dataclasses.field(default_factory=dict)

  def add(self, result: dict[str, Any]) -> None:
    """Adds the results of batches, see eval_loop.Part.count."""
    self.loss_sums = self.loss_sums + np.asarray(result["loss_sums"])
    self.metrics = result["metrics"]


def evaluate(
  traced: eval_loop.Evaluation,
  reader: Any,
  steps: int | None = None,
  beat: Callable[[], None] = lambda: None,
) -> Result:
  """Evaluates the groups of a reader.

  Args:
    traced: the evaluation. Its metrics are reset first.
    reader: the result of traced.read.
    steps: the most groups to evaluate; None for all.
    beat: called before each call of the device, to tell a watchdog that the evaluation progresses.
  """
  traced.metrics.reset()
  totals, groups, examples = _Totals(), 0, 0
  most = sys.maxsize if steps is None else steps
  running = None  # Counts the groups that the device works on.
  while groups < most:
    beat()
    part = traced.start(reader, most - groups)
    if part is None:
      break
    groups += part.groups
    examples += part.examples
    if running is not None:  # The host counts while the device works on the next groups.
      totals.add(running())
    running = part.count
    if part.partial and running is not None:
      totals.add(running())
      running = None
    for batch in part.partial:
      totals.add(traced.evaluate_partial(batch))
      examples += tf.nest.flatten(batch)[0].shape[0]
  if running is not None:
    totals.add(running())
  if steps is not None and groups < steps:
    logging.warning(
      "The evaluation ended after %d of %d steps: the input has %d examples.",
      groups,
      steps,
      examples,
    )
  traced.metrics.warn_of_large_counts()
  if not examples:
    return Result({}, 0)
  values = {
    key: value.numpy().item() if value.shape.rank == 0 else value.numpy()
    for key, value in totals.metrics.items()
  }
  # A mean without a real value is 0, as in the model_fn.
  loss = sum(total / count if count else 0.0 for total, count in totals.loss_sums.tolist())
  return Result({"loss": loss, **values}, examples)
