"""The input of a device loop that has been traced for it."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import tensorflow as tf

from trainer.inputs import feeder as feeder_lib
from trainer.inputs import stacks
from trainer.programs import device_loops, eval_loop, program_length
from trainer.settings import setting_types
from trainer.settings.kinds import Kind


@dataclasses.dataclass
class LoopInput:
  """A dataset, an iterator over it, and the device loop that was traced for both.

  `Estimator.trace` returns one, and `train`, `evaluate` and `predict` take it in place of the
  input_fn that it was made of. The iterator serves once: a later call makes its own.

  Attributes:
    kind: "train", "eval" or "predict".
    input_fn: what made it.
    start: the example that its data begins at.
    dataset: a tf.data.Dataset of what the device loop of the kind reads; where there are several
      hosts to drive, that of the first one.
    iterator: over that dataset; where several steps are one program a stacks.StackReader, and
      where several groups are one a stacks.GroupStackReader.
    elements: the number of the dataset's elements, or None if it is not known or has no end.
    is_endless: whether it has no end. The training loop is traced for that.
    traced: what was traced for the iterator: for training a train_loop.TracedLoop or a
      multi_step.TracedProgram, for evaluation an eval_loop.TracedEvaluation, for prediction a
      predict_loop.TracedPrediction; for both a multi_group.GroupProgram where several groups are
      one program.
  """

  kind: str
  input_fn: Callable
  start: int
  dataset: tf.data.Dataset
  iterator: Any
  elements: int | None
  is_endless: bool
  traced: Any

  def next_step(self, replicas: int) -> list[tuple]:
    """Returns the next step's batches, an element for each replica, of a training input."""
    if isinstance(self.iterator, stacks.StackReader):
      return self.iterator.next_step()
    return [next(self.iterator) for _ in range(replicas)]

  def metric_names(self) -> list[str] | None:
    """Returns the numbers that a traced evaluation gives.

    None where several groups are one program: their metrics are made after it.
    """
    if not isinstance(self.traced, eval_loop.TracedEvaluation):
      return None
    metrics = self.traced.function.structured_outputs["metrics"]
    return ["loss", *(name for name, value in metrics.items() if not value.shape.rank)]

  def take(self, kind: str, start: int) -> "LoopInput | None":
    """Hands itself over to a run of a kind that begins at an example.

    Returns None if it does not serve that run, or has been taken before.
    """
    if self.iterator is None or (self.kind, self.start) != (kind, start):
      return None
    taken = dataclasses.replace(self)
    self.dataset = self.iterator = None  # which hold threads and memory for as long as they live
    return taken


# An input_fn, or what `Estimator.trace` has made of one.
InputFn = Annotated[
  Callable | LoopInput, setting_types.Rule("a function", lambda given: not isinstance(given, type))
]


class LoopInputs:
  """Makes the inputs of device loops.

  Args:
    feeder: the Feeder.
    loops: the DeviceLoops.
    steps_per_program: function of the element_spec of a training's dataset that returns how many
      steps are one program.
    groups_per_program: function of the element_spec of a dataset of groups and of their number, or
      None, that returns how many groups may be one program.
    results_bytes: the most bytes that the results of a program of several groups take on one core.
    driven_hosts: the hosts whose training input this process drives. Where there are several, each
      makes the input of its own cores. Evaluation and prediction read on this one.
  """

  def __init__(
    self,
    feeder: feeder_lib.Feeder,
    loops: device_loops.DeviceLoops,
    steps_per_program: Callable[[Any], int] = lambda element_spec: 1,
    groups_per_program: Callable[[Any, int | None], int] = lambda element_spec, groups: 1,
    results_bytes: int = 0,
    driven_hosts: int = 1,
  ) -> None:
    self._feeder = feeder
    self._loops = loops
    self._steps_per_program = steps_per_program
    self._groups_per_program = groups_per_program
    self._results_bytes = results_bytes
    self._driven_hosts = driven_hosts

  def get(
    self, kind: str, source: Callable | LoopInput, name: str = "", start: int = 0
  ) -> LoopInput:
    """Calls an input_fn, checks what it gives and traces the device loop of the kind for it.

    Args:
      kind: "train", "eval" or "predict".
      source: the input_fn; or a LoopInput, which is used if it serves.
      name: of the evaluation.
      start: the example to begin at, in training.

    Raises:
      InputError: the input cannot be used.
      ModelFnError: the model_fn raised.
    """
    if isinstance(source, LoopInput) and (taken := source.take(kind, start)):
      return taken
    input_fn = input_fn_of(source)
    reader = None
    if kind == Kind.TRAIN and self._driven_hosts > 1:
      dataset, cardinality, reader = self._of_hosts(input_fn, start)
    else:
      dataset = self._feeder.for_loop(kind, input_fn, start)
      cardinality = int(dataset.cardinality().numpy())
    elements = cardinality if cardinality >= 0 else None
    is_endless = cardinality == tf.data.INFINITE_CARDINALITY
    if kind == Kind.TRAIN:
      iterator, traced = self._trace_training(dataset, is_endless, reader)
    else:
      iterator, traced = self._trace_groups(Kind(kind), dataset, name, elements)
    return LoopInput(kind, input_fn, start, dataset, iterator, elements, is_endless, traced)

  def _trace_training(self, dataset, is_endless, reader):
    """Returns what reads the dataset, a reader of stacks if there is one, and what is traced."""
    if reader is None:
      steps = self._steps_per_program(dataset.element_spec)
      if steps == 1 and not self._loops.xla:
        return iter(dataset), self._loops.train.trace(dataset.element_spec, is_endless)
      reader = self._loops.steps.reader(dataset, steps)
    return reader, self._loops.steps.trace(reader.element_spec)

  def _of_hosts(self, input_fn, start):
    """Returns the first host's dataset and its cardinality, and the reader of what all make."""
    found = []

    def dataset_of(context):
      dataset = self._feeder.for_loop(Kind.TRAIN, input_fn, start, context)
      # Asked on the host that has the dataset: no other one can.
      found.append((dataset, int(dataset.cardinality().numpy())))
      return dataset

    reader = self._loops.steps.hosts_reader(dataset_of, self._steps_per_program)
    return *found[0], reader

  def _trace_groups(self, kind, dataset, name, elements):
    """Returns what reads the dataset, and what is traced for it."""
    most, program = program_length.longest(
      lambda groups: self._loops.groups.trace(
        kind, program_length.element_of(dataset.element_spec), groups, self._results_bytes
      ),
      self._groups_per_program(dataset.element_spec, elements),
    )
    if program is not None:
      return self._loops.groups.reader(dataset, most), program
    if kind == Kind.EVAL:
      return iter(dataset), self._loops.evaluate.trace(dataset.element_spec, name)
    return iter(dataset), self._loops.predict.trace(dataset.element_spec)


def input_fn_of(source: Callable | LoopInput) -> Callable:
  """The input_fn of an argument that may be a LoopInput."""
  return source.input_fn if isinstance(source, LoopInput) else source
