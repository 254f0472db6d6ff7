"""tf.keras.estimator: makes an Estimator from a compiled Keras model."""

import os
import tempfile
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

import trainer
from trainer import errors
from trainer.compat import optimizers as legacy_optimizers
from trainer.compat.estimator.estimator import Estimator
from trainer.compat.estimator.export import PredictOutput
from trainer.compat.estimator.specs import EstimatorSpec
from trainer.compat.graph_mode import notes
from trainer.internals import keras_internals
from trainer.tracing import fetched_operations


def model_to_estimator(
  keras_model: keras.Model | None = None,
  keras_model_path: str | None = None,
  custom_objects: Mapping[str, Any] | None = None,
  model_dir: str | None = None,
  config: Any = None,
  checkpoint_format: str | None = None,
  metric_names_map: Mapping[str, str] | None = None,
  export_outputs: Mapping[str, Any] | None = None,
) -> Estimator:
  """Returns an Estimator that starts from a compiled model's weights.

  Args:
    keras_model: a functional or Sequential model.
    keras_model_path: an error. A model's file can hold code, so the program must load it itself.
    custom_objects: name → class, for the model's own classes.
    model_dir: the output folder; default: config.model_dir, or a temporary folder.
    config: a RunConfig.
    checkpoint_format: no effect: checkpoints have variables by name.
    metric_names_map: name of a metric → its new name.
    export_outputs: name of an output → the kind of its signature.

  Raises:
    SettingError: keras_model_path is given.
    ValueError: keras_model is missing or not compiled.
  """
  if keras_model_path is not None:
    raise errors.SettingError(
      f"model_to_estimator: keras_model_path={keras_model_path!r}: Octet reads no files of models, "
      "since these can hold code. If you trust it: "
      "keras_model=tf.keras.models.load_model(keras_model_path)."
    )
  if checkpoint_format == "checkpoint":
    notes.tell_once("model_to_estimator: checkpoints have variables by name, not by object.")
  with keras.saving.custom_object_scope(dict(custom_objects or {})):
    model = keras_model
    if model is None:
      raise ValueError("model_to_estimator needs keras_model, a compiled model of Keras.")
    if not model.optimizer:
      raise ValueError("The keras_model has no optimizer and loss yet: call model.compile().")
    model_fn = _model_fn(model, custom_objects or {}, metric_names_map or {}, export_outputs or {})
  weights = tempfile.TemporaryDirectory()
  path = os.path.join(weights.name, "model.weights.h5")
  model.save_weights(path)
  made = Estimator(model_fn, model_dir, config, None, path)
  weakref.finalize(made, weights.cleanup)
  return made


def _model_fn(
  model: keras.Model,
  custom_objects: Mapping[str, Any],
  metric_names: Mapping[str, str],
  export_outputs: Mapping[str, Any],
) -> Callable[..., trainer.EstimatorSpec]:
  """Returns the model_fn of a compiled model. Each call copies the model."""
  is_sequential = isinstance(model, keras.Sequential)
  names = [model.layers[-1].name] if is_sequential else list(model.output_names)
  if unknown := sorted(set(export_outputs) - set(names)):
    raise ValueError(f"export_outputs has {unknown}; expected some of the outputs {names}.")

  # Without the compiled parts: clone_model would read the optimizer's variables.
  plain = type(model).from_config(model.get_config())

  def copy() -> keras.Model:
    with keras.saving.custom_object_scope(dict(custom_objects)):
      return keras.models.clone_model(plain)

  def optimizer() -> legacy_optimizers.Optimizer:
    made = legacy_optimizers.like(model.optimizer)
    made.iterations = tf.compat.v1.train.get_global_step()
    return made

  legacy_optimizers.like(model.optimizer)  # raise before the training starts
  metrics, weighted_metrics = keras_internals.compiled_metrics(model)
  of_keras = trainer.model_fn_from_keras(copy, model.loss, optimizer, metrics, weighted_metrics)

  def model_fn(features: Any, labels: Any, mode: str) -> trainer.EstimatorSpec:
    with fetched_operations.changes_made() as updates:
      made = of_keras(features, labels, mode, {})
    if mode == trainer.ModeKeys.TRAIN:  # a step only runs operations that the train_op reaches
      made.train_op = tf.group(made.train_op, fetched_operations.group(updates))
    if made.eval_metrics is not None and metric_names:
      made.eval_metrics = _renamed(made.eval_metrics, metric_names)
    if mode == trainer.ModeKeys.PREDICT:
      outputs = dict(zip(names, made.predictions.values(), strict=True))
      own = {name: kind(outputs[name]) for name, kind in export_outputs.items()}
      return EstimatorSpec(
        mode, predictions=outputs, export_outputs={"serving_default": PredictOutput(outputs)} | own
      )
    return made

  return model_fn


def _renamed(eval_metrics: tuple[Callable, Any], names: Mapping[str, str]) -> tuple[Callable, Any]:
  metric_fn, tensors = eval_metrics

  def renamed(*given: Any) -> dict[str, Any]:
    return {names.get(name, name): metric for name, metric in metric_fn(*given).items()}

  return renamed, tensors
