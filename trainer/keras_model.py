"""Keras models as model_fns, and their trained values back in Keras.

Example:
    model_fn = model_fn_from_keras(build_model, loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    estimator = Estimator(model_fn, model_dir="out/mine", train_batch_size=128)
    estimator.train(input_fn, max_steps=1000)
    load_into_keras("out/mine", build_model).save("mine.keras")
"""

import re

import keras
import tensorflow as tf

from trainer import errors, optimizers, spec
from trainer.checkpoints import directory, reader
from trainer.config import gin_names
from trainer.internals import keras_internals
from trainer.tracing import keras_scope

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
    model = _made(build_model)
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


def load_into_keras(checkpoint_path, model):
  """Gives a Keras model the values that it has in a checkpoint.

  Args:
    checkpoint_path: a checkpoint, or a folder, whose newest is meant.
    model: a built keras.Model, or a function that makes one (the build_model of
      `model_fn_from_keras`). The values are found by the variables' paths; a function is called so
      that Keras numbers its layers as it did in training ("dense", "dense_1"), whatever was made
      before.

  Returns:
    The model: `.save("x.keras")` and `.save_weights("x.weights.h5")` write it.

  Raises:
    CheckpointNotFoundError: there is no checkpoint.
    CheckpointError: a variable of the model is not in it, or has another shape there; nothing was
      changed.
    SettingError: model is neither, or has no variables yet.
  """
  if not isinstance(model, keras.Model):
    with keras_scope.KerasScope(
      keras.config.dtype_policy().name, seed=0, step=tf.constant(0, tf.int64)
    ).replica():
      model = _made(model)
  variables = {variable.path: variable for variable in model.weights}
  if not variables:
    raise errors.SettingError(
      f"load_into_keras: the model {model.name!r} has no variables yet: build it, or call it once."
    )
  reader.restore(
    directory.resolve(str(checkpoint_path)),
    {path: variable.value for path, variable in variables.items()},
  )
  return model


def _made(build_model):
  is_function = callable(build_model) and not isinstance(build_model, keras.Model)
  model = build_model() if is_function else None
  if not isinstance(model, keras.Model):
    raise errors.SettingError(
      "Expected a function that makes a keras.Model, anew at each call; "
      f"got {build_model!r}" + (f", which gives {model!r}." if is_function else ".")
    )
  return model


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
