"""tf.estimator.tpu: TPUEstimator and what it takes."""

from trainer.compat.estimator import run_config
from trainer.compat.estimator.params import TPUContext
from trainer.compat.estimator.run_config import InputPipelineConfig, TPUConfig
from trainer.compat.estimator.specs import TPUEstimatorSpec
from trainer.compat.estimator.tpu_estimator import TPUEstimator
from trainer.compat.names import overlay

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
