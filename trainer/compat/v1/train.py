"""tf.train: TensorFlow's own, but for what works with sessions."""

from trainer.compat.v1 import overlay
from trainer.compat.v1.estimator.hooks import (
  CheckpointSaverHook,
  GlobalStepWaiterHook,
  LoggingTensorHook,
  NanTensorHook,
  ProfilerHook,
  StepCounterHook,
  StopAtStepHook,
  SummarySaverHook,
)

__all__ = [
  "CheckpointSaverHook",
  "GlobalStepWaiterHook",
  "LoggingTensorHook",
  "NanTensorHook",
  "ProfilerHook",
  "StepCounterHook",
  "StopAtStepHook",
  "SummarySaverHook",
]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.train", "tensorflow.train"))
