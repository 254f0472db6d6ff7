"""The programs of an experiment, as a run on a device makes them, without the device."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer import errors, spec
from trainer.devices import device as device_lib
from trainer.devices import replica
from trainer.inputs import feeder
from trainer.inputs import groups as input_groups
from trainer.pjrt import program as pjrt_program
from trainer.preflight import bindings
from trainer.programs import abstract_variables, plan, step, xla_program
from trainer.settings.kinds import Kind


class Steps:
  """The programs of an experiment on one of `replicas` replicas. All kinds share their variables.

  Args:
    experiment: the experiment.
    kind: of the device, see `device.Device`.
    replicas: number of cores.
    per_core: kind → per-core batch size.

  Attributes:
    program: the step.Program.
  """

  def __init__(
    self, experiment: bindings.Experiment, kind: str, replicas: int, per_core: Mapping[Any, int]
  ) -> None:
    self._input_fns = experiment.input_fns
    self._per_core = per_core
    params = dict(experiment.params, use_tpu=kind == "tpu")
    device = device_lib.Device(kind, replica.OneOfMany(replicas, packs=kind == "xla"))
    self._feeder = feeder.Feeder(device, per_core.__getitem__, experiment.config, params)
    model_fn = spec.ModelFn(experiment.model_fn)
    model_fn.check_params(experiment.params)
    self._config = experiment.config
    self._platform = "tpu" if kind == "tpu" else "cpu"
    self.program = step.Program(
      model_fn,
      strategy=device.strategy,
      params=params,
      batch_sizes=per_core,
      config=experiment.config,
    )

  def call_input_fn(self, kind: Kind) -> tuple[Any, int | None]:
    """Calls the input_fn of a kind and checks its dataset.

    Returns:
      (element, groups): one replica's step gets element, a nest of tf.TensorSpec with static
      shapes; an evaluation or a prediction has groups, None if unknown.

    Raises:
      InputError: the input_fn fails, or its elements do not fit the device.
    """
    input_fn = self._input_fns[kind]
    try:
      dataset = self._feeder.for_loop(kind, input_fn)
      xla_program.check_dtypes(kind, dataset.element_spec)
    except errors.InputError as error:
      raise errors.InputError(f"{error} ({bindings.place_of(input_fn)})") from error
    if kind == Kind.TRAIN:
      return dataset.element_spec, None
    # tf.data's constants for an infinite and an unknown cardinality are negative.
    cardinality = int(dataset.cardinality().numpy())
    return input_groups.core_spec(dataset.element_spec), cardinality if cardinality >= 0 else None

  def trace(self, kind: Kind, element: Any, groups: int | None = None) -> xla_program.TracedProgram:
    """Traces one program of the device: many steps or groups, if the program can hold them.

    Its variables have no values.

    Args:
      kind: the kind.
      element: the spec of one replica's batch.
      groups: the number in an evaluation or a prediction, or None.

    Raises:
      InputError: the input has a dtype that XLA devices do not have.
      ModelFnError: the model_fn raised.
      SettingError: TPUConfig.steps_per_program does not work here.
    """
    # The compiler needs shapes alone, and this machine may lack the memory for the values.
    with tf.variable_creator_scope(abstract_variables.without_values):
      made = plan.plan(self._config, kind, element, groups)
      return xla_program.trace_longest(self.program, made, self._platform)

  def lower(self, traced: xla_program.TracedProgram) -> pjrt_program.Source:
    """Lowers a traced program.

    Returns:
      The program that a run compiles; `lower` returns at once.

    Raises:
      LowerError: XLA cannot compile it, or it does not work without variables.
    """
    replicas = self.program.strategy.num_replicas_in_sync
    source = xla_program.of(traced, self.program.store, replicas)
    source.lower()
    return source


def with_batch(element: Any, per_core: int) -> Any:
  """Returns the specs of an element with another batch size."""
  return tf.nest.map_structure(
    lambda leaf: tf.TensorSpec([per_core, *leaf.shape[1:]], leaf.dtype), element
  )
