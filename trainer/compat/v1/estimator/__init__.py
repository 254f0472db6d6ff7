"""tf.estimator: Estimator, what it takes and what it gives."""

from trainer.compat.names import overlay

_ROOM = "trainer.compat.estimator"
_HOMES = {
  "estimator": ("Estimator",),
  "specs": ("EstimatorSpec",),
  "canned": (
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
  ),
  "heads": (
    "BinaryClassHead",
    "Head",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
  ),
  "extenders": ("add_metrics",),
  "parsing": ("classifier_parse_example_spec", "regressor_parse_example_spec"),
  "run_config": ("RunConfig",),
  "training": ("EvalSpec", "TrainSpec", "train_and_evaluate"),
  "exporters": ("BestExporter", "Exporter", "FinalExporter", "LatestExporter"),
  "hooks": (
    "CheckpointSaverHook",
    "GlobalStepWaiterHook",
    "LoggingTensorHook",
    "NanTensorHook",
    "ProfilerHook",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
  ),
}

# By public name, the module that has it.
HOMES = {name: f"{_ROOM}.{module}" for module, names in _HOMES.items() for name in names} | {
  "ModeKeys": "trainer",
  "WarmStartSettings": "trainer",
  "CheckpointSaverListener": "tensorflow.compat.v1.train",
  "NanLossDuringTrainingError": "tensorflow.compat.v1.train",
  "SecondOrStepTimer": "tensorflow.compat.v1.train",
  "SessionRunArgs": "tensorflow.compat.v1.train",
  "SessionRunContext": "tensorflow.compat.v1.train",
  "SessionRunHook": "tensorflow.compat.v1.train",
  "SessionRunValues": "tensorflow.compat.v1.train",
  "VocabInfo": "tensorflow.compat.v1.train",
}

__getattr__, __dir__ = overlay.behind(
  __name__,
  submodules=("canned", "estimator", "experimental", "export", "inputs", "tpu"),
  homes=HOMES,
)
