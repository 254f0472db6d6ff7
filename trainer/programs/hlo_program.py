"""A step or many, lowered to what the TPU compiler takes."""

import dataclasses

# How a program was lowered.
TPU, CPU = "tpu", "cpu"


@dataclasses.dataclass(frozen=True)
class HloProgram:
  """A program of one replica.

  Attributes:
    hlo: a serialized HloModuleProto.
    lowering: TPU if tensorflow-tpu lowered it as a TPU does, CPU if another TensorFlow did.
    aliases: pairs (result, parameter) of numbers: the result takes the parameter's memory.
  """

  hlo: bytes
  lowering: str = CPU
  aliases: tuple[tuple[int, int], ...] = ()
