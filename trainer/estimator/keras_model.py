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
from trainer.estimator import keras_copies
from trainer.inputs import weights
from trainer.internals import keras_internals
from trainer.optimization import optimizers
from trainer.tracing import variable_store

ModeKeys = spec.ModeKeys

# The methods of a Keras model in whose place Octet has its own.
_STEPS = ("train_step", "test_step", "predict_step", "compute_metrics")


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
      `compute_loss`, and refuses a model with its own `train_step`. The weights that it loads are
      initial values. A checkpoint contains the variables that `compile` makes ("loss/total", and
      the variables of metric objects); Octet does not use them.
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
    `trainer.inputs.weights`. A loss with a mask, or with reduction="mean_with_sample_weight", is a
    `trainer.global_mean`.

  Raises:
    SettingError: the model_fn raises it: build_model does not make a Keras model, or makes one with
      steps of its own; there is no loss or optimizer here or in the model; a copy of a metric or an
      optimizer is unlike it; RunConfig.class_weight has a class that the model lacks; or a loss on
      several cores is a sum.
  """
  make_optimizer = _maker(optimizer)

  def model_fn(features, labels, mode, params, config=None, sample_weight=None):
    del params
    training = mode == ModeKeys.TRAIN
    model = into_keras.build(build_model)
    _check_steps(model)
    inputs = _inputs(model, features)
    outputs = tf.nest.map_structure(_in_float32, model(inputs, training=training))
    if mode == ModeKeys.PREDICT:
      return spec.EstimatorSpec(mode, predictions=_named_outputs(outputs))
    names = getattr(model, "output_names", None)
    # Not model.compile: its metrics' variables would become variables of the model.
    if loss is not None:
      keras_internals.set_loss(model, loss, names)
    _check_loss(model, loss, labels, spec.name_of(build_model))
    if sample_weight is not None and config is not None and mode == ModeKeys.TRAIN:
      _check_classes(outputs, config)
    total = keras_internals.compute_loss(model, inputs, labels, outputs, sample_weight, training)
    if mode == ModeKeys.EVAL:
      compiled, compiled_weighted = keras_internals.compiled_metrics(model)
      wanted = metrics or compiled, weighted_metrics or compiled_weighted
      return spec.EstimatorSpec(
        mode, loss=total, eval_metrics=_eval_metrics(wanted, labels, outputs, sample_weight, names)
      )
    train_op = optimizers.minimize(make_optimizer(model), total, var_list=_trained(model))
    return spec.EstimatorSpec(mode, loss=total, train_op=train_op)

  return model_fn


def _check_steps(model):
  """Raises SettingError if a model has steps of its own, which Octet would not call."""
  own = [name for name in _STEPS if getattr(type(model), name) is not getattr(keras.Model, name)]
  if own:
    kind = type(model).__name__
    raise errors.SettingError(
      f"model_fn_from_keras: the model {kind} has its own {' and '.join(own)}, and Octet would not "
      "call it. Override compute_loss instead, or write a model_fn (docs/for_keras_users.md). If "
      f"Keras's serves as well: class Mine({kind}): {own[0]} = keras.Model.{own[0]}."
    )


def _in_float32(output):
  """Casts an output: with bfloat16 layers, Octet still computes losses and metrics in float32."""
  if not output.dtype.is_floating or output.dtype == tf.float32:
    return output
  cast = tf.cast(output, tf.float32)
  keras_internals.set_mask(cast, keras_internals.mask_of(output))
  return cast


def _check_loss(model, loss, labels, name):
  """Raises an error for a loss that is missing, or that does not fit the labels or the cores."""
  of_labels = getattr(model, "loss", None) if loss is None else loss
  if type(model).compute_loss is keras.Model.compute_loss:
    if of_labels is None and not model.losses:
      raise errors.SettingError(
        f"model_fn_from_keras: {name} returns a model without a loss: compile it with one, or give "
        "loss=."
      )
    if of_labels is not None and labels is None:
      raise errors.SettingError(
        f"model_fn_from_keras: the loss {of_labels!r} needs labels, and the input_fn gives none: "
        "return a dataset of (features, labels)."
      )
  replicas = tf.distribute.get_strategy().num_replicas_in_sync
  if replicas > 1 and "sum" in keras_internals.loss_reductions(model):
    raise errors.SettingError(
      f"model_fn_from_keras: a loss has reduction='sum', and Octet takes the mean over {replicas} "
      "cores: take 'sum_over_batch_size', Keras's default, and a learning rate times the batch."
    )
  _check_labels(of_labels, labels)


def _trained(model):
  """Returns the variables to train: as in Keras, none of a network that only the loss uses."""
  of_model = {id(variable.value) for variable in model.trainable_variables}
  store = variable_store.current()
  return store and [
    variable
    for variable in store.trainable_variables()
    if isinstance(variable, tf.Variable) or id(variable.value) in of_model
  ]


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
    config = keras_copies.config(optimizer)
    own_name = keras_internals.to_snake_case(type(optimizer).__name__)
    if re.fullmatch(rf"{own_name}(_\d+)?", config["name"]):
      # Keras adds a number that depends on how many optimizers the process has made. Names in
      # checkpoints must not depend on that.
      config["name"] = own_name
    return lambda model: keras_copies.optimizer(optimizer, config)
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


def _check_classes(outputs, config):
  """Raises SettingError for the weight of a class that the model lacks."""
  if tf.is_tensor(outputs):
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
  # Keras keeps a mask as an attribute of the tensor, which the way to the host loses.
  masks = [keras_internals.mask_of(output) for output in tf.nest.flatten(outputs)]
  masks = {index: mask for index, mask in enumerate(masks) if mask is not None}
  # tf.nest would take None for a tensor.
  structure = (labels, outputs, masks) + (() if sample_weight is None else (sample_weight,))

  def metric_fn(*tensors):
    labels, outputs, masks, sample_weight = (*tf.nest.pack_sequence_as(structure, tensors), None)[
      :4
    ]
    for index, mask in masks.items():
      keras_internals.set_mask(tf.nest.flatten(outputs)[index], mask)
    copies = tf.nest.map_structure(
      lambda m: keras_copies.metric(m) if isinstance(m, keras.metrics.Metric) else m, metrics
    )
    return keras_internals.updated_metrics(*copies, labels, outputs, sample_weight, output_names)

  return metric_fn, tf.nest.flatten(structure)
