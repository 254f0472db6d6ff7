"""tf.estimator.ModeKeys."""

from trainer import ModeKeys

_MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)


def check(mode: str) -> str:
  """The mode; raises ValueError unless it is one of them."""
  if mode not in _MODES:
    raise ValueError(f"Mode not recognized: {mode!r}; expected one of {', '.join(_MODES)}.")
  return mode
