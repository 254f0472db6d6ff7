"""The networks of canned estimators: functions of features that give logits, [batch, units]."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer import ModeKeys
from trainer.compat.v1 import layers

v1 = tf.compat.v1


def dnn_logits(
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


def linear_logits(
  features: dict[str, Any], units: int, columns: Sequence[Any], combiner: str
) -> tf.Tensor:
  with v1.variable_scope("linear"):
    return v1.feature_column.linear_model(
      features, list(columns), units=units, sparse_combiner=combiner
    )


def baseline_logits(features: dict[str, Any], units: int) -> tf.Tensor:
  with v1.variable_scope("baseline"):
    bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
  batch = tf.shape(tf.nest.flatten(features)[0])[0]
  return tf.tile(bias[tf.newaxis], [batch, 1])
