"""The settings of GPUs, which need no TensorFlow."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class GPUConfig:
  """The settings for GPUs in RunConfig. They apply to the whole process.

  Attributes:
    memory_growth: whether a process allocates a GPU's memory as it needs it, and leaves the rest to
      others. False: all memory at once, TensorFlow's default, which never fragments.
    tensor_float_32: whether matrix products and convolutions in float32 use TF32, with 10 bits of
      mantissa instead of 23. GPUs of compute capability 8.0 (Ampere) and newer have TF32, several
      times as fast and TensorFlow's default. It does not affect bfloat16.
    deterministic: whether all operations compute the same bits each time. GPUs are faster without
      it, because some sums have no fixed order. With it, a resumed training reaches the bits of an
      undisturbed one. An operation without a fixed order raises an error. The setting stays on
      until the process ends.

  Raises:
    SettingError: a value is unknown.
  """

  memory_growth: bool = True
  tensor_float_32: bool = True
  deterministic: bool = False
