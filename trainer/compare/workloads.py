"""The workloads to compare, from a gin file of their own.

    compare.workloads = [@digits/Workload(), @few/Workload()]

    digits/Workload.name = "digits MLP"
    digits/Workload.gin_file = "gin_configs/digits.gin"
    digits/Workload.batch_sizes = [32, 128]
    digits/Workload.epoch_examples = 1437

A workload is an unchanged gin file of an experiment, with bindings on top. Each of its batch sizes,
or numbers of examples to predict, is a case.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from trainer import config, errors
from trainer.config import gin_names, trust
from trainer.settings import setting_types


@gin_names.configurable(module="trainer.compare")
@dataclasses.dataclass(frozen=True)
class Workload:
  """An experiment to measure the speed of.

  Attributes:
    name: in results and the table.
    gin_file: the experiment, as for trainer.main.
    bindings: list of gin bindings that come after the file, such as "run.train_steps = 100".
    mode: "train" or "predict".
    batch_sizes: list of global batch sizes; each one is a case.
    examples: to predict: list of numbers of examples; each one is a case.
    slice_steps: training steps to time together.
    slices: the number of slices of steps, or of calls to predict, to time.
    warm_slices: the number of slices before those; they do not count.
    epoch_examples: examples in an epoch, for the time and cost of one; None if there is no epoch.
    epochs: epochs in a whole training, for its time and cost.
    unit: the time to show: of a "step", an "epoch" or a "run". None: the longest of the
      three that Octet knows.
    evaluate: whether to evaluate the model after its steps, for its accuracy.

  Raises:
    SettingError: a value is of the wrong type or out of range.
  """

  name: str
  gin_file: str
  bindings: Sequence[str] = ()
  mode: Annotated[str, setting_types.one_of("train", "predict")] = "train"
  batch_sizes: Sequence[setting_types.Count] = (128,)
  examples: Sequence[setting_types.Count] = ()
  slice_steps: setting_types.Count = 10
  slices: setting_types.Count = 10
  warm_slices: setting_types.Count = 2
  epoch_examples: setting_types.Count | None = None
  epochs: setting_types.Positive | None = None
  unit: Annotated[str, setting_types.one_of("step", "epoch", "run")] | None = None
  evaluate: bool = False

  def __post_init__(self) -> None:
    where = f"Workload {self.name!r}"
    if not self.batch_sizes or (self.mode == "predict") != bool(self.examples):
      raise errors.SettingError(
        f"{where}: give batch_sizes, and examples if and only if it predicts; got "
        f"{self.batch_sizes} and {self.examples}."
      )
    if self.epochs is not None and self.epoch_examples is None:
      raise errors.SettingError(f"{where}: epochs need epoch_examples.")

  @property
  def shown_unit(self) -> str:
    """The unit of time to show."""
    if self.unit:
      return self.unit
    return "run" if self.epochs else "epoch" if self.epoch_examples else "step"


@dataclasses.dataclass(frozen=True)
class Case:
  """A workload at one size.

  Attributes:
    workload: the workload.
    batch_size: examples in a step of all cores together.
    examples: the examples to predict; None for a training.
  """

  workload: Workload
  batch_size: int
  examples: int | None = None

  @property
  def title(self) -> str:
    """The case in words, for messages."""
    if self.examples is not None:
      return f"{self.workload.name}, {self.examples} examples"
    return f"{self.workload.name}, batch {self.batch_size}"

  def settings(self) -> dict[str, Any]:
    """Returns the settings that a result depends on beside the case's size."""
    load = self.workload
    return {
      "gin_file": load.gin_file,
      "bindings": list(load.bindings),
      "slice_steps": load.slice_steps,
      "slices": load.slices,
      "warm_slices": load.warm_slices,
      "evaluate": load.evaluate,
    }


@gin_names.configurable(module="trainer")
def compare(workloads: Sequence[Workload] = ()) -> list[Case]:
  """The function that a comparison's gin file binds.

  Args:
    workloads: list of Workloads, [@conv_op/Workload(), ...].

  Returns:
    The cases of all workloads, in their order.

  Raises:
    SettingError: it is no list of Workloads, or two have the same name and mode.
  """
  if not workloads:
    raise errors.SettingError(
      f"compare.workloads is {workloads!r}; expected a list such as [@conv_op/Workload()]."
    )
  names = [(each.name, each.mode) for each in workloads]
  for name, mode in names:
    if names.count((name, mode)) > 1:
      raise errors.SettingError(
        f"compare.workloads: two Workloads to {mode} have the name {name!r}."
      )
  return [case for each in workloads for case in _cases(each)]


def _cases(workload):
  return [
    Case(workload, batch_size, examples)
    for batch_size in workload.batch_sizes
    for examples in (workload.examples or [None])
  ]


def load(
  gin_files: Sequence[str],
  gin_bindings: Sequence[str] = (),
  modules: Sequence[str] | None = (trust.FOLDER,),
) -> list[Case]:
  """Reads the cases from gin files.

  Args:
    gin_files: paths, see `trainer.config.files`.
    gin_bindings: strings of gin that come after the files.
    modules: modules that the files may import and name, see `trainer.config.trust`.

  Raises:
    SettingError: names the file and line, the text there, and similar names.
  """
  try:
    # Without a root: importing it would import TensorFlow. This process leaves GPUs and TPUs to the
    # measuring processes.
    config.load(gin_files, gin_bindings, root=None, modules=modules)
    return compare()
  finally:
    config.clear()
