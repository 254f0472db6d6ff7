"""tf.contrib.learn: the names that became those of tf.estimator."""

from trainer.compat.estimator.run_config import RunConfig
from trainer.compat.names import overlay

__all__ = ["ModeKeys", "RunConfig"]


class ModeKeys:
  """The modes, under the names of tf.estimator and of before."""

  TRAIN = "train"
  EVAL = "eval"
  INFER = PREDICT = "infer"


__getattr__, __dir__ = overlay.behind(__name__)
