"""Several heads as one."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import export
from trainer.compat.estimator.heads.base import Head
from trainer.compat.graph_mode import metrics


class MultiHead(Head):
  """Heads with a common loss, the sum of their losses.

  Logits are a dict by the heads' names, or a tensor [batch, logits_dimension] that joins the heads'
  logits in order. Labels are a dict by the heads' names. Predictions have keys (head's name, name);
  the default signature serves the first head's predictions.

  Args:
    heads: heads with names.
    head_weights: the factors of the losses.

  Raises:
    ValueError: there are no heads, a head has no name, or the numbers of heads and weights differ.
  """

  def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None):
    if not heads:
      raise ValueError(f"Must specify heads. Given: {heads}.")
    if head_weights and len(head_weights) != len(heads):
      raise ValueError(
        "heads and head_weights must have the same size. "
        f"Given {len(heads)} heads and {len(head_weights)} weights."
      )
    if not all(head.name for head in heads):
      raise ValueError("All given heads must have a name: Head(..., name=...).")
    reductions = {head.loss_reduction for head in heads}
    if len(reductions) > 1:
      raise ValueError(f"The loss_reduction must be the same for all heads. Given: {reductions}.")
    super().__init__(
      sum(head.logits_dimension for head in heads),
      loss_reduction=heads[0].loss_reduction,
      name="_".join(head.name for head in heads if head.name),
    )
    self._heads = tuple(heads)
    self._head_weights = tuple(head_weights or [1.0] * len(heads))

  def _logits(self, logits: Any) -> dict[str, tf.Tensor]:
    if isinstance(logits, dict):
      return self._all_of(logits, "logits")
    sizes = [head.logits_dimension for head in self._heads]
    parts = tf.split(logits, sizes, -1)
    return {str(head.name): part for head, part in zip(self._heads, parts, strict=True)}

  def _all_of(self, given: Any, what: str) -> dict[str, Any]:
    names = [head.name for head in self._heads]
    if not isinstance(given, dict) or any(name not in given for name in names):
      found = sorted(given) if isinstance(given, dict) else type(given).__name__
      raise ValueError(f"{what} must be a dict with the names of the heads, {names}; got {found}.")
    return given

  def predictions(self, logits: Any) -> dict[Any, tf.Tensor]:
    by_head = self._logits(logits)
    return {
      (head.name, key): value
      for head in self._heads
      for key, value in head.predictions(by_head[head.name]).items()
    }

  def outputs(self, predictions: dict[Any, tf.Tensor]) -> dict[str, export.ExportOutput]:
    found: dict[str, export.ExportOutput] = {}
    for head in self._heads:
      own = head.outputs(
        {key: value for (of, key), value in predictions.items() if of == head.name}
      )
      # The first head serves by default, as in 2.15.
      found.setdefault("serving_default", own["serving_default"])
      found[head.name] = own.pop("serving_default")
      found |= {f"{head.name}/{key}": output for key, output in own.items()}
    merged = {f"{name}/{key}": value for (name, key), value in predictions.items()}
    return found | {"predict": export.PredictOutput(merged)}

  def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
    labels, logits = self._all_of(labels, "labels"), self._logits(logits)
    losses = [
      weight * head.loss(labels[head.name], logits[head.name], features, mode)
      for head, weight in zip(self._heads, self._head_weights, strict=True)
    ]
    return tf.add_n([*losses, *(regularization_losses or ())])

  def metrics(self, labels, logits, features, regularization_losses=None):
    logits, found = self._logits(logits), {}
    if regularization_losses:
      total = metrics.mean(tf.add_n(regularization_losses))
      found[f"regularization_loss/{self.name}"] = total
    for head in self._heads:
      given = labels[head.name], logits[head.name], features
      # Each head's own loss, besides the sum.
      found[f"loss/{head.name}"] = metrics.mean(head.loss(*given))
      found |= head.metrics(*given)
    return found
