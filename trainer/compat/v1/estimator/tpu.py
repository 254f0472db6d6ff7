"""tf.estimator.tpu: TPUEstimator and what it takes."""

from trainer.compat.v1 import overlay
from trainer.compat.v1.estimator import run_config
from trainer.compat.v1.estimator.params import TPUContext
from trainer.compat.v1.estimator.run_config import InputPipelineConfig, TPUConfig
from trainer.compat.v1.estimator.specs import TPUEstimatorSpec
from trainer.compat.v1.estimator.tpu_estimator import TPUEstimator

__all__ = [
  "InputPipelineConfig",
  "RunConfig",
  "TPUConfig",
  "TPUContext",
  "TPUEstimator",
  "TPUEstimatorSpec",
]

RunConfig = run_config.TPURunConfig

__getattr__, __dir__ = overlay.behind(__name__)
