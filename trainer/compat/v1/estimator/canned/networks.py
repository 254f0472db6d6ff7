"""The networks of canned estimators: functions of features that give logits, [batch, units]."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer import ModeKeys
from trainer.compat.v1 import layers, summary

v1 = tf.compat.v1


def dnn_logits(
  features: dict[str, Any], mode: str, units: int, settings: dict[str, Any]
) -> tf.Tensor:
  training = mode == ModeKeys.TRAIN
  activation = layers.base.activation(settings["activation_fn"])
  found: dict[str, tf.Tensor] = {}
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
      found[f"hiddenlayer_{index}"] = net
    found["logits"] = layers.dense(net, units, name="logits")
  for name, outputs in found.items():  # under the tags of 2.15
    tag = f"dnn/dnn/{name}/fraction_of_zero_values"
    summary.scalar(tag, tf.math.zero_fraction(outputs))
  return found["logits"]


def linear_logits(
  features: dict[str, Any], units: int, columns: Sequence[Any], combiner: str
) -> tf.Tensor:
  with v1.variable_scope("linear"):
    logits = v1.feature_column.linear_model(
      features, list(columns), units=units, sparse_combiner=combiner
    )
  variables = v1.global_variables("linear/")
  weights = [one for one in variables if not one.op.name.endswith("/bias_weights")]
  (bias,) = (one for one in variables if one.op.name.endswith("/bias_weights"))
  if units == 1:
    summary.scalar("linear/bias", bias)
  zeros = [tf.reduce_sum(tf.cast(tf.equal(one, 0), tf.float32)) for one in weights]
  size = sum(one.shape.num_elements() for one in weights)
  summary.scalar("linear/fraction_of_zero_weights", tf.add_n(zeros) / size)
  return logits


def baseline_logits(features: dict[str, Any], units: int) -> tf.Tensor:
  with v1.variable_scope("baseline"):
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
  batch = tf.shape(tf.nest.flatten(features)[0])[0]
  return tf.tile(bias[tf.newaxis], [batch, 1])
