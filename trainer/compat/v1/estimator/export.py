"""tf.estimator.export: what a SavedModel takes (receivers), and what it gives (outputs)."""

from trainer.compat.estimator.export import (
  ClassificationOutput,
  EvalOutput,
  ExportOutput,
  PredictOutput,
  RegressionOutput,
  ServingInputReceiver,
  TensorServingInputReceiver,
  build_parsing_serving_input_receiver_fn,
  build_raw_serving_input_receiver_fn,
)
from trainer.compat.names import overlay

__all__ = [
  "ClassificationOutput",
  "EvalOutput",
  "ExportOutput",
  "PredictOutput",
  "RegressionOutput",
  "ServingInputReceiver",
  "TensorServingInputReceiver",
  "build_parsing_serving_input_receiver_fn",
  "build_raw_serving_input_receiver_fn",
]

__getattr__, __dir__ = overlay.behind(__name__)
