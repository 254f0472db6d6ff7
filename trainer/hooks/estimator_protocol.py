"""The Estimator that hooks get, for annotations: its room is above this one.

from trainer.hooks.estimator_protocol import Estimator
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from trainer import Estimator as Estimator
else:
  Estimator = Any
