"""tf.estimator of TensorFlow 2.15: the estimators of `trainer.compat.v1.estimator`.

Canned estimators are those of `canned`; `inputs` and `tpu` are names of `tf.compat.v1.estimator`.
"""

from trainer.compat.estimator import canned
from trainer.compat.names import overlay
from trainer.compat.v1.estimator import HOMES

__getattr__, __dir__ = overlay.behind(
  __name__,
  submodules=("experimental",),
  homes=HOMES
  | dict.fromkeys(canned.__all__, "trainer.compat.v2.estimator.canned")
  | {"export": "trainer.compat.v1.estimator"},
)
