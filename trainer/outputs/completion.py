"""Completes an export before it is published.

It adds the description, warm-up requests and files for other runtimes, and has another process
check the export.

    completion = Completion(options, about, decoders, sample)
    completion.prepare()                             # while the graph is being built
    made = completion.signatures(predict, outputs, feature_spec)
    completion.finish("export/.writing-1732283000", ...)
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.io import storage
from trainer.outputs import checks as checks_lib
from trainer.outputs import description, signatures, verification, warm_up
from trainer.outputs import options as options_lib


@dataclasses.dataclass
class Completion:
  """Completes one export.

  Attributes:
    options: the export's options.
    about: facts for `description.describe`.
    decoders: feature → decoder of a string scalar. The options' decoders replace them.
    sample: function of a number that returns at most so many examples of the data: (features by
      name, labels or None). None if there is no data at hand.
  """

  options: options_lib.ExportOptions = dataclasses.field(default_factory=options_lib.ExportOptions)
  about: Mapping = dataclasses.field(default_factory=dict)
  decoders: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
  sample: Callable | None = None

  def __post_init__(self) -> None:
    if self.options.decoders is not None:
      self.decoders = dict(self.options.decoders)
    self._made: dict[str, Any] = {}  # name → signature

  def prepare(self) -> None:
    """Starts the process that checks, and does not wait for it. Call it first."""
    if self.options.verify:
      verification.prepare()

  def signatures(
    self, predict: Callable, outputs: Mapping[str, Any], feature_spec: Any
  ) -> dict[str, Callable]:
    """Builds the signatures beside the model's own, see `signatures.build`."""
    self._made = signatures.build(
      predict,
      outputs,
      feature_spec,
      self.decoders,
      self.options.class_names,
      self.options.from_examples,
    )
    return self._made

  def decoder_functions(self, feature_spec: Any) -> dict[str, Callable]:
    """Returns the decoders as tf.functions, for programs that decode by themselves."""
    specs = {spec.name: spec for spec in tf.nest.flatten(feature_spec)}
    return {
      name: signatures.build_decoder(name, decoder, specs)
      for name, decoder in self.decoders.items()
    }

  def finish(
    self,
    saved_model: str,
    call: Callable,
    own: list[str],
    received: Mapping[str, tf.TensorSpec] | None = None,
  ) -> None:
    """Describes and checks a SavedModel that is written but not published.

    Args:
      saved_model: its folder.
      call: the model: function of name → array that returns {signature: outputs}. The names are
        those of the features or, with a serving_input_receiver_fn, of the received tensors.
      own: names of the model's own signatures.
      received: name → spec of what a serving_input_receiver_fn receives; None without one.

    Raises:
      ExportError: the SavedModel's outputs differ from the model's.
    """
    if signatures.CLASSIFY in self._made:
      signatures.mark_methods(saved_model, {signatures.CLASSIFY: "classify"})
    found = description.signatures_of(saved_model)
    decodes = self.decoders if self._made else ()
    described = description.describe(found, self.about, self.options.class_names, decodes)
    arrays = self._arrays(received)
    checks = []
    if arrays is not None:
      checks = checks_lib.of_model(call, own, arrays)
      main = "serving_default" if "serving_default" in own else own[0]
      checks += checks_lib.of_encoded(
        call, self._made, main, arrays, self.decoders, self.options.class_names
      )
    self._warm_up(saved_model, checks)
    if self.options.verify:
      described["verified"] = verification.verify(saved_model, checks)
      self._say_unverified(set(found) - {check.signature for check in checks})
    if self.options.runtimes:
      from trainer.outputs import runtimes

      sample = self.sample if received is None else None
      default = next((check for check in checks if check.signature == "serving_default"), None)
      described["runtimes"] = runtimes.add(saved_model, self.options.runtimes, default, sample)
    description.write(saved_model, described)

  def _arrays(self, received):
    """Returns inputs for the model's own signatures, by name; None if there are none at hand."""
    if received is not None:
      return checks_lib.make_up_features(received)
    return None if self.sample is None else dict(self.sample(checks_lib.ROWS)[0])

  def _warm_up(self, saved_model, checks):
    logs = [
      warm_up.prediction_log(
        check.signature, {name: _resized(array, size) for name, array in check.inputs.items()}
      )
      for size in self.options.warm_up_batches
      for check in checks
    ]
    if logs:
      path = os.path.join(saved_model, "assets.extra", warm_up.NAME)
      storage.makedirs(os.path.dirname(path))
      warm_up.write(path, logs)

  def _say_unverified(self, names):
    if names:
      logging.warning(
        "Exported signatures that were loaded and not run, since there is nothing to run them "
        "with: %s.",
        ", ".join(sorted(names)),
      )


def _resized(array, size):
  """Repeats or cuts the rows of an array to a number of them."""
  array = (
    np.resize(array, (size, *array.shape[1:]))
    if array.dtype != object
    else np.array([array[row % len(array)] for row in range(size)], object)
  )
  return array


def check_options(options: object) -> options_lib.ExportOptions:
  """Returns the options, or the default options for None.

  Raises:
    SettingError: they are something else.
  """
  if options is None:
    return options_lib.ExportOptions()
  if not isinstance(options, options_lib.ExportOptions):
    raise errors.SettingError(
      f"export_options is {options!r}: expected a trainer.ExportOptions; in gin, "
      "run.export_options = @ExportOptions()."
    )
  return options
