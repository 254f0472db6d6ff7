"""Octet: a `model_fn` and an `input_fn` per model, on one core or on eight.

The public contract of the framework. Names load when they are first used, so that `--help` and a
misspelt gin file need not wait for TensorFlow.
"""

import importlib

__version__ = "0.1.0"

_HOMES = {
  "BestExporter": "trainer.outputs.exporters",
  "CrossShardOptimizer": "trainer.optimizers",
  "EarlyStopping": "trainer.hooks.early_stopping",
  "Estimator": "trainer.estimator",
  "EstimatorSpec": "trainer.spec",
  "EvalSpec": "trainer.train_evaluate",
  "ExportOptions": "trainer.outputs.options",
  "FinalExporter": "trainer.outputs.exporters",
  "Histograms": "trainer.hooks.histograms",
  "InputPipelineConfig": "trainer.run_config",
  "LatestExporter": "trainer.outputs.exporters",
  "ModeKeys": "trainer.spec",
  "Periodic": "trainer.hooks.periodic",
  "Predictor": "trainer.serving.predictor",
  "Profiler": "trainer.hooks.profiler",
  "Retention": "trainer.checkpoints.retention",
  "RunConfig": "trainer.run_config",
  "TPUConfig": "trainer.run_config",
  "TPUEstimator": "trainer.estimator",
  "TPUEstimatorSpec": "trainer.spec",
  "TrainSpec": "trainer.train_evaluate",
  "WarmStartSettings": "trainer.checkpoints.warm_start",
  "decoders_of": "trainer.inputs.decodable",
  "evaluate_continuously": "trainer.train_evaluate",
  "load_into_keras": "trainer.checkpoints.into_keras",
  "mark_decodable": "trainer.inputs.decodable",
  "minimize": "trainer.optimizers",
  "model_fn_from_keras": "trainer.keras_model",
  "train_and_evaluate": "trainer.train_evaluate",
}

__all__ = sorted(_HOMES)


def __getattr__(name):
  if name not in _HOMES:
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
  return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__():
  return sorted([*globals(), *_HOMES])
