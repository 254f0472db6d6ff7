"""The networks of canned estimators: functions from features to logits, [batch, units]."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from trainer import ModeKeys
from trainer.compat.estimator import input_fns
from trainer.compat.graph_mode import summary
from trainer.compat.layers import legacy, normalization

v1 = tf.compat.v1


def dnn_logit_fn_builder(
  units: int,
  hidden_units: Sequence[int],
  feature_columns: Sequence[Any],
  activation_fn: Any,
  dropout: float | None,
  input_layer_partitioner: Any,
  batch_norm: bool,
) -> Callable[[dict[str, Any], str], tf.Tensor]:
  """Returns a function of features and mode: dense layers; see DNNEstimator."""
  del input_layer_partitioner

  def logit_fn(features, mode):
    training = mode == ModeKeys.TRAIN
    found: dict[str, tf.Tensor] = {}
    with v1.variable_scope("dnn"):
      with v1.variable_scope("input_from_feature_columns"):
        # TensorFlow's own columns make the variables, under 2.15's names.
        net = v1.feature_column.input_layer(features, list(feature_columns))
      for index, width in enumerate(hidden_units):
        net = legacy.dense(net, width, activation_fn, name=f"hiddenlayer_{index}")
        if dropout is not None and training:
          net = legacy.dropout(net, dropout, training=True)
        if batch_norm:
          # The scope and the momentum of 2.15.
          net = normalization.batch_normalization(
            net, momentum=0.999, training=training, name=f"hiddenlayer_{index}/batchnorm_{index}"
          )
        found[f"hiddenlayer_{index}"] = net
      found["logits"] = legacy.dense(net, units, name="logits")
    for name, outputs in found.items():  # the summary tags of 2.15
      tag = f"dnn/dnn/{name}/fraction_of_zero_values"
      summary.scalar(tag, tf.math.zero_fraction(outputs))
    return found["logits"]

  return logit_fn


def linear_logit_fn_builder(
  units: int, feature_columns: Sequence[Any], sparse_combiner: str = "sum"
) -> Callable[[dict[str, Any]], tf.Tensor]:
  """Returns a function of features: a linear model; see LinearEstimator."""

  def logit_fn(features):
    with v1.variable_scope("linear"):
      logits = v1.feature_column.linear_model(
        features, list(feature_columns), units=units, sparse_combiner=sparse_combiner
      )
    # linear_model returns no variables: find them by their scope.
    variables = v1.global_variables("linear/")
    weights = [one for one in variables if not one.op.name.endswith("/bias_weights")]
    (bias,) = (one for one in variables if one.op.name.endswith("/bias_weights"))
    if units == 1:
      summary.scalar("linear/bias", bias)
    zeros = [tf.reduce_sum(tf.cast(tf.equal(one, 0), tf.float32)) for one in weights]
    size = sum(one.shape.num_elements() for one in weights)
    summary.scalar("linear/fraction_of_zero_weights", tf.add_n(zeros) / size)
    return logits

  return logit_fn


def call_logit_fn(
  logit_fn: Callable, features: dict[str, Any], mode: str, params: Any, config: Any
) -> Any:
  """Calls such a function with features and with its arguments among mode, params and config.

  Raises:
    ValueError: the function returned neither a tensor nor a dict of tensors.
  """
  given = dict(mode=mode, params=params, config=config)
  found = logit_fn(
    features=features,
    **{name: value for name, value in given.items() if input_fns.takes(logit_fn, name)},
  )
  values = list(found.values()) if isinstance(found, dict) else [found]
  if not values or not all(map(tf.is_tensor, values)):
    raise ValueError(f"logit_fn should return a Tensor or a dict of Tensors; it returned {found}.")
  return found
