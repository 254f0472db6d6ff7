"""One step of each kind: calls the model_fn on every replica, each with its own batch.

The order inside a training step is fixed: forward → loss → gradients → combine over the replicas →
clip → apply. The model_fn does the first three, `trainer.optimization.optimizers` the rest, in the
same way for every optimizer.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from trainer import errors, run_config, spec
from trainer.optimization import combined_gradients, global_means, schedules
from trainer.programs import core_results, model_calls, step_errors, unchanged_variables
from trainer.programs import plan as plan_lib
from trainer.reporting import summaries
from trainer.settings import durations
from trainer.settings.kinds import Kind
from trainer.tracing import assignments, replica_updates, store_run, variable_store

# Which variables a step may change. A model_fn may create its train_op in every mode, but only
# training updates the model. Evaluation counts in its metrics; prediction counts nothing.
_MAY_CHANGE = {
  Kind.TRAIN: variable_store.ANY,
  Kind.EVAL: variable_store.LOCAL,
  Kind.PREDICT: variable_store.NOTHING,
}


@dataclasses.dataclass
class TracedStep:
  """What the trace of a step found, beside its tensors. Each trace has its own.

  Attributes:
    specification: the EstimatorSpec that the model_fn returned on this process's first replica.
    scalars: tag → variable with the value that the training step passes to tf.summary.scalar. Read
      outside of replicas, it is the mean over the replicas.
  """

  specification: spec.EstimatorSpec = dataclasses.field(init=False)
  scalars: dict[str, tf.Variable] = dataclasses.field(default_factory=dict)

  def note(self, made: spec.EstimatorSpec) -> None:
    """Keeps the result of the model_fn, if this process's first replica called it."""
    # The program's objects keep the state of that call, and its hooks refer to them.
    if store_run.replica_number() in (None, 0):
      self.specification = made

  @property
  def metric_fn(self) -> Callable | None:
    """The metric_fn of an evaluation step, or None."""
    return self.specification.eval_metrics[0] if self.specification.eval_metrics else None

  @property
  def host_fn(self) -> Callable | None:
    """The function of a training step's host_call, or None."""
    return self.specification.host_call[0] if self.specification.host_call else None


