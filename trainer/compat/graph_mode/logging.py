"""tf.logging. Its verbosity also sets the verbosity of Octet's own lines."""

import tensorflow as tf
from absl import logging as absl_logging

v1 = tf.compat.v1

# Names of this module itself, because samples read `tf.logging.__dict__[args.verbosity]`.
DEBUG, INFO, WARN = v1.logging.DEBUG, v1.logging.INFO, v1.logging.WARN
ERROR, FATAL = v1.logging.ERROR, v1.logging.FATAL


def set_verbosity(v: int | str) -> None:
  """Sets the lowest level to log: tf.logging.INFO, "INFO", WARN, ..."""
  v1.logging.set_verbosity(v)
  if isinstance(v, str):
    absl_logging.set_verbosity(v.lower())
  else:
    absl_logging.set_verbosity(absl_logging.converter.standard_to_absl(int(v)))
