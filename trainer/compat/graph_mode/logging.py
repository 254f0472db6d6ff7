"""tf.logging, whose verbosity is that of Octet's own lines too."""

import tensorflow as tf
from absl import logging as absl_logging

v1 = tf.compat.v1

# In the module itself: samples ask for `tf.logging.__dict__[args.verbosity]`.
DEBUG, INFO, WARN = v1.logging.DEBUG, v1.logging.INFO, v1.logging.WARN
ERROR, FATAL = v1.logging.ERROR, v1.logging.FATAL


def set_verbosity(v: int | str) -> None:
  """Sets which lines are shown: tf.logging.INFO, "INFO", WARN, ..."""
  v1.logging.set_verbosity(v)
  if isinstance(v, str):
    absl_logging.set_verbosity(v.lower())
  else:
    absl_logging.set_verbosity(absl_logging.converter.standard_to_absl(int(v)))
