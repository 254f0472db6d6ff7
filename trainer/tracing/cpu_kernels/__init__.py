"""Faster CPU versions of Keras's Adam, BatchNormalization and dropout: fewer passes over memory.

Keras computes these with many small operations, and each one reads and writes the whole tensor. On
a TPU XLA fuses the passes. On GPUs nothing was measured. `RunConfig.cpu_kernels` turns them on and
off. A SavedModel is always written with Keras's own operations.
"""

import contextlib
from collections.abc import Iterator

from trainer.tracing.cpu_kernels import adam, batch_norm, dropout


@contextlib.contextmanager
def use() -> Iterator[None]:
  """Traces Keras's Adam, BatchNormalization and dropout with this package's versions.

  Holds for functions that are traced while the context is open.
  """
  with adam.use(), batch_norm.use(), dropout.use():
    yield
