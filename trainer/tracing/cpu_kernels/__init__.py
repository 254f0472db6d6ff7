"""Faster CPU versions of Keras's Adam, BatchNormalization, dropout and small convolutions.

Keras computes the first three with many small operations, and each one reads and writes the whole
tensor. On a TPU XLA fuses the passes. For convolutions, see `convolution`. Nobody has measured
GPUs. `RunConfig.cpu_kernels` turns them on and off. Octet writes a SavedModel always with Keras's
own operations.
"""

from trainer.tracing.cpu_kernels import adam, batch_norm, convolution, dropout
from trainer.tracing.cpu_kernels.switch import use

__all__ = ["adam", "batch_norm", "convolution", "dropout", "use"]
