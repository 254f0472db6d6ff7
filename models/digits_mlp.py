"""A small network that reads handwritten digits. Copy this file to start a model of your own.

A model is one function, `model_fn`. The framework calls it once for each mode and each core of the
device, with the features and labels of one batch as the input_fn made them; it returns an
EstimatorSpec that says what to predict, to minimise and to measure. Write it as if there were one
core.

    run.model_fn = @digits_mlp.model_fn        # in a gin file, after `import models.digits_mlp`
"""

import gin
import keras
import tensorflow as tf

import trainer


def network(images, training, hidden_units, dropout):
  """Maps images (float32 [batch, height, width, channels]) to logits (float32 [batch, 10])."""
  x = keras.layers.Flatten()(images)
  for units in hidden_units:
    x = keras.layers.Dense(units, activation="relu")(x)
    # Layers that differ between training and use are told which it is.
    x = keras.layers.Dropout(dropout)(x, training=training)
  # With --precision=bfloat16 the layers above compute in bfloat16. The loss needs more digits than
  # that has, so the last layer is always float32.
  return keras.layers.Dense(10, dtype="float32")(x)


# Every argument from the fifth on is a knob that a gin file can turn: `digits_mlp.model_fn.dropout
# = 0.5`.
@gin.configurable
def model_fn(
  features,
  labels,
  mode,
  params,
  hidden_units=(128, 64),
  dropout=0.2,
  optimizer=keras.optimizers.Adam,
  label_smoothing=0.0,
):
  """Classifies digits.

  Args:
    features: dict with "image", float32 [batch, 8, 8, 1] in 0..1.
    labels: int32 [batch] in 0..9; None when predicting.
    mode: one of trainer.ModeKeys: TRAIN, EVAL, PREDICT.
    params: dict of what `run.params` holds, with "batch_size", the examples on this core (absent in
      export).
    hidden_units: sizes of the hidden layers.
    dropout: share of hidden units that a training step leaves out.
    optimizer: makes a Keras optimizer: a class, or in gin `@keras.optimizers.Adam`, with bindings
      of its own.
    label_smoothing: share of each label that is spread evenly over the classes.

  Returns:
    A trainer.EstimatorSpec.
  """
  # 1. The network. Layers are made right here, each time; the framework sees to it that all calls
  #   share one set of variables.
  logits = network(features["image"], mode == trainer.ModeKeys.TRAIN, hidden_units, dropout)

  # 2. What a user of the model gets: tensors whose first axis is the batch.
  predictions = {
    "class": tf.argmax(logits, axis=-1, output_type=tf.int32),
    "probabilities": tf.nn.softmax(logits),
  }
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)

  # 3. The loss: a scalar, the mean over the batch.
  loss = tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  )
  if mode == trainer.ModeKeys.EVAL:
    return trainer.EstimatorSpec(
      mode, loss=loss, eval_metrics=(metric_fn, {"labels": labels, "classes": predictions["class"]})
    )

  # 4. The training step: one update of all trainable variables. Labels are smoothed here alone, so
  #   that what is evaluated can be compared.
  if label_smoothing:
    loss = (1 - label_smoothing) * loss - label_smoothing * tf.reduce_mean(
      tf.nn.log_softmax(logits)
    )
  return trainer.EstimatorSpec(mode, loss=loss, train_op=trainer.minimize(optimizer(), loss))


def metric_fn(labels, classes):
  """Metrics of a whole evaluation.

  Called on the host, batch after batch, with the tensors that eval_metrics names, from all cores.
  """
  accuracy = keras.metrics.Accuracy()
  accuracy.update_state(labels, classes)
  return {"accuracy": accuracy}
