"""Makes a model_fn from a Keras model.

    model_fn = model_fn_from_keras(build_model, loss="mse", optimizer="adam")
    estimator = Estimator(model_fn, model_dir="out/mine", train_batch_size=128)
    estimator.train(input_fn, max_steps=1000)
    load_into_keras("out/mine", build_model).save("mine.keras")

`trainer.checkpoints.into_keras` loads a checkpoint back into a Keras model.
"""

import re
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer import errors, spec
from trainer.checkpoints import into_keras
from trainer.config import gin_names
from trainer.inputs import weights
from trainer.internals import keras_internals
from trainer.optimization import optimizers

ModeKeys = spec.ModeKeys


@gin_names.configurable(module="trainer")
def model_fn_from_keras(
  build_model: Callable[[], keras.Model],
  loss: Any = None,
  optimizer: Any = None,
  metrics: Any = None,
  weighted_metrics: Any = None,
) -> Callable[..., spec.EstimatorSpec]:
  """Makes a model_fn from a Keras model.

  Args:
    build_model: makes a new model at each call: functional, sequential or subclassed, compiled or
      not. Octet adds the losses of regularizers and `add_loss` to the loss. It calls a model's own
      `compute_loss`, and not its own `train_step`. A checkpoint contains the variables that
      `compile` makes ("loss/total", and the variables of metric objects); Octet does not use them.
    loss: as for `keras.Model.compile`; None for the model's compiled loss.
    optimizer: as for `keras.Model.compile`, or a function that makes an optimizer, such as its
      class; None for the model's compiled optimizer.
    metrics: as for `keras.Model.compile`; None for the model's compiled metrics. Octet never uses
      optimizer and metric objects themselves: each step gets a copy.
    weighted_metrics: metrics that use the example weights, in the same forms.

  Returns:
    A model_fn. If the features are a dict with one entry and the model has one input, the model
    gets that tensor; otherwise it gets the features unchanged. The predictions are the model's
    output: a dict unchanged, a tensor as {"output": ...}, several as {"output_0": ..., ...}. The
    model_fn takes example weights, and divides a loss by their number, see
    `trainer.inputs.weights`.

  Raises:
    SettingError: the model_fn raises it: build_model does not make a Keras model; there is no loss
      or optimizer here or in the model; RunConfig.class_weight has a class that the model lacks; or
      a loss divides by the weights of a batch.
  """
  make_optimizer = _maker(optimizer)

  def model_fn(features, labels, mode, params, config=None, sample_weight=None):
    del params
    training = mode == ModeKeys.TRAIN
    model = into_keras.build(build_model)
    outputs = model(_inputs(model, features), training=training)
    # With bfloat16 layers, Octet still computes losses and metrics in float32.
    outputs = tf.nest.map_structure(
      lambda output: tf.cast(output, tf.float32) if output.dtype.is_floating else output, outputs
    )
    if mode == ModeKeys.PREDICT:
      return spec.EstimatorSpec(mode, predictions=_named_outputs(outputs))
    names = getattr(model, "output_names", None)
    # Not model.compile: its metrics' variables would become variables of the model.
    if loss is not None:
      keras_internals.set_loss(model, loss, names)
    elif not model.compiled and not model.losses:
      raise errors.SettingError(
        f"model_fn_from_keras: {spec.name_of(build_model)} returns a model without a loss: compile "
        "it with one, or give loss=."
      )
    _check_labels(model.loss if loss is None else loss, labels)
    if sample_weight is not None:
      _check_weights(model, outputs, config, mode)
    total = model.compute_loss(features, labels, outputs, sample_weight, training=training)
    if mode == ModeKeys.EVAL:
      compiled, compiled_weighted = keras_internals.compiled_metrics(model)
      wanted = metrics or compiled, weighted_metrics or compiled_weighted
      return spec.EstimatorSpec(
        mode, loss=total, eval_metrics=_eval_metrics(wanted, labels, outputs, sample_weight, names)
      )
    return spec.EstimatorSpec(
      mode, loss=total, train_op=optimizers.minimize(make_optimizer(model), total)
    )

  return model_fn


def _check_labels(loss, labels):
  """Raises ModelFnError where a loss of integer labels gets probabilities of classes."""
  name = loss if isinstance(loss, str) else getattr(loss, "name", "")
  is_probabilities = tf.is_tensor(labels) and labels.dtype.is_floating and labels.shape.rank == 2
  if name == "sparse_categorical_crossentropy" and is_probabilities and labels.shape[1] != 1:
    raise errors.ModelFnError(
      f"model_fn_from_keras: the loss {name} takes integer labels, and the labels are "
      f"{labels.dtype.name} {labels.shape}, probabilities of classes, as augment.mix makes them: "
      "set the loss to keras.losses.CategoricalCrossentropy(from_logits=...)."
    )


def _inputs(model, features):
  """Returns the features in the form that the model takes."""
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
  """Returns a function that takes the model and makes a new optimizer.

  `optimizer` is a name, a function, an optimizer to copy, or None for the model's compiled
  optimizer.
  """
  if optimizer is None:
    return _compiled_optimizer
  if isinstance(optimizer, keras.optimizers.Optimizer):
    # get_config reads the value of the learning rate; that is impossible during the trace of a
    # model_fn.
    config = optimizer.get_config()
    own_name = keras_internals.to_snake_case(type(optimizer).__name__)
    if re.fullmatch(rf"{own_name}(_\d+)?", config["name"]):
      # Keras adds a number that depends on how many optimizers the process has made. Names in
      # checkpoints must not depend on that.
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


def _check_weights(model, outputs, config, mode):
  """Raises SettingError for weights of examples that the model cannot take."""
  if "mean_with_sample_weight" in keras_internals.loss_reductions(model):
    raise errors.SettingError(
      "model_fn_from_keras: a loss has reduction='mean_with_sample_weight', and so divides by the "
      "weights of one core's batch: take 'sum_over_batch_size', Keras's default. With it eight "
      "cores compute what one core does."
    )
  if config is not None and mode == ModeKeys.TRAIN and tf.is_tensor(outputs):
    classes = max(outputs.shape.as_list()[-1], 2)  # A single output says yes or no.
    weights.check_classes(config.class_weight, classes, "the model")


def _eval_metrics(metrics, labels, outputs, sample_weight, output_names):
  """Returns the eval_metrics of an EstimatorSpec; None if there are no metrics.

  `metrics` is a pair: the metrics without example weights, and the metrics with them.
  """
  if not any(metrics):
    return None
  if labels is None:
    raise errors.SettingError(
      f"model_fn_from_keras: the metrics {list(filter(None, metrics))!r} need labels, and the "
      "input_fn gives none."
    )
  # tf.nest would take None for a tensor.
  structure = (labels, outputs) if sample_weight is None else (labels, outputs, sample_weight)

  def metric_fn(*tensors):
    labels, outputs, sample_weight = (*tf.nest.pack_sequence_as(structure, tensors), None)[:3]
    copies = tf.nest.map_structure(
      lambda m: type(m).from_config(m.get_config()) if isinstance(m, keras.metrics.Metric) else m,
      metrics,
    )
    return keras_internals.updated_metrics(*copies, labels, outputs, sample_weight, output_names)

  return metric_fn, tf.nest.flatten(structure)
