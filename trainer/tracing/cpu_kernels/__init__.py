"""Faster CPU versions of Adam, BatchNormalization, dropout, GELU and small convolutions.

Keras computes the first four with many small operations, and each one reads and writes the whole
tensor. On a TPU XLA fuses the passes. For convolutions, see `convolution`. Nobody has measured
GPUs. `RunConfig.cpu_kernels` turns the faster versions on and off. Octet writes a SavedModel always
with the operations of Keras and TensorFlow.
"""

from trainer.tracing.cpu_kernels import adam, batch_norm, convolution, dropout, gelu
from trainer.tracing.cpu_kernels.switch import use

__all__ = ["adam", "batch_norm", "convolution", "dropout", "gelu", "use"]
