"""The programs of an experiment on one replica of a TPU that is not there."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer import errors, spec
from trainer.devices import replica
from trainer.inputs import elements, feeder
from trainer.preflight import bindings
from trainer.programs import abstract_variables, plan, step, traced_program
from trainer.settings.kinds import Kind


class Steps:
  """The programs of an experiment on one of `replicas` replicas. All kinds share their variables.

  Args:
    experiment: the experiment.
    replicas: number of cores.
    per_core: kind → per-core batch size.

  Attributes:
    planner: says which programs there are.
    program: the step.Program.
  """

  def __init__(
    self, experiment: bindings.Experiment, replicas: int, per_core: Mapping[Any, int]
  ) -> None:
    self._input_fns = experiment.input_fns
    self._per_core = per_core
    params = dict(experiment.params, use_tpu=True)
    self._feeder = feeder.Feeder(
      feeder.Layout(replicas, replicas), per_core.__getitem__, experiment.config, params
    )
    model_fn = spec.ModelFn(experiment.model_fn)
    model_fn.check_params(experiment.params)
    self.planner = plan.Planner(experiment.config, plan.Target(replicas=1))
    self.program = step.Program(
      model_fn,
      strategy=replica.OneOfMany(replicas),
      params=params,
      batch_sizes=per_core,
      config=experiment.config,
    )

  def call_input_fn(self, kind: Kind) -> Any:
    """Calls the input_fn of a kind and checks its dataset against what a TPU needs.

    Returns:
      The element that one replica's step gets: a nest of tf.TensorSpec with static shapes.

    Raises:
      InputError: the input_fn fails, or its elements cannot be used on a TPU.
    """
    input_fn = self._input_fns[kind]
    try:
      dataset, _ = self._feeder.batches(kind, input_fn)
      for path, leaf in elements.named_leaves(dataset.element_spec):
        if leaf.dtype in (tf.string, tf.variant, tf.resource):
          raise errors.InputError(
            f"{path} ({kind}) has dtype {leaf.dtype.name}, which a TPU does "
            "not have: turn it into numbers in the input_fn."
          )
    except errors.InputError as error:
      raise errors.InputError(f"{error} ({bindings.place_of(input_fn)})") from error
    return with_batch(dataset.element_spec, self._per_core[kind])

  def trace(self, plan_: plan.Plan) -> traced_program.TracedProgram:
    """Traces a program, whose variables have no values.

    Raises:
      core_results.TooLarge: what so many groups give exceeds plan_.limit_bytes.
      ModelFnError: the model_fn raised.
    """
    with tf.variable_creator_scope(abstract_variables.without_values):
      return traced_program.trace(self.program, plan_)

  def trace_planned(self, kind: Kind, element: Any) -> traced_program.TracedProgram:
    """Traces what the device runs in one program: many steps, or groups, where they may be one.

    Args:
      kind: the kind.
      element: what `call_input_fn` returns.

    Raises:
      ModelFnError: the model_fn raised.
      SettingError: TPUConfig.steps_per_program cannot be had.
    """
    return traced_program.trace_longest(self.planner.plan(kind, element), self.trace)


def with_batch(element: Any, per_core: int) -> Any:
  """Returns the specs of an element with another batch size."""
  return tf.nest.map_structure(
    lambda leaf: tf.TensorSpec([per_core, *leaf.shape[1:]], leaf.dtype), element
  )
