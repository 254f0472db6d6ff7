"""The common part of canned estimators: a model_fn made of a head, a network and optimizers."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import heads
from trainer.compat.estimator.estimator import Estimator
from trainer.compat.graph_mode import summary
from trainer.internals import tensorflow_internals

v1 = tf.compat.v1

_OPTIMIZERS = {
  "Adagrad": v1.train.AdagradOptimizer,
  "Adam": v1.train.AdamOptimizer,
  "Ftrl": v1.train.FtrlOptimizer,
  "RMSProp": v1.train.RMSPropOptimizer,
  "SGD": v1.train.GradientDescentOptimizer,
}


@dataclasses.dataclass(frozen=True)
class Face:
  """The differences between canned estimators of tf.compat.v1 and of TensorFlow 2.

  Attributes:
    reduction: how the loss combines the examples' losses.
    classification: function of n_classes, weight_column, label_vocabulary and loss_reduction that
      makes a classifier's head.
    optimizers: name → optimizer, for programs that name an optimizer.
    minimizer: as `minimizer`.
    tells_mean: whether a training also writes average_loss if the loss is a sum.
    dnn_rate: the learning rate of a DNN's named optimizer; None for the optimizer's default.
    scope: opens the scope of a model's optimizers.
  """

  reduction: str
  classification: Callable[..., heads.Head]
  optimizers: Mapping[str, Callable[..., Any]]
  minimizer: Callable[..., Callable[[tf.Tensor], Any]]
  tells_mean: bool
  dnn_rate: float | None
  scope: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext

  def optimizer(self, given: Any, rate: float | None) -> Any:
    """Returns an optimizer for an optimizer, its name, or a function that makes one."""
    if isinstance(given, str):
      if given not in self.optimizers:
        raise ValueError(
          f"Unsupported optimizer {given!r}; expected one of {sorted(self.optimizers)}."
        )
      return self.optimizers[given](*([] if rate is None else [rate]))
    return given() if callable(given) else given


class Canned(Estimator):
  """The common part of canned estimators.

  Attributes:
    face: the names and meanings of TensorFlow 1 or 2.

  Args:
    head: a heads.Head.
    logits_fn: function of features and mode.
    minimize: function of a loss that returns the train_op.
    scope: the model's scope, in which 2.15 built the head's operations; "" for none.
  """

  face: Face

  def __init__(
    self,
    head: heads.Head,
    logits_fn: Callable[[dict[str, Any], str], tf.Tensor],
    minimize: Callable[[tf.Tensor], Any],
    model_dir: str | None,
    config: Any,
    warm_start_from: Any,
    scope: str = "",
  ):
    def model_fn(features, labels, mode, config):
      del config
      if not isinstance(features, dict):
        raise ValueError(f"features should be a dictionary of tensors; got {type(features)}.")
      logits = logits_fn(features, mode)

      def train_op_fn(loss: tf.Tensor) -> Any:
        if self.face.tells_mean and head.loss_reduction == heads.SUM:
          _tell_mean(loss, head.weight(labels, features), scope)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        with self.face.scope(), tf.control_dependencies(updates):
          return minimize(loss)

      return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train_op_fn)

    super().__init__(model_fn, model_dir, config, None, warm_start_from)


def _tell_mean(loss: tf.Tensor, weight: tf.Tensor, scope: str) -> None:
  """Writes the mean of the examples' losses.

  Names sum and mean as hooks of programs know them: `head/weighted_loss/Sum` and `head/truediv`, in
  the model's scope.
  """
  replicas = tf.distribute.get_strategy().num_replicas_in_sync
  path = [tf.get_current_name_scope(), scope, "head"]
  with v1.name_scope("/".join(filter(None, path)) + "/"):
    with v1.name_scope("weighted_loss"):
      total = tf.identity(loss / replicas, name="Sum")
    mean = tf.math.truediv(total, weight, name="truediv")
  summary.scalar("average_loss", mean)


def minimizer(
  make: Callable[[], Any],
  of: str | None = None,
  slots: str = "",
  within: str | None = None,
  counts: bool = True,
) -> Callable[[tf.Tensor], Any]:
  """Returns a function from a loss to the train_op.

  Args:
    make: makes the optimizer.
    of: the scope of the variables to train; None for all.
    slots: the prefix of the slots' names. 2.15 cut a model's variables into parts for parameter
      servers (one part without servers). It removed as many letters from a slot's name as the
      part's own name had. But it made the slots in the model's scope, so a rest of "part_0/"
      stayed, as long as that scope's name.
    within: the model's scope, for the optimizer's own variables.
    counts: whether this optimizer counts the steps of TensorFlow 2.
  """
  del counts

  def minimize(loss: tf.Tensor) -> Any:
    optimizer = make()
    variables = v1.trainable_variables(of) if of else None
    with contextlib.ExitStack() as scopes:
      if slots and isinstance(optimizer, v1.train.Optimizer):
        # Replicas take turns inside minimize with one shared optimizer, and a later replica finds
        # the name already changed: remove the prefix before adding it.
        name = f"{slots}{optimizer.get_name().removeprefix(slots)}"
        scopes.enter_context(tensorflow_internals.optimizer_named(optimizer, name))
      scopes.enter_context(v1.name_scope(f"{within}/head/" if within else "head/"))
      return heads.minimized(optimizer, loss, variables)

  return minimize


Canned.face = Face(
  reduction=heads.SUM,
  classification=heads.classification,
  optimizers=_OPTIMIZERS,
  minimizer=minimizer,
  tells_mean=True,
  dnn_rate=0.05,
)
