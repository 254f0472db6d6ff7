"""tf.contrib.tpu: TPUEstimator, what it takes, and what of tf.tpu is asked in a model_fn."""

from trainer.compat.estimator.hooks import AsyncCheckpointSaverHook
from trainer.compat.names import overlay
from trainer.compat.v1 import tpu_function
from trainer.compat.v1.estimator.tpu import (
  InputPipelineConfig,
  RunConfig,
  TPUConfig,
  TPUEstimator,
  TPUEstimatorSpec,
)
from trainer.compat.v1.tpu import (
  CrossShardOptimizer,
  bfloat16_scope,
  cross_replica_sum,
  outside_compilation,
)

__all__ = [
  "AsyncCheckpointSaverHook",
  "CrossShardOptimizer",
  "InputPipelineConfig",
  "RunConfig",
  "TPUConfig",
  "TPUEstimator",
  "TPUEstimatorSpec",
  "bfloat16_scope",
  "cross_replica_sum",
  "outside_compilation",
  "tpu_function",
]

__getattr__, __dir__ = overlay.behind(__name__, ("tensorflow.compat.v1.tpu",))
