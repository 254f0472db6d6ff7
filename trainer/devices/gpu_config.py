"""The settings of GPUs. They can be made, and are checked, before TensorFlow is imported."""

import dataclasses
from typing import Annotated

from trainer.settings import setting_types


@dataclasses.dataclass(frozen=True)
class GPUConfig:
  """The settings of RunConfig that are of GPUs alone. All but all_reduce are of the whole process.

  Attributes:
    memory_growth: whether a process takes a GPU's memory as it needs it, so that others can have
      the rest. False: all of it at once, which is TensorFlow's way and never fragments.
    tensor_float_32: whether matrix products and convolutions in float32 are computed in TF32, which
      has 10 bits of mantissa in place of 23. GPUs of compute capability 8.0 (Ampere) and newer have
      it, and there it is TensorFlow's default and several times as fast. It changes nothing in
      bfloat16.
    deterministic: whether all operations compute the same bits each time. GPUs are faster without:
      some of their sums are in no fixed order. With it a training that is resumed comes to the bits
      of one that was not. An operation that has no such way raises an error, and once on it stays
      on until the process ends.
    all_reduce: what sums the gradients of several GPUs: "nccl", NVIDIA's library; or
      "without_nccl", where that fails: one GPU sums for those of its machine, and TensorFlow's ring
      over the network for those of several.

  Raises:
    SettingError: a value is none of those.
  """

  memory_growth: bool = True
  tensor_float_32: bool = True
  deterministic: bool = False
  all_reduce: Annotated[str, setting_types.one_of("nccl", "without_nccl")] = "nccl"
