"""Makes model_fns of Keras models.

    model_fn = model_fn_from_keras(build_model, loss="mse", optimizer="adam")
    estimator = Estimator(model_fn, model_dir="out/mine", train_batch_size=128)
    estimator.train(input_fn, max_steps=1000)
    load_into_keras("out/mine", build_model).save("mine.keras")

See `trainer.checkpoints.into_keras` for the way back.
"""

import re

import keras
import tensorflow as tf

from trainer import errors, optimizers, spec
from trainer.checkpoints import into_keras
from trainer.config import gin_names
from trainer.internals import keras_internals

ModeKeys = spec.ModeKeys


@gin_names.configurable(module="trainer")
def model_fn_from_keras(build_model, loss=None, optimizer=None, metrics=None):
  """Makes a model_fn of a Keras model.

  Args:
    build_model: function without arguments that makes the model, anew at each call: functional,
      sequential or subclassed, compiled or not. What regularizers and `add_loss` give is added to
      the loss. A `compute_loss` of the model's own is called, a `train_step` is not. The variables
      that `compile` makes ("loss/total", and those of metrics that are objects) are in the
      checkpoint, unused.
    loss, optimizer, metrics: as `keras.Model.compile` takes them; where None, what the model was
      compiled with. An optimizer may also be a function that makes one, such as its class.
      Optimizers and metrics that are objects serve as patterns, of which each step gets a copy.

  Returns:
    A model_fn. Where the features are a dict of one and the model has one input, it gets the
    tensor, else the features as they are. The predictions are the model's output: a dict as it is,
    a tensor as {"output": ...}, several as {"output_0": ..., ...}.

  Raises:
    SettingError: when called: build_model does not make a Keras model, or there is no loss or
      optimizer in it or here.
  """
  make_optimizer = _maker(optimizer)

  def model_fn(features, labels, mode, params):
    del params
    training = mode == ModeKeys.TRAIN
    model = into_keras.build(build_model)
    outputs = model(_inputs(model, features), training=training)
    outputs = tf.nest.map_structure(
      lambda output: tf.cast(output, tf.float32) if output.dtype.is_floating else output, outputs
    )
    if mode == ModeKeys.PREDICT:
      return spec.EstimatorSpec(mode, predictions=_named_outputs(outputs))
    names = getattr(model, "output_names", None)
    # In place of model.compile, which would also make metrics, whose variables would be the
    # model's.
    if loss is not None:
      keras_internals.set_loss(model, loss, names)
    elif not model.compiled and not model.losses:
      raise errors.SettingError(
        f"model_fn_from_keras: {spec.name_of(build_model)} gives a model "
        "without a loss: compile it with one, or give loss=."
      )
    total = model.compute_loss(features, labels, outputs, training=training)
    if mode == ModeKeys.EVAL:
      wanted = metrics or keras_internals.compiled_metrics(model)
      return spec.EstimatorSpec(
        mode, loss=total, eval_metrics=_eval_metrics(wanted, labels, outputs, names)
      )
    return spec.EstimatorSpec(
      mode, loss=total, train_op=optimizers.minimize(make_optimizer(model), total)
    )

  return model_fn


def _inputs(model, features):
  """The features as the model takes them."""
  named = isinstance(model, keras_internals.Functional) and (
    isinstance(model.input, dict) or len(model.inputs) > 1
  )
  return (
    next(iter(features.values()))
    if isinstance(features, dict) and len(features) == 1 and not named
    else features
  )


def _named_outputs(outputs):
  if isinstance(outputs, dict):
    return outputs
  if isinstance(outputs, list | tuple):
    return {f"output_{index}": output for index, output in enumerate(outputs)}
  return {"output": outputs}


def _maker(optimizer):
  """A function of the model that makes a new optimizer: from a name, a pattern or a function,
  or else the one that the model was compiled with.
  """
  if optimizer is None:
    return _compiled_optimizer
  if isinstance(optimizer, keras.optimizers.Optimizer):
    # Here, and not while a model_fn is traced: it reads the learning rate.
    config = optimizer.get_config()
    own_name = keras_internals.to_snake_case(type(optimizer).__name__)
    if re.fullmatch(rf"{own_name}(_\d+)?", config["name"]):
      # Keras numbers optimizers by how many the process has made: a name that a checkpoint could
      # not rely on.
      config["name"] = own_name
    return lambda model: type(optimizer).from_config(config)
  return lambda model: (
    keras.optimizers.get(optimizer) if isinstance(optimizer, str) else optimizer()
  )


def _compiled_optimizer(model):
  optimizer = getattr(model, "optimizer", None)
  if optimizer is None:
    raise errors.SettingError(
      "model_fn_from_keras: there is no optimizer: compile the model with one, or give optimizer=."
    )
  return optimizer


def _eval_metrics(metrics, labels, outputs, output_names):
  """eval_metrics of an EstimatorSpec, or None."""
  if not metrics:
    return None
  if labels is None:
    raise errors.SettingError(
      f"model_fn_from_keras: the metrics {metrics!r} need labels, and the input_fn gives none."
    )
  structure = labels, outputs

  def metric_fn(*tensors):
    labels, outputs = tf.nest.pack_sequence_as(structure, tensors)
    copies = tf.nest.map_structure(
      lambda m: type(m).from_config(m.get_config()) if isinstance(m, keras.metrics.Metric) else m,
      metrics,
    )
    return keras_internals.updated_metrics(copies, labels, outputs, output_names)

  return metric_fn, tf.nest.flatten(structure)
