"""tensorflow_estimator.python.estimator.estimator."""

from trainer.compat.estimator.estimator import Estimator, _load_global_step_from_checkpoint_dir
from trainer.compat.names import overlay

__all__ = ["Estimator", "_load_global_step_from_checkpoint_dir"]

__getattr__, __dir__ = overlay.behind(__name__, ("trainer.compat.v1.estimator",))
