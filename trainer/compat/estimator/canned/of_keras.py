"""Canned estimators of TensorFlow 2: the estimators of `trainer.compat.v1` with Keras optimizers.

The loss is a mean over the batch. A name means an optimizer of `tf.keras.optimizers.legacy`. Slots
have the names of 2.15's checkpoints: `training/Adagrad/dnn/logits/kernel/accumulator`.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer.compat import optimizers as legacy_optimizers
from trainer.compat.estimator import heads
from trainer.compat.estimator.canned import estimators
from trainer.compat.estimator.canned.base import Face

v1 = tf.compat.v1


def _minimizer(
  make: Callable[[], Any], of: str | None = None, counts: bool = True, **of_v1: Any
) -> Callable[[tf.Tensor], Any]:
  """Returns a function from a loss to the train_op; see `trainer.compat.estimator.canned.base`."""
  del of_v1  # the slot names of tf.compat.v1 optimizers

  def minimize(loss: tf.Tensor) -> Any:
    optimizer = make()
    if isinstance(optimizer, keras.optimizers.Optimizer):
      optimizer = legacy_optimizers.like(optimizer)
    if not isinstance(optimizer, legacy_optimizers.Optimizer):
      raise ValueError(
        f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {optimizer!r}. "
        "Estimators of tf.compat.v1.estimator take optimizers of tf.compat.v1.train."
      )
    if counts:
      optimizer.iterations = v1.train.get_global_step()
    variables = v1.trainable_variables(of) if of else v1.trainable_variables()
    return optimizer.minimize(loss, variables)

  return minimize


_FACE = Face(
  reduction=heads.MEAN,
  classification=functools.partial(heads.classification, binary=heads.BinaryClassHead),
  optimizers={
    name: legacy_optimizers.KINDS[{"RMSProp": "RMSprop"}.get(name, name)]
    for name in ("Adagrad", "Adam", "Ftrl", "RMSProp", "SGD")
  },
  minimizer=_minimizer,
  tells_mean=False,
  dnn_rate=None,
  # A wrapper that calls a model_fn twice has slots in `training` and in `training_1`.
  scope=functools.partial(v1.name_scope, "training"),
)


# The order of arguments, if it differs from tf.compat.v1's.
_ORDERS = {
  "DNNEstimator": """head hidden_units feature_columns model_dir optimizer activation_fn dropout
    config warm_start_from batch_norm""",
  "DNNLinearCombinedEstimator": """head model_dir linear_feature_columns linear_optimizer
    dnn_feature_columns dnn_optimizer dnn_hidden_units dnn_activation_fn dnn_dropout config
    batch_norm linear_sparse_combiner""",
  "LinearEstimator": """head feature_columns model_dir optimizer config sparse_combiner
    warm_start_from""",
}

__all__ = [
  f"{family}{kind}"
  for family in ("DNN", "DNNLinearCombined", "Linear")
  for kind in ("Classifier", "Estimator", "Regressor")
]

for _name in __all__:
  _of_v1 = getattr(estimators, _name)
  _own = {"face": _FACE, "__doc__": _of_v1.__doc__, "__module__": __name__}
  globals()[_name] = estimators.class_of(_of_v1, _name, _own, _ORDERS.get(_name, ""))
