"""Octet: a `model_fn` and an `input_fn` per model, on one core or on eight.

These are the public names of the framework. Each loads at its first use, so that `--help` and
errors in flags and gin files do not wait for the import of TensorFlow.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from trainer.internals import import_time

# TensorFlow's lines about the machine would bury the lines of a run. TensorFlow reads the variable
# at its import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import_time.shorten()

# Type checkers do not call __getattr__: they find the public names here.
if TYPE_CHECKING:
  from trainer.checkpoints.into_keras import load_into_keras as load_into_keras
  from trainer.checkpoints.retention import Retention as Retention
  from trainer.checkpoints.warm_start import WarmStartSettings as WarmStartSettings
  from trainer.devices.device import connect as connect
  from trainer.estimator.estimator import Estimator as Estimator
  from trainer.estimator.estimator import TPUEstimator as TPUEstimator
  from trainer.estimator.keras_model import model_fn_from_keras as model_fn_from_keras
  from trainer.evaluation.continuous import evaluate_continuously as evaluate_continuously
  from trainer.evaluation.eval_spec import EvalSpec as EvalSpec
  from trainer.evaluation.train_evaluate import TrainSpec as TrainSpec
  from trainer.evaluation.train_evaluate import train_and_evaluate as train_and_evaluate
  from trainer.hooks.early_stopping import EarlyStopping as EarlyStopping
  from trainer.hooks.histograms import Histograms as Histograms
  from trainer.hooks.periodic import Periodic as Periodic
  from trainer.hooks.profiler import Profiler as Profiler
  from trainer.inputs.decodable import decoders_of as decoders_of
  from trainer.inputs.decodable import mark_decodable as mark_decodable
  from trainer.inputs.decodable import mark_raw as mark_raw
  from trainer.inputs.weights import mark_labels as mark_labels
  from trainer.judgement.evaluation_report import EvaluationReport as EvaluationReport
  from trainer.optimization.averages import Lookahead as Lookahead
  from trainer.optimization.global_means import global_mean as global_mean
  from trainer.optimization.optimizers import CrossShardOptimizer as CrossShardOptimizer
  from trainer.optimization.optimizers import minimize as minimize
  from trainer.optimization.variable_groups import VariableGroup as VariableGroup
  from trainer.outputs.exporters import BestExporter as BestExporter
  from trainer.outputs.exporters import FinalExporter as FinalExporter
  from trainer.outputs.exporters import LatestExporter as LatestExporter
  from trainer.outputs.options import ExportOptions as ExportOptions
  from trainer.run_config import GPUConfig as GPUConfig
  from trainer.run_config import InputPipelineConfig as InputPipelineConfig
  from trainer.run_config import RunConfig as RunConfig
  from trainer.run_config import TPUConfig as TPUConfig
  from trainer.serving.predictor import Predictor as Predictor
  from trainer.settings.setting_types import check_settings as check_settings
  from trainer.spec import EstimatorSpec as EstimatorSpec
  from trainer.spec import ModeKeys as ModeKeys
  from trainer.spec import TPUEstimatorSpec as TPUEstimatorSpec
  from trainer.tracking.mlflow_hook import MLflowHook as MLflowHook
  from trainer.tracking.wandb_hook import WandbHook as WandbHook

__version__ = "0.2.0"

_HOMES = {
  "BestExporter": "trainer.outputs.exporters",
  "CrossShardOptimizer": "trainer.optimization.optimizers",
  "EarlyStopping": "trainer.hooks.early_stopping",
  "Estimator": "trainer.estimator.estimator",
  "EstimatorSpec": "trainer.spec",
  "EvalSpec": "trainer.evaluation.eval_spec",
  "EvaluationReport": "trainer.judgement.evaluation_report",
  "ExportOptions": "trainer.outputs.options",
  "FinalExporter": "trainer.outputs.exporters",
  "GPUConfig": "trainer.run_config",
  "Histograms": "trainer.hooks.histograms",
  "InputPipelineConfig": "trainer.run_config",
  "LatestExporter": "trainer.outputs.exporters",
  "Lookahead": "trainer.optimization.averages",
  "MLflowHook": "trainer.tracking.mlflow_hook",
  "ModeKeys": "trainer.spec",
  "Periodic": "trainer.hooks.periodic",
  "Predictor": "trainer.serving.predictor",
  "Profiler": "trainer.hooks.profiler",
  "Retention": "trainer.checkpoints.retention",
  "RunConfig": "trainer.run_config",
  "TPUConfig": "trainer.run_config",
  "TPUEstimator": "trainer.estimator.estimator",
  "TPUEstimatorSpec": "trainer.spec",
  "TrainSpec": "trainer.evaluation.train_evaluate",
  "VariableGroup": "trainer.optimization.variable_groups",
  "WandbHook": "trainer.tracking.wandb_hook",
  "WarmStartSettings": "trainer.checkpoints.warm_start",
  "check_settings": "trainer.settings.setting_types",
  "connect": "trainer.devices.device",
  "decoders_of": "trainer.inputs.decodable",
  "evaluate_continuously": "trainer.evaluation.continuous",
  "global_mean": "trainer.optimization.global_means",
  "load_into_keras": "trainer.checkpoints.into_keras",
  "mark_decodable": "trainer.inputs.decodable",
  "mark_labels": "trainer.inputs.weights",
  "mark_raw": "trainer.inputs.decodable",
  "minimize": "trainer.optimization.optimizers",
  "model_fn_from_keras": "trainer.estimator.keras_model",
  "train_and_evaluate": "trainer.evaluation.train_evaluate",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
  if name not in _HOMES:
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
  return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
  return sorted([*globals(), *_HOMES])
