"""Canned estimators over tf.feature_column: DNN, linear, and DNN with linear.

Variables have tf.compat.v1's names: `dnn/hiddenlayer_0/kernel`, `linear/linear_model/age/weights`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer.compat.estimator import heads
from trainer.compat.estimator.canned.base import Canned
from trainer.compat.estimator.canned.networks import dnn_logit_fn_builder, linear_logit_fn_builder
from trainer.compat.graph_mode import summary

# Learning rates of optimizers that a program names. For linear models, the upper bound.
_LINEAR_RATE = 0.2
_COMBINED_DNN_RATE = 0.001
_COMBINED_LINEAR_RATE = 0.005

# Kind → the arguments of its head.
_OF_HEAD = {
  "Classifier": ("n_classes", "weight_column", "label_vocabulary"),
  "Regressor": ("label_dimension", "weight_column"),
}


def class_of(
  estimator: type, name: str, own: dict[str, Any], names: str, make: Callable | None = None
) -> type:
  """Makes a subclass of a canned estimator with its own arguments.

  Args:
    estimator: the base class.
    own: the subclass's attributes.
    names: the names of its arguments in order; "" for the base class's names.
    make: function of self and the arguments by name that returns the base class's arguments.
  """
  order = names.split()

  def __init__(self: Any, *args: Any, **settings: Any):
    if len(args) > len(order):
      raise TypeError(f"{name} takes {len(order)} arguments without a name: {', '.join(order)}.")
    given = dict(zip(order, args, strict=False)) | settings
    estimator.__init__(self, **(given if make is None else make(self, given)))

  return type(name, (estimator,), own | ({"__init__": __init__} if order else {}))


def _of_kind(estimator: type, kind: str, doc: str, first: str = "model_dir") -> type:
  """Makes the classifier or regressor of a canned estimator.

  Args:
    kind: "Classifier" or "Regressor".
    first: the arguments before the head's arguments.
  """
  of_head = _OF_HEAD[kind]

  def with_head(self: Any, given: dict[str, Any]) -> dict[str, Any]:
    reduction = given.pop("loss_reduction", None) or self.face.reduction
    settings = {name: given.pop(name) for name in of_head if name in given}
    make = self.face.classification if kind == "Classifier" else heads.RegressionHead
    return {"head": make(**settings, loss_reduction=reduction)} | given

  name = estimator.__name__.replace("Estimator", kind)
  own = {"__doc__": doc, "__module__": __name__}
  return class_of(estimator, name, own, f"{first} {' '.join(of_head)}", with_head)


class DNNEstimator(Canned):
  """A network of dense layers with the program's head."""

  def __init__(
    self,
    head: heads.Head,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    optimizer: Any = "Adagrad",
    activation_fn: Any = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    warm_start_from: Any = None,
    batch_norm: bool = False,
  ):
    logit_fn = dnn_logit_fn_builder(
      head.logits_dimension,
      hidden_units,
      feature_columns,
      activation_fn,
      dropout,
      input_layer_partitioner,
      batch_norm,
    )
    super().__init__(
      head,
      logit_fn,
      self.face.minimizer(
        lambda: self.face.optimizer(optimizer, self.face.dnn_rate), slots="t_0/", within="dnn"
      ),
      model_dir,
      config,
      warm_start_from,
      scope="dnn",
    )


_OF_DNN = "hidden_units feature_columns model_dir"
DNNClassifier = _of_kind(DNNEstimator, "Classifier", "A classifier of dense layers.", _OF_DNN)
DNNRegressor = _of_kind(DNNEstimator, "Regressor", "A regression by dense layers.", _OF_DNN)


