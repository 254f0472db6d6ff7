"""Canned estimators over tf.feature_column: DNN, linear, both together, and baselines.

Variables have the names that tf.compat.v1's had: `dnn/hiddenlayer_0/kernel`,
`linear/linear_model/age/weights`, `baseline/bias`.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer import ModeKeys
from trainer.compat.v1 import layers
from trainer.compat.v1.estimator import heads
from trainer.compat.v1.estimator.estimator import Estimator
from trainer.internals import tensorflow_internals

v1 = tf.compat.v1

_OPTIMIZERS = {
  "Adagrad": v1.train.AdagradOptimizer,
  "Adam": v1.train.AdamOptimizer,
  "Ftrl": v1.train.FtrlOptimizer,
  "RMSProp": v1.train.RMSPropOptimizer,
  "SGD": v1.train.GradientDescentOptimizer,
}

_DNN_RATE = 0.05
_LINEAR_RATE = 0.2  # at most
_COMBINED_LINEAR_RATE = 0.005  # at most


def _optimizer(given: Any, rate: float) -> Any:
  """An optimizer from one, its name, or a function that makes one."""
  if isinstance(given, str):
    if given not in _OPTIMIZERS:
      raise ValueError(f"Unsupported optimizer {given!r}; expected one of {sorted(_OPTIMIZERS)}.")
    return _OPTIMIZERS[given](rate)
  return given() if callable(given) else given


def _linear_rate(columns: Sequence[Any], most: float) -> float:
  return min(most, 1 / math.sqrt(len(columns)))


def _dnn_logits(
  features: dict[str, Any], mode: str, units: int, settings: dict[str, Any]
) -> tf.Tensor:
  training = mode == ModeKeys.TRAIN
  activation = layers.base.activation(settings["activation_fn"])
  with v1.variable_scope("dnn"):
    with v1.variable_scope("input_from_feature_columns"):
      net = v1.feature_column.input_layer(features, list(settings["feature_columns"]))
    for index, width in enumerate(settings["hidden_units"]):
      net = layers.dense(net, width, activation, name=f"hiddenlayer_{index}")
      if settings["dropout"] is not None and training:
        net = layers.dropout(net, settings["dropout"], training=True)
      if settings["batch_norm"]:
        net = layers.batch_normalization(
          net, momentum=0.999, training=training, name=f"hiddenlayer_{index}/batchnorm_{index}"
        )
    return layers.dense(net, units, name="logits")


def _linear_logits(
  features: dict[str, Any], units: int, columns: Sequence[Any], combiner: str
) -> tf.Tensor:
  with v1.variable_scope("linear"):
    return v1.feature_column.linear_model(
      features, list(columns), units=units, sparse_combiner=combiner
    )


def _baseline_logits(features: dict[str, Any], units: int) -> tf.Tensor:
  with v1.variable_scope("baseline"):
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
  batch = tf.shape(tf.nest.flatten(features)[0])[0]
  return tf.tile(bias[tf.newaxis], [batch, 1])


class _Canned(Estimator):
  """What canned estimators have in common.

  Args:
    head: a heads.Head.
    logits_fn: function of features and mode.
    minimize: function of a loss that returns the train_op.
  """

  def __init__(
    self,
    head: heads.Head,
    logits_fn: Callable[[dict[str, Any], str], tf.Tensor],
    minimize: Callable[[tf.Tensor], Any],
    model_dir: str | None,
    config: Any,
    warm_start_from: Any,
  ):
    def model_fn(features, labels, mode, config):
      del config
      if not isinstance(features, dict):
        raise ValueError(f"features should be a dictionary of tensors; got {type(features)}.")
      logits = logits_fn(features, mode)

      def train_op_fn(loss: tf.Tensor) -> Any:
        with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
          return minimize(loss)

      return head.spec(features, mode, logits, labels, train_op_fn)

    super().__init__(model_fn, model_dir, config, None, warm_start_from)


def _minimizer(
  make: Callable[[], Any], of: str | None = None, slots: str = "", within: str | None = None
) -> Callable[[tf.Tensor], Any]:
  """A function of a loss that makes the train_op.

  Args:
    make: makes the optimizer.
    of: the scope of the variables that are trained; None for all.
    slots: what the names of slots begin with. 2.15 cut the variables of a model for parameter
      servers, into one part where there were none, and took the names of slots from behind as many
      letters as the part's own name had; but the slots were made in the model's scope, so that as
      much of "part_0/" was left as that scope is long.
    within: the scope of the model, in which the optimizer's own variables are.
  """

  def minimize(loss: tf.Tensor) -> Any:
    optimizer = make()
    variables = v1.trainable_variables(of) if of else None
    with contextlib.ExitStack() as scopes:
      if slots and isinstance(optimizer, v1.train.Optimizer):
        name = f"{slots}{optimizer.get_name()}"
        scopes.enter_context(tensorflow_internals.optimizer_named(optimizer, name))
      scopes.enter_context(v1.name_scope(f"{within}/head/" if within else "head/"))
      return optimizer.minimize(loss, v1.train.get_global_step(), var_list=variables)

  return minimize


class DNNEstimator(_Canned):
  """A network of dense layers, with a head of its own."""

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
    del input_layer_partitioner
    settings = dict(
      hidden_units=list(hidden_units),
      feature_columns=feature_columns,
      activation_fn=activation_fn,
      dropout=dropout,
      batch_norm=batch_norm,
    )
    super().__init__(
      head,
      lambda features, mode: _dnn_logits(features, mode, head.logits_dimension, settings),
      _minimizer(lambda: _optimizer(optimizer, _DNN_RATE), slots="t_0/", within="dnn"),
      model_dir,
      config,
      warm_start_from,
    )


class DNNClassifier(DNNEstimator):
  """A classifier of dense layers."""

  def __init__(
    self,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column: str | None = None,
    label_vocabulary: Sequence[str] | None = None,
    **settings: Any,
  ):
    head = heads.classification(n_classes, weight_column, label_vocabulary)
    super().__init__(head, hidden_units, feature_columns, model_dir, **settings)


class DNNRegressor(DNNEstimator):
  """A regression by dense layers."""

  def __init__(
    self,
    hidden_units: Sequence[int],
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    label_dimension: int = 1,
    weight_column: str | None = None,
    **settings: Any,
  ):
    head = heads.RegressionHead(label_dimension, weight_column)
    super().__init__(head, hidden_units, feature_columns, model_dir, **settings)


class LinearEstimator(_Canned):
  """A linear model, with a head of its own."""

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
    rate = _linear_rate(feature_columns, _LINEAR_RATE)
    super().__init__(
      head,
      lambda features, mode: _linear_logits(
        features, head.logits_dimension, feature_columns, sparse_combiner
      ),
      _minimizer(lambda: _optimizer(optimizer, rate), slots="part_0/", within="linear"),
      model_dir,
      config,
      warm_start_from,
    )


class LinearClassifier(LinearEstimator):
  """A linear classifier."""

  def __init__(
    self,
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column: str | None = None,
    label_vocabulary: Sequence[str] | None = None,
    **settings: Any,
  ):
    head = heads.classification(n_classes, weight_column, label_vocabulary)
    super().__init__(head, feature_columns, model_dir, **settings)


class LinearRegressor(LinearEstimator):
  """A linear regression."""

  def __init__(
    self,
    feature_columns: Sequence[Any],
    model_dir: str | None = None,
    label_dimension: int = 1,
    weight_column: str | None = None,
    **settings: Any,
  ):
    head = heads.RegressionHead(label_dimension, weight_column)
    super().__init__(head, feature_columns, model_dir, **settings)


class DNNLinearCombinedEstimator(_Canned):
  """A linear model and dense layers together, each with an optimizer of its own."""

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
    del input_layer_partitioner
    linear, dnn = linear_feature_columns or [], dnn_feature_columns or []
    if not (linear or dnn):
      raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    if dnn and not dnn_hidden_units:
      raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")
    settings = dict(
      hidden_units=list(dnn_hidden_units or []),
      feature_columns=dnn,
      activation_fn=dnn_activation_fn,
      dropout=dnn_dropout,
      batch_norm=batch_norm,
    )
    minimizers = []
    if dnn:
      minimizers.append(_minimizer(lambda: _optimizer(dnn_optimizer, _DNN_RATE), "dnn"))
    if linear:
      rate = _linear_rate(linear, _COMBINED_LINEAR_RATE)
      minimizers.append(_minimizer(lambda: _optimizer(linear_optimizer, rate), "linear"))

    def logits_fn(features: dict[str, Any], mode: str) -> tf.Tensor:
      found = []
      if dnn:
        found.append(_dnn_logits(features, mode, head.logits_dimension, settings))
      if linear:
        found.append(
          _linear_logits(features, head.logits_dimension, linear, linear_sparse_combiner)
        )
      return tf.add_n(found)

    super().__init__(
      head,
      logits_fn,
      lambda loss: tf.group(*[minimize(loss) for minimize in minimizers]),
      model_dir,
      config,
      warm_start_from,
    )


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
  """A classifier by both."""

  def __init__(
    self,
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column: str | None = None,
    label_vocabulary: Sequence[str] | None = None,
    **settings: Any,
  ):
    head = heads.classification(n_classes, weight_column, label_vocabulary)
    super().__init__(head, model_dir, **settings)


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
  """A regression by both."""

  def __init__(
    self,
    model_dir: str | None = None,
    label_dimension: int = 1,
    weight_column: str | None = None,
    **settings: Any,
  ):
    super().__init__(heads.RegressionHead(label_dimension, weight_column), model_dir, **settings)


class BaselineEstimator(_Canned):
  """A bias alone, which learns the mean of the labels."""

  def __init__(
    self,
    head: heads.Head,
    model_dir: str | None = None,
    optimizer: Any = "Ftrl",
    config: Any = None,
  ):
    super().__init__(
      head,
      lambda features, mode: _baseline_logits(features, head.logits_dimension),
      _minimizer(lambda: _optimizer(optimizer, 0.3)),
      model_dir,
      config,
      None,
    )


class BaselineClassifier(BaselineEstimator):
  """The frequencies of the classes."""

  def __init__(
    self,
    model_dir: str | None = None,
    n_classes: int = 2,
    weight_column: str | None = None,
    label_vocabulary: Sequence[str] | None = None,
    **settings: Any,
  ):
    head = heads.classification(n_classes, weight_column, label_vocabulary)
    super().__init__(head, model_dir, **settings)


class BaselineRegressor(BaselineEstimator):
  """The mean of the labels."""

  def __init__(
    self,
    model_dir: str | None = None,
    label_dimension: int = 1,
    weight_column: str | None = None,
    **settings: Any,
  ):
    super().__init__(heads.RegressionHead(label_dimension, weight_column), model_dir, **settings)
