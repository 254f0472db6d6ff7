"""Settings of an export: what it contains beside the model, and how it is checked.

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
    class_names: the names of the classes in the order of their numbers; None for run.class_names.
    decoders: feature → function that decodes it from bytes, see `trainer.mark_decodable`. None for
      the decoders of the input_fn; {} for no signature that takes bytes.
    from_examples: whether to add a signature that takes serialised tf.train.Examples.
    warm_up_batches: batch sizes of the requests that TensorFlow Serving runs before it serves; ()
      for none.
    runtimes: further runtimes that get files in the export: some of "onnx", "openvino", "tflite"
      and "tflite_int8", see `outputs.runtimes`.
    verify: whether another process runs each export and compares the outputs before it is
      published.

  Raises:
    SettingError: a value is invalid.
  """

  class_names: Sequence[str] | None = None
  decoders: Mapping[str, Callable] | None = None
  from_examples: bool = True
  warm_up_batches: Sequence[int] = (1,)
  runtimes: Sequence[str] = ()
  verify: bool = True

  def __post_init__(self) -> None:
    if self.decoders is not None:
      decodable.check_decoders(self.decoders, "ExportOptions")
    sizes = self.warm_up_batches
    if not isinstance(sizes, list | tuple) or not all(
      type(size) is int and size > 0 for size in sizes
    ):
      raise errors.SettingError(
        f"ExportOptions.warm_up_batches is {sizes!r}: expected numbers of "
        "examples, such as (1, 32), or () for no requests."
      )
    if self.runtimes:
      from trainer.outputs import runtimes  # imports TensorFlow Lite and others: only if needed

      runtimes.check_names(self.runtimes)
    names = self.class_names
    if names is not None and not (
      isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names)
    ):
      raise errors.SettingError(
        f"ExportOptions.class_names is {names!r}: expected a list of strings, the classes' names "
        "in the order of their numbers."
      )