class Program:
  """A model_fn on the replicas of a strategy, with the variables that it creates.

  Call `run_step` and `run_stack` during the trace of a tf.function. Each returns tensors and the
  TracedStep.

  Args:
    model_fn: the model_fn.
    strategy: the strategy whose replicas run it.
    params: the params of the model_fn, without "batch_size".
    batch_sizes: kind → per-core batch size, for params["batch_size"]. If a kind is missing, as in
      an export, the params have no "batch_size".
    config: the run's configuration.
    uses_cpu_kernels: whether `trainer.tracing.cpu_kernels` replace operations of Keras. Only for
      programs that run on CPUs and nowhere else.
    xla_devices: the pjrt.devices.Devices that run the programs; None if TensorFlow runs them.

  Attributes:
    strategy: the strategy.
    training_length: how long the training is, for learning-rate schedules.
    store: all variables: the model's, the optimizer's slots, and "global_step".
    global_step: int64 variable, the number of training steps done.
    calls: the calls of the model_fn.
  """

  def __init__(
    self,
    model_fn: spec.ModelFn,
    *,
    strategy: tf.distribute.Strategy,
    params: Mapping[str, Any],
    batch_sizes: Mapping[Kind, int],
    config: run_config.RunConfig,
    uses_cpu_kernels: bool = False,
    xla_devices: Any = None,
  ) -> None:
    self.strategy = strategy
    per_core = batch_sizes.get(Kind.TRAIN)
    self.training_length = durations.TrainingLength(
      per_core and per_core * strategy.num_replicas_in_sync,
      config.epoch_examples,
      config.train_steps,
    )
    precision = "mixed_bfloat16" if config.precision == "bfloat16" else "float32"
    self.store = variable_store.VariableStore(
      strategy, precision, config.tf_random_seed, uses_cpu_kernels, xla_devices, config.compiled
    )
    # The store does not create the global step: it exists before the first call of a model_fn.
    with strategy.scope():
      self.global_step = tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        name="global_step",
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
      )
    self.store.variables["global_step"] = self.global_step
    self.calls = model_calls.ModelCalls(model_fn, params, batch_sizes, config, self.store)

  def run_step(self, kind: Kind, batches: Sequence[tuple]) -> tuple[Any, TracedStep]:
    """Runs one step.

    Args:
      kind: the kind of the step.
      batches: an element (see `trainer.inputs`) for each replica. A prediction drops the labels.

    Returns:
      (results, traced): the step's results, and the TracedStep. The results are,

      - of training, (loss, host_tensors): float32 scalar, the mean loss of this process's replicas,
        before the update; the tensors of the host_call, concatenated over the replicas;
      - of evaluation, (losses, tensors): the result of `global_means.evaluated`, float32 [replicas]
        each; the tensors of eval_metrics, concatenated over the replicas ({} if the model_fn
        returns none);
      - of prediction, the model_fn's predictions, concatenated over the replicas.
    """
    traced = TracedStep()
    # The order matters. The loop increments the global step after this function, so the requests
    # "after the step" below get step + 1.
    step = self.global_step.read_value() if kind == Kind.TRAIN else None
    results = self._run_on_replicas(
      functools.partial(self._step_on_replica, kind, traced),
      *self._of_each_replica(batches),
      kind=kind,
    )
    # Stack scalars; concatenate all other tensors, also of unknown rank, such as tf.py_function's.
    join = functools.partial(tf.concat, axis=0, name=step_errors.JOINED)
    results = tf.nest.map_structure(
      lambda *values: (tf.stack if values[0].shape.rank == 0 else join)(values),
      *self._per_replica(results),
    )
    if kind == Kind.TRAIN:
      self._run_after_step(step)
      self._warn_of_no_training(traced)
      losses, host_tensors = results
      results = tf.reduce_mean(losses), host_tensors
    return results, traced

  def run_stack(
    self, plan: plan_lib.Plan, stack: tuple, first: tf.Tensor, count: tf.Tensor
  ) -> tuple[core_results.CoreTotals | core_results.CoreResults, TracedStep]:
    """Runs training steps and counts them; or evaluates or predicts groups.

    The loop over the steps is inside `strategy.run`: the steps are one program of the device. The
    replicas of a MirroredStrategy cannot wait for each other in there, and have no stacks.

    Args:
      plan: the program.
      stack: the replica's elements of several steps: nests of tensors with one more axis in front,
        [steps, per-core batch, ...].
      first: int32 scalar, the first place of the stack.
      count: int32 scalar, the number of steps.

    Returns:
      (kept, traced): the totals of the steps, or the results of `run_step` for each replica, the
      first group's at place 0, in variables; and the TracedStep.

    Raises:
      core_results.TooLarge: see CoreResults.keep.
    """
    traced = TracedStep()
    places = _Places(first, count, plan.length)
    if plan.kind == Kind.TRAIN:
      totals = core_results.CoreTotals(self.store)
      self._train_on_stack(traced, totals, stack, places)
      self._warn_of_no_training(traced)
      return totals, traced
    results = core_results.CoreResults(self.store, plan.kind, plan.length, plan.limit_bytes)
    self._run_groups(plan.kind, traced, results, stack, places)
    return results, traced

  def _train_on_stack(self, traced, totals, stack, places):
    def on_replica(step, index, *stack):
      totals.add(step + 1, *self._step_on_replica(Kind.TRAIN, traced, *_at(index, stack)))

    def on_core(one_step, *stack):
      def body(index):
        step = self.global_step.read_value()
        with schedules.training_scope(self.training_length, step):
          one_step(step, step, index, *stack)
        # The trace leaves out a model_fn's assignments to the step. This assignment is the loop's.
        with assignments.allow():
          replica_updates.update_each(lambda own: own.assign_add(1), [self.global_step])

      places.for_each(body)

    self._run_on_replicas(on_replica, *stack, loop=on_core)

  def _run_groups(self, kind, traced, results, stack, places):
    def on_replica(index, *stack):
      results.keep(index - places.first, self._step_on_replica(kind, traced, *_at(index, stack)))

    step = self.global_step.read_value()

    def on_core(one_group, *stack):
      places.for_each(lambda index: one_group(step, index, *stack))

    self._run_on_replicas(on_replica, *stack, kind=kind, loop=on_core)

  def _warn_of_no_training(self, traced):
    made = traced.specification
    if not made.training_hooks:  # hooks may train by themselves, as a GAN's in turns
      unchanged_variables.warn_if_unchanged(self.store, made.train_op, self.calls.model_name)

  def _step_on_replica(self, kind, traced, *element):
    """Runs a step on a replica; returns this replica's results of `run_step`."""
    if kind == Kind.PREDICT:
      made = self.calls.call_model_fn(kind, element[:1])
      traced.note(made)
      return made.predictions
    if kind == Kind.EVAL:
      with global_means.scope(is_training=False):
        made = self.calls.call_model_fn(kind, element)
        loss = global_means.evaluated(made.loss)
      pair = made.eval_metrics
    else:
      with summaries.collect_scalars() as scalars, global_means.scope(is_training=True):
        made = self.calls.call_model_fn(kind, element)
      for tag, value in scalars.items():
        traced.scalars[tag] = self.store.scratch(f"summaries/{tag}")
        traced.scalars[tag].assign(value)
      loss, pair = tf.cast(made.loss, tf.float32), made.host_call
      _check_host_tensors(pair)
    traced.note(made)
    return loss, pair[1] if pair else {}

  def _of_each_replica(self, batches):
    if len(batches) == 1:
      return batches[0]
    return self.strategy.experimental_distribute_values_from_function(
      lambda context: batches[context.replica_id_in_sync_group]
    )

  def _run_on_replicas(self, fn, *arguments, kind=Kind.TRAIN, goes_on=False, loop=None):
    training = kind == Kind.TRAIN
    step = self.global_step.read_value()
    with (
      summaries.intercept_scalars(),
      combined_gradients.training_scope() if training else combined_gradients.idle_scope(),
      schedules.training_scope(self.training_length, step) if training else schedules.idle_scope(),
    ):
      return self.store.run(
        fn,
        arguments,
        step,
        self.global_step,
        _MAY_CHANGE[kind],
        goes_on,
        f"model_fn {self.calls.model_name}, mode {spec.MODE_OF[kind]!r},",
        loop=loop,
      )

  def _run_after_step(self, step):
    """Runs the requests of the model_fn that are due after this step."""

    def run(fn):
      self._run_on_replicas(fn, goes_on=True)
      return True  # a branch of tf.cond must return something

    for fn, every in self.store.after_step_requests():
      tf.cond(tf.equal((step + 1) % every, 0), functools.partial(run, fn), lambda: False)

  def _per_replica(self, results):
    """Splits per-replica results into one structure of tensors for each replica."""
    locals_ = [self.strategy.experimental_local_results(leaf) for leaf in tf.nest.flatten(results)]
    replicas = max(len(values) for values in locals_)
    # A strategy returns a single tensor if it is the same on all replicas.
    locals_ = [values * replicas if len(values) < replicas else values for values in locals_]
    return [tf.nest.pack_sequence_as(results, values) for values in zip(*locals_, strict=True)]


class _Places(NamedTuple):
  """Places of a stack with the given length: from the first one on, as many as the count."""

  first: tf.Tensor
  count: tf.Tensor
  length: int

  def for_each(self, do):
    """Calls `do` for the places, in a loop of the function in trace; for one place without."""
    if self.length == 1:
      do(self.first)
      return

    def body(index):
      do(index)
      return index + 1

    tf.while_loop(lambda index: index < self.first + self.count, body, [self.first])


def _at(index, stack):
  """Returns the element at one place of a stack."""
  return tf.nest.map_structure(lambda tensor: tensor[index], stack)


def _check_host_tensors(host_call):
  for tensor in tf.nest.flatten(host_call[1]) if host_call else ():
    if tensor.shape.rank == 0:
      raise errors.SpecError(
        f"host_call: the tensor {tensor.name} is a scalar; Octet concatenates along an axis: "
        "tf.reshape(tensor, [1])."
      )
