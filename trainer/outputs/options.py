"""What an export has beside the model itself.

Example:
    run.export_options = @ExportOptions()
    ExportOptions.warm_up_batches = (1, 32)
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from trainer import errors
from trainer.config import gin_names
from trainer.inputs import decodable


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class ExportOptions:
  """What `Estimator.export_saved_model` writes, and how it is checked.

  Attributes:
    class_names: the classes' names in the order of their numbers; run.class_names where None.
    decoders: dict of feature → function that makes it of bytes, see `trainer.mark_decodable`;
      None for what the input pipeline says. {} for no signature that takes bytes.
    from_examples: whether there is a signature that takes serialised tf.train.Examples.
    warm_up_batches: numbers of examples of the requests that TensorFlow Serving runs before it
      takes any; () for none.
    runtimes: some of "onnx", "openvino", "tflite" and "tflite_int8", for which the export has files
      too, see `outputs.runtimes`.
    verify: whether another process loads each export and compares, before it is published.

  Raises:
    SettingError: a value that cannot work.
  """

  class_names: Sequence[str] | None = None
  decoders: Mapping[str, Callable] | None = None
  from_examples: bool = True
  warm_up_batches: Sequence[int] = (1,)
  runtimes: Sequence[str] = ()
  verify: bool = True

  def __post_init__(self):
    if self.decoders is not None:
      decodable.check_decoders(self.decoders, "ExportOptions")
    if not all(type(size) is int and size > 0 for size in self.warm_up_batches):
      raise errors.SettingError(
        f"ExportOptions.warm_up_batches is {self.warm_up_batches!r}: expected numbers of "
        "examples, such as (1, 32), or () for no requests."
      )
    if self.runtimes:
      from trainer.outputs import runtimes  # which brings TensorFlow Lite and others along

      runtimes.check_names(self.runtimes)
    names = self.class_names
    if names is not None and not (
      isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names)
    ):
      raise errors.SettingError(
        f"ExportOptions.class_names is {names!r}: expected a list of strings, the classes' names "
        "in the order of their numbers."
      )
