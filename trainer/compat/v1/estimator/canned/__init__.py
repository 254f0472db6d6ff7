"""tensorflow_estimator.python.estimator.canned."""

from trainer.compat.estimator import canned
from trainer.compat.names import overlay

__getattr__, __dir__ = overlay.behind(
  __name__, submodules=("head", "optimizers"), homes=dict.fromkeys(canned.__all__, canned.__name__)
)
