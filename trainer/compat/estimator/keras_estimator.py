"""tf.keras.estimator: an Estimator of a compiled Keras model."""

import os
import tempfile
import types
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
  """An Estimator of a compiled model, which begins with the model's weights.

  Args:
    keras_model: a functional or Sequential model.
    keras_model_path: refused. A file of a model can hold code: the program loads it itself.
    custom_objects: by name, classes that the model is made of.
    model_dir: where everything is written; default: config.model_dir, or a temporary folder.
    config: a RunConfig.
    checkpoint_format: no effect: checkpoints have variables by name.
    metric_names_map: by name of a metric, the name that it gets.
    export_outputs: by name of an output, the kind of its signature.

  Raises:
    SettingError: keras_model_path is given.
    ValueError: there is no model, or it is not compiled.
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
      raise ValueError("The given keras model has not been compiled yet: call model.compile().")
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
  """The model_fn of a compiled model; each call makes a copy of the model."""
  is_sequential = isinstance(model, keras.Sequential)
  names = [model.layers[-1].name] if is_sequential else list(model.output_names)
  if unknown := sorted(set(export_outputs) - set(names)):
    raise ValueError(f"export_outputs has {unknown}; expected some of the outputs {names}.")

  # Without what the model was compiled with: clone_model would read the optimizer's variables.
  plain = type(model).from_config(model.get_config())

  def copy() -> keras.Model:
    with keras.saving.custom_object_scope(dict(custom_objects)):
      return keras.models.clone_model(plain)

  def optimizer() -> legacy_optimizers.Optimizer:
    made = legacy_optimizers.like(model.optimizer)
    made.iterations = tf.compat.v1.train.get_global_step()
    return made

  legacy_optimizers.like(model.optimizer)  # raises before anything is trained
  metrics, weighted_metrics = keras_internals.compiled_metrics(model)
  of_keras = trainer.model_fn_from_keras(copy, model.loss, optimizer, metrics, weighted_metrics)

  def model_fn(features: Any, labels: Any, mode: str) -> trainer.EstimatorSpec:
    with fetched_operations.changes_made() as updates:
      made = of_keras(features, labels, mode, {})
    if mode == trainer.ModeKeys.TRAIN:  # only what the train_op reaches runs
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


estimator = types.SimpleNamespace(model_to_estimator=model_to_estimator)
