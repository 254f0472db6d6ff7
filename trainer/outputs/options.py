"""Settings of an export: its parts beside the model, and its checks.

Example:
    run.export_options = @ExportOptions()
    ExportOptions.warm_up_batches = (1, 32)
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from trainer import errors
from trainer.config import gin_names
from trainer.settings import setting_types

ClassNames = Annotated[
  Sequence[str],
  setting_types.Rule("a list of strings, the classes' names in the order of their numbers", bool),
]


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class ExportOptions:
  """The parts of the export of `Estimator.export_saved_model`, and its checks.

  Attributes:
    class_names: the names of the classes in the order of their numbers; None for run.class_names.
    decoders: feature → function that decodes it from bytes, see `trainer.mark_decodable`. None for
      the input_fn's own marks of files, columns or texts; {} for signatures of the features alone.
    from_examples: whether to add a signature that takes serialised tf.train.Examples.
    warm_up_batches: batch sizes of the requests that TensorFlow Serving runs before it serves; ()
      for none.
    runtimes: further runtimes that get files in the export: some of "onnx", "openvino", "tflite"
      and "tflite_int8", see `outputs.runtimes`.
    verify: whether another process runs each export and compares the outputs before the
      publication.
    card: heading → text, the author's part of the model card: "Intended use", "Limits", "Origin of
      the data", "License", and any others.

  Raises:
    SettingError: a value is invalid.
  """

  class_names: ClassNames | None = None
  decoders: Mapping[str, Callable] | None = None
  from_examples: bool = True
  warm_up_batches: Sequence[setting_types.Count] = (1,)
  runtimes: Sequence[str] = ()
  verify: bool = True
  card: Mapping[str, str] | None = None

  def __post_init__(self) -> None:
    if self.runtimes:
      # This imports TensorFlow Lite and others: only if needed.
      from trainer.outputs import runtimes

      runtimes.check_names(self.runtimes)


def check(options: object) -> ExportOptions:
  """Returns the options, or the default options for None.

  Raises:
    SettingError: they are something else.
  """
  if options is None:
    return ExportOptions()
  if not isinstance(options, ExportOptions):
    raise errors.SettingError(
      f"export_options is {options!r}: expected a trainer.ExportOptions; in gin, "
      "run.export_options = @ExportOptions()."
    )
  return options
