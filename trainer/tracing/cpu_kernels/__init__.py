"""What Keras computes in many passes over memory, in few, on a CPU: where a large tensor is what a
step waits for.

On a TPU XLA joins the passes; on GPUs nothing was measured. A SavedModel is written without these.
"""

import contextlib

from trainer.tracing.cpu_kernels import adam, batch_norm, dropout


@contextlib.contextmanager
def use():
  """Inside, the Adam, the BatchNormalization and the dropout of Keras that a function is traced
  with are those of this package.
  """
  with adam.use(), batch_norm.use(), dropout.use():
    yield
