"""Canned estimators of TensorFlow 2: those of `trainer.compat.v1`, by optimizers of Keras.

Their loss is a mean over the batch, a named optimizer is one of `tf.keras.optimizers.legacy`, and
slots are called as in 2.15's checkpoints: `training/Adagrad/dnn/logits/kernel/accumulator`.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer.compat import optimizers as legacy_optimizers
from trainer.compat.estimator import canned, heads
from trainer.compat.estimator.canned.base import Face

v1 = tf.compat.v1


def _classification(n_classes: int, *settings: Any) -> heads.Head:
  """The head of a classifier of so many classes."""
  weight_column, label_vocabulary, reduction = settings
  if n_classes == 2:
    return heads.BinaryClassHead(weight_column, None, label_vocabulary, reduction)
  return heads.MultiClassHead(n_classes, weight_column, label_vocabulary, reduction)


def _minimizer(
  make: Callable[[], Any], of: str | None = None, counts: bool = True, **of_v1: Any
) -> Callable[[tf.Tensor], Any]:
  """A function of a loss that makes the train_op; see `trainer.compat.estimator.canned.base`."""
  del of_v1  # names that a tf.compat.v1 optimizer's slots have

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
    with v1.name_scope("training/"):
      return optimizer.minimize(loss, variables)

  return minimize


_FACE = Face(
  reduction=heads.MEAN,
  classification=_classification,
  optimizers={
    name: legacy_optimizers.KINDS[{"RMSProp": "RMSprop"}.get(name, name)]
    for name in ("Adagrad", "Adam", "Ftrl", "RMSProp", "SGD")
  },
  minimizer=_minimizer,
  tells_mean=False,
  dnn_rate=None,
)


def _of(of_v1: type, *names: str) -> type:
  """The class of TensorFlow 2 for one of tf.compat.v1.

  Args:
    names: of its arguments in their order, where that is another one.
  """

  def __init__(self: Any, *args: Any, **settings: Any):
    if len(args) > len(names):
      raise TypeError(f"{of_v1.__name__} takes {len(names)} arguments without a name: {names}.")
    of_v1.__init__(self, **dict(zip(names, args, strict=False)), **settings)

  own: dict[str, Any] = {"face": _FACE, "__doc__": of_v1.__doc__, "__module__": __name__}
  return type(of_v1.__name__, (of_v1,), own | ({"__init__": __init__} if names else {}))


BaselineClassifier = _of(canned.BaselineClassifier)
BaselineEstimator = _of(canned.BaselineEstimator)
BaselineRegressor = _of(canned.BaselineRegressor)
DNNClassifier = _of(canned.DNNClassifier)
DNNEstimator = _of(
  canned.DNNEstimator,
  *("head", "hidden_units", "feature_columns", "model_dir", "optimizer", "activation_fn"),
  *("dropout", "config", "warm_start_from", "batch_norm"),
)
DNNLinearCombinedClassifier = _of(canned.DNNLinearCombinedClassifier)
DNNLinearCombinedEstimator = _of(
  canned.DNNLinearCombinedEstimator,
  *("head", "model_dir", "linear_feature_columns", "linear_optimizer", "dnn_feature_columns"),
  *("dnn_optimizer", "dnn_hidden_units", "dnn_activation_fn", "dnn_dropout", "config"),
  *("batch_norm", "linear_sparse_combiner"),
)
DNNLinearCombinedRegressor = _of(canned.DNNLinearCombinedRegressor)
DNNRegressor = _of(canned.DNNRegressor)
LinearClassifier = _of(canned.LinearClassifier)
LinearEstimator = _of(
  canned.LinearEstimator,
  *("head", "feature_columns", "model_dir", "optimizer", "config", "sparse_combiner"),
  "warm_start_from",
)
LinearRegressor = _of(canned.LinearRegressor)