class LinearEstimator(Canned):
  """A linear model with the program's head."""

  def __init__(
    self,
    head: heads.Head,
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    optimizer: Any = "Ftrl",
    config: Any = None,
    partitioner: Any = None,
    sparse_combiner: str = "sum",
    warm_start_from: Any = None,
  ):
    del partitioner
    if optimizer is None:
      rate = min(_LINEAR_RATE, 1 / math.sqrt(len(feature_columns)))
      optimizer = functools.partial(self.face.optimizers["Ftrl"], rate)
    logit_fn = linear_logit_fn_builder(head.logits_dimension, feature_columns, sparse_combiner)
    super().__init__(
      head,
      lambda features, mode: logit_fn(features),
      self.face.minimizer(
        lambda: self.face.optimizer(optimizer, _LINEAR_RATE), slots="part_0/", within="linear"
      ),
      model_dir,
      config,
      warm_start_from,
      scope="linear",
    )


_OF_LINEAR = "feature_columns model_dir"
LinearClassifier = _of_kind(LinearEstimator, "Classifier", "A linear classifier.", _OF_LINEAR)
LinearRegressor = _of_kind(LinearEstimator, "Regressor", "A linear regression.", _OF_LINEAR)


class DNNLinearCombinedEstimator(Canned):
  """A linear model and dense layers together, each with its own optimizer."""

  def __init__(
    self,
    head: heads.Head,
    model_dir: str | None = None,
    linear_feature_columns: Sequence[Any] | None = None,
    linear_optimizer: Any = "Ftrl",
    dnn_feature_columns: Sequence[Any] | None = None,
    dnn_optimizer: Any = "Adagrad",
    dnn_hidden_units: Sequence[int] | None = None,
    dnn_activation_fn: Any = tf.nn.relu,
    dnn_dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    warm_start_from: Any = None,
    batch_norm: bool = False,
    linear_sparse_combiner: str = "sum",
  ):
    linear, dnn = linear_feature_columns or [], dnn_feature_columns or []
    if not (linear or dnn):
      raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    if dnn and not dnn_hidden_units:
      raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
    units = head.logits_dimension
    dnn_logits = linear_logits = None
    if dnn:
      dnn_logits = dnn_logit_fn_builder(
        units,
        dnn_hidden_units,
        dnn,
        dnn_activation_fn,
        dnn_dropout,
        input_layer_partitioner,
        batch_norm,
      )
    if linear:
      linear_logits = linear_logit_fn_builder(units, linear, linear_sparse_combiner)
    minimizers = self._minimizers(linear, linear_optimizer, dnn, dnn_optimizer)
    super().__init__(
      head,
      functools.partial(_sum_of_logits, dnn_logits, linear_logits),
      lambda loss: tf.group(*[minimize(loss) for minimize in minimizers]),
      model_dir,
      config,
      warm_start_from,
    )

  def _minimizers(
    self, linear: Sequence[Any], linear_optimizer: Any, dnn: Sequence[Any], dnn_optimizer: Any
  ) -> list[Callable[[tf.Tensor], Any]]:
    """Returns, for each part with columns, a function from the loss to its train_op."""
    face, found = self.face, []
    if dnn:
      found.append(face.minimizer(lambda: face.optimizer(dnn_optimizer, _COMBINED_DNN_RATE), "dnn"))
    if linear:
      rate = min(_COMBINED_LINEAR_RATE, 1 / math.sqrt(len(linear)))
      found.append(
        face.minimizer(lambda: face.optimizer(linear_optimizer, rate), "linear", counts=not dnn)
      )
    return found


def _sum_of_logits(
  dnn_logits: Callable | None, linear_logits: Callable | None, features: dict[str, Any], mode: str
) -> tf.Tensor:
  found = []
  if dnn_logits is not None:
    found.append(dnn_logits(features, mode))
  if linear_logits is not None:
    found.append(linear_logits(features))
    summary.scalar("linear/linear/fraction_of_zero_values", tf.math.zero_fraction(found[-1]))
  return tf.add_n(found)


DNNLinearCombinedClassifier = _of_kind(
  DNNLinearCombinedEstimator, "Classifier", "A classifier by both."
)
DNNLinearCombinedRegressor = _of_kind(
  DNNLinearCombinedEstimator, "Regressor", "A regression by both."
)
