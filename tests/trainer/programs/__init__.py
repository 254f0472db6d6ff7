"""The smallest programs that the unit tests train: a line through made-up points."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

import trainer
from trainer import experiment
from trainer.outputs import exporters

ModeKeys = trainer.ModeKeys

WIDTH = 3


def arrays(count, width=WIDTH):
  """(x float32 [count, width], y float32 [count]), always the same."""
  random = np.random.RandomState(7)
  x = random.randn(count, width).astype(np.float32)
  return x, (x @ np.arange(1, width + 1, dtype=np.float32) + 0.5).astype(np.float32)


def line(features, labels, mode, params):
  """y = x·w + b for features {"x": [batch, 3]} or a tensor, by mean squared error; evaluates
  the mean absolute error.
  """
  x = features["x"] if isinstance(features, dict) else features
  w = tf.Variable(tf.zeros([x.shape[-1]]), name="w")
  b = tf.Variable(0.0, name="b")
  y = tf.linalg.matvec(x, w) + b
  predictions = {"y": y, "first": x[:, 0]}
  if mode == ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)
  loss = tf.reduce_mean(tf.square(y - labels))
  if mode == ModeKeys.EVAL:
    return trainer.EstimatorSpec(
      mode, loss=loss, eval_metrics=(absolute_error, {"labels": labels, "y": y})
    )
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.05), loss)
  )


def absolute_error(labels, y):
  # MeanAbsoluteError would take the mean over the last axis first, which is the batch.
  metric = keras.metrics.Mean()
  metric.update_state(tf.abs(labels - y))
  return {"absolute_error": metric}


def train_input(params):
  """40 points without end."""
  x, y = arrays(40)
  return (
    tf.data.Dataset.from_tensor_slices(({"x": x}, y))
    .repeat()
    .batch(params["batch_size"], drop_remainder=True)
  )


def examples(count):
  """An input_fn of `count` points, once and in order; the last batch may be partial."""

  def input_fn(params):
    x, y = arrays(count)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(params["batch_size"])

  return input_fn


def batches(count):
  """An input_fn of `count` whole per-core batches."""

  def input_fn(params):
    return train_input(params).take(count)

  return input_fn


def estimator(model_dir, model_fn=line, device="cpu", params=None, batch_size=8, **config):
  """An Estimator with one global batch size for all; `config` goes to the RunConfig."""
  return trainer.Estimator(
    model_fn,
    str(model_dir),
    trainer.RunConfig(device=device, **config),
    params=params,
    train_batch_size=batch_size,
    eval_batch_size=batch_size,
  )


def train_and_evaluate(folder, max_steps, exports=True):
  """Trains `line`, evaluates at each checkpoint, and exports at the end; returns the weights as
  bytes.
  """
  made = estimator(folder, save_checkpoints_steps=10, keep_checkpoint_max=2)
  trainer.train_and_evaluate(
    made,
    trainer.TrainSpec(train_input, max_steps),
    trainer.EvalSpec(examples(16), exporters=[exporters.FinalExporter("final")] if exports else []),
  )
  return made.get_variable_value("w").tobytes()


def fixed_loops(steps):
  """RunConfig arguments for loops of so many steps."""
  return dict(tpu_config=trainer.TPUConfig(iterations_per_loop=steps))


def v1_checkpoint(folder, values):
  """The path of a checkpoint as TensorFlow 1 writes it, of values (arrays) by the names of
  variables.
  """
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    for name, value in values.items():
      tf.compat.v1.get_variable(name, initializer=np.asarray(value, np.float32))
    session.run(tf.compat.v1.global_variables_initializer())
    return tf.compat.v1.train.Saver().save(session, f"{folder}/bert_model.ckpt")


def run_experiment(**settings):
  """Runs an experiment that is given as one dict: what gin binds, and flags."""
  of_flags = {field.name for field in dataclasses.fields(experiment.Flags)} & set(settings)
  flags = experiment.Flags(**{name: settings.pop(name) for name in of_flags})
  return experiment.run(flags, experiment.Experiment(**settings))


def results_of_all_modes(estimator, export_folder):
  """The values of an evaluation with a tail, a prediction and an export after five steps."""
  estimator.train(train_input, max_steps=5)
  metrics = estimator.evaluate(examples(21))
  predictions = [prediction["y"] for prediction in estimator.predict(examples(21))]
  export = tf.saved_model.load(estimator.export_saved_model(export_folder))
  x, _ = arrays(21)
  served = export.signatures["serving_default"](x=tf.constant(x))["y"].numpy()
  return [*metrics.values(), *predictions, *served]
