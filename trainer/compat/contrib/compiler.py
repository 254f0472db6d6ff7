"""tf.contrib.compiler.xla: the name that TensorFlow's xla module lacks."""

from collections.abc import Callable

from trainer.compat.graph_mode import notes


def estimator_model_fn(target_model_fn: Callable | None = None) -> Callable:
  """Returns the model_fn unchanged, or a decorator that does so: Octet compiles whole steps."""
  notes.tell_once(
    "contrib.compiler.xla.estimator_model_fn has no effect: OCTET_DEVICE=xla:1, or xla:gpu, has "
    "XLA compile whole steps."
  )
  return target_model_fn or (lambda model_fn: model_fn)
