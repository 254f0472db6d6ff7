"""tf.train: TensorFlow's own, but for what works with sessions."""

from trainer.compat.estimator.hooks import (
  CheckpointSaverHook,
  GlobalStepWaiterHook,
  LoggingTensorHook,
  NanTensorHook,
  ProfilerHook,
  StepCounterHook,
  StopAtStepHook,
  SummarySaverHook,
)
from trainer.compat.names import overlay

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
