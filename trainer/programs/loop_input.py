"""The input of a device loop, with the loop's trace."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import tensorflow as tf

from trainer.inputs import feeder as feeder_lib
from trainer.programs import device_loops
from trainer.settings import setting_types
from trainer.settings.kinds import Kind


@dataclasses.dataclass
class LoopInput:
  """A dataset, an iterator over it, and the device loop traced for both.

  `Estimator.trace` returns one, and `train`, `evaluate` and `predict` take it instead of its
  input_fn. The iterator serves one run: a later call makes its own.

  Attributes:
    kind: the kind of the loop.
    input_fn: the input_fn that made it.
    start: the first example of its data.
    dataset: a tf.data.Dataset of elements for the device loop of the kind.
    iterator: over the dataset, what the trace's `read` returns.
    elements: the number of the dataset's elements, or None if it is unknown or infinite.
    is_endless: whether the dataset has no end. The training loop's trace depends on it.
    traced: the trace for the iterator, see `device_loops`.
  """

  kind: Kind
  input_fn: Callable
  start: int
  dataset: tf.data.Dataset
  iterator: Any
  elements: int | None
  is_endless: bool
  traced: Any

  def hand_over(self, kind: Kind, start: int) -> "LoopInput | None":
    """Hands its dataset and iterator over to a run of a kind, and keeps neither.

    Args:
      kind: the kind of the run.
      start: the first example of the run.

    Returns:
      A LoopInput with both. None if the run has another kind or start, or after an earlier call.
    """
    if self.iterator is None or (self.kind, self.start) != (kind, start):
      return None
    taken = dataclasses.replace(self)
    self.dataset = self.iterator = None  # both hold threads and memory
    return taken


# An input_fn, or the LoopInput that `Estimator.trace` returned for it.
InputFn = Annotated[
  Callable | LoopInput, setting_types.Rule("a function", lambda given: not isinstance(given, type))
]


@dataclasses.dataclass(frozen=True)
class LoopInputs:
  """Makes the inputs of device loops."""

  feeder: feeder_lib.Feeder
  loops: device_loops.DeviceLoops

  def call_and_trace(
    self, kind: Kind, source: Callable | LoopInput, name: str = "", start: int = 0
  ) -> LoopInput:
    """Calls an input_fn, checks its dataset and traces the device loop of the kind for it.

    Args:
      kind: the kind.
      source: the input_fn; or a LoopInput, used if it fits.
      name: the evaluation's name.
      start: the first example, in training.

    Raises:
      InputError: the input is unusable.
      ModelFnError: the model_fn raised.
    """
    if isinstance(source, LoopInput) and (taken := source.hand_over(kind, start)):
      return taken
    input_fn = input_fn_of(source)
    dataset = self.feeder.for_loop(kind, input_fn, start)
    cardinality = int(dataset.cardinality().numpy())
    elements = cardinality if cardinality >= 0 else None
    is_endless = cardinality == tf.data.INFINITE_CARDINALITY
    traced: Any
    if kind == Kind.TRAIN:
      traced = self.loops.trace_training(dataset.element_spec, is_endless)
    else:
      traced = self.loops.trace_groups(kind, dataset.element_spec, elements, name)
    iterator = traced.read(dataset)
    return LoopInput(kind, input_fn, start, dataset, iterator, elements, is_endless, traced)


def input_fn_of(source: Callable | LoopInput) -> Callable:
  """Returns the input_fn of an argument that may be a LoopInput."""
  return source.input_fn if isinstance(source, LoopInput) else source
