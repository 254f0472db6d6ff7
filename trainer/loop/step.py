"""One step of each mode: a batch on each replica.

The order inside a training step is fixed: forward → loss → gradients → combine over the replicas →
clip → apply. The first three are the model_fn's; what `trainer.optimizers` does for every optimizer
is the rest.
"""

import contextlib
import re
import traceback

import tensorflow as tf

from trainer import combined_gradients, durations, errors, schedules, spec
from trainer.checkpoints import scaffolds
from trainer.inputs import elements
from trainer.reporting import summaries
from trainer.tracing import user_frames, variable_store

ModeKeys = spec.ModeKeys

# A model_fn may make its train_op in every mode, and what is served counts nothing.
_MAY_CHANGE = {
  ModeKeys.TRAIN: variable_store.ANY,
  ModeKeys.EVAL: variable_store.LOCAL,
  ModeKeys.PREDICT: variable_store.NOTHING,
}


class Program:
  """A model_fn on the replicas of a strategy, with the variables that it makes.

  Its methods are called while a tf.function is traced.

  Args:
    model_fn: a spec.ModelFn.
    strategy: a tf.distribute.Strategy.
    params: dict for the model_fn.
    batch_sizes: dict of mode → per-core batch size, for params["batch_size"]; a mode that is absent
      (as in export) goes without.
    config: the RunConfig.
    uses_cpu_kernels: whether `trainer.tracing.cpu_kernels` replace operations of Keras. Only for
      programs that run on CPUs and nowhere else.

  Attributes:
    training_length: the durations.TrainingLength that learning-rate schedules go by.
    store: the VariableStore of the model, its optimizer's slots and all; "global_step" is among its
      variables.
    scalars: dict of tag → variable with what the newest training step gave to tf.summary, the mean
      over the replicas.
    metric_fn: that of the newest evaluation trace, or None.
    host_fn: that of the newest training trace's host_call, or None.
    specs: dict of mode → the EstimatorSpec that model_fn returned last in it.
    traces: dict of mode → how often model_fn was called in it.
  """

  def __init__(self, model_fn, *, strategy, params, batch_sizes, config, uses_cpu_kernels=False):
    self._model_fn = model_fn
    self._params = params
    self._batch_sizes = batch_sizes
    self._config = config
    self.strategy = strategy
    per_core = batch_sizes.get(ModeKeys.TRAIN)
    self.training_length = durations.TrainingLength(
      per_core and per_core * strategy.num_replicas_in_sync,
      config.epoch_examples,
      config.train_steps,
    )
    precision = "mixed_bfloat16" if config.precision == "bfloat16" else "float32"
    self.store = variable_store.VariableStore(
      strategy, precision, config.tf_random_seed, uses_cpu_kernels
    )
    with strategy.scope():
      self.global_step = tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        name="global_step",
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
      )
    self.store.variables["global_step"] = self.global_step
    self.scalars = {}
    self.metric_fn = None
    self.host_fn = None
    self.specs = {}
    self._around_model_fn = contextlib.nullcontext
    self.traces = dict.fromkeys((ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT), 0)
    self._scaffold_fns = {}

  def train(self, batches):
    """One training step.

    Args:
      batches: a list with an element (see `trainer.inputs`) for each replica.

    Returns:
      (loss, host_tensors): float32 scalar, the mean over this process's replicas, before the step's
      update; and the tensors of host_call, the replicas' one after another.
    """

    def replica_step(*element):
      with summaries.collect_scalars() as scalars:
        result = self._call(ModeKeys.TRAIN, element)
      self._keep(scalars)
      self.host_fn, tensors = result.host_call or (None, {})
      _check_host_tensors(tensors)
      return tf.cast(result.loss, tf.float32), tensors

    step = self.global_step.read_value()
    losses, host_tensors = self._on_each_replica(replica_step, batches, ModeKeys.TRAIN)
    for fn, every in self.store.take_after_step():
      self._run_if(tf.equal((step + 1) % every, 0), fn)
    return tf.reduce_mean(losses), host_tensors

  def evaluate(self, batches):
    """Returns (losses, tensors): float32 [replicas], and those of eval_metrics ({} if none),
    the replicas' batches one after another.
    """

    def replica_step(*element):
      result = self._call(ModeKeys.EVAL, element)
      self.metric_fn, tensors = result.eval_metrics or (None, {})
      return tf.cast(result.loss, tf.float32), tensors

    return self._on_each_replica(replica_step, batches, ModeKeys.EVAL)

  def predict(self, batches):
    """Returns the model_fn's predictions, the replicas' batches one after another."""

    def replica_step(*element):
      return self._call(ModeKeys.PREDICT, element[:1]).predictions

    return self._on_each_replica(replica_step, batches, ModeKeys.PREDICT)

  def restored_names(self, mode: str) -> dict[str, str] | None:
    """Calls the scaffold_fn of a mode that was traced, once; dict of variable → its name in
    checkpoints, as its Saver says.

    Returns:
      None where there is no scaffold_fn, or no Saver in its Scaffold.

    Raises:
      OctetError: as `scaffolds.ScaffoldFn.names` does.
    """
    scaffold_fn = self._scaffold_fns.get(mode)
    return scaffold_fn and scaffold_fn.names(self.store, self._config)

  @contextlib.contextmanager
  def wrap_model_fn(self, context):
    """Inside, each call of model_fn, on the thread of its replica, is inside a context(), of a
    function that makes context managers.
    """
    self._around_model_fn = context
    try:
      yield
    finally:
      self._around_model_fn = contextlib.nullcontext

  def _on_each_replica(self, fn, batches, mode):
    """fn on every replica with its own batch; its results over the replicas, concatenated
    (scalars: stacked).
    """
    if len(batches) == 1:
      arguments = batches[0]
    else:
      # Of several workers, each feeds its own replicas.
      arguments = self.strategy.experimental_distribute_values_from_function(
        lambda context: batches[context.replica_id_in_sync_group % len(batches)]
      )
    results = self._run_on_replicas(fn, *arguments, mode=mode)
    return tf.nest.map_structure(
      lambda *values: (tf.concat if values[0].shape.rank else tf.stack)(values, 0),
      *self._per_replica(results),
    )

  def _run_on_replicas(self, fn, *arguments, mode=ModeKeys.TRAIN, goes_on=False):
    training = mode == ModeKeys.TRAIN
    step = self.global_step.read_value()
    with (
      summaries.intercept_scalars(),
      combined_gradients.training_scope() if training else combined_gradients.idle_scope(),
      schedules.training_scope(self.training_length, step) if training else schedules.idle_scope(),
    ):
      return self.store.run(fn, arguments, step, self.global_step, _MAY_CHANGE[mode], goes_on)

  def _run_if(self, condition, fn):
    def run():
      self._run_on_replicas(fn, goes_on=True)
      return True

    tf.cond(condition, run, lambda: False)

  def _per_replica(self, results):
    """A list of each replica's own structure of tensors."""
    locals_ = [self.strategy.experimental_local_results(leaf) for leaf in tf.nest.flatten(results)]
    replicas = max(len(values) for values in locals_)
    # One tensor that is the same for all stands for them.
    locals_ = [values * replicas if len(values) < replicas else values for values in locals_]
    return [tf.nest.pack_sequence_as(results, values) for values in zip(*locals_, strict=True)]

  def _call(self, mode, element):
    """model_fn on one replica, with what goes wrong in it said in its terms."""
    self.traces[mode] += 1
    features, labels = element if len(element) == 2 else (element[0], None)
    params = dict(self._params)
    if mode in self._batch_sizes:
      params["batch_size"] = self._batch_sizes[mode]
    try:
      with self._around_model_fn():
        result = self._model_fn(features, labels, mode, params, self._config)
    except errors.OctetError:
      raise
    except Exception as error:
      raise errors.ModelFnError(_message(self._model_fn.name, mode, element, error)) from error
    self._check(result, mode, features)
    self.specs[mode] = result
    if mode not in self._scaffold_fns:  # which has called it, or will
      self._scaffold_fns[mode] = scaffolds.note_scaffold_fn(result, self._model_fn.name)
    return result

  def _check(self, result, mode, features):
    """Raises SpecError where a tensor of an EstimatorSpec has a shape that it cannot have."""
    name = f"model_fn {self._model_fn.name}, mode {mode!r}"
    if mode != ModeKeys.PREDICT:
      if not tf.is_tensor(result.loss):
        raise errors.SpecError(f"{name}: the loss is {result.loss!r}: expected a scalar tensor.")
      if result.loss.shape.rank != 0:
        raise errors.SpecError(
          f"{name}: the loss has shape {result.loss.shape}: expected a "
          "scalar, as tf.reduce_mean gives."
        )
    what, tensors = "predictions", result.predictions
    if mode != ModeKeys.PREDICT:
      what, tensors = (
        "eval_metrics",
        result.eval_metrics[1] if mode == ModeKeys.EVAL and result.eval_metrics else None,
      )
    if tensors is None:
      return
    first = tf.nest.flatten(features)[0].shape
    batch = first.as_list()[0] if first.rank else None
    for path, tensor in elements.named_leaves((tensors,), [what]):
      shape = tf.convert_to_tensor(tensor).shape
      if shape.rank == 0 or (
        batch is not None and shape.rank and shape.as_list()[0] not in (None, batch)
      ):
        raise errors.SpecError(
          f"{name}: {path} has shape {shape}: its first axis must be the "
          f"batch, of {batch} examples."
        )

  def _keep(self, scalars):
    """Leaves the step's scalars in variables, one for each replica, from which the host reads
    their mean.
    """
    for tag, value in scalars.items():
      self.scalars[tag] = self.store.scratch(f"summaries/{tag}")
      self.scalars[tag].assign(value)


@contextlib.contextmanager
def translate_step_errors(name, mode):
  """Says whose operation it was that failed while a model_fn of this name ran on the device.

  Raises:
    ModelFnError: an operation refused what it was given, such as a label that is out of range, or
      an assertion failed.
  """
  try:
    yield
  except tf.errors.InvalidArgumentError as error:
    where = user_frames.where(re.findall(r'File "(.+?)", line (\d+)', error.message))
    lines = [line.strip() for line in error.message.split("[[")[0].splitlines()]
    what = [
      line
      for line in lines
      if line and not line.startswith(("File ", "Detected at node", "Graph execution error"))
    ]
    raise errors.ModelFnError(
      f"model_fn {name} failed in a step, mode {mode!r}{where}: {' '.join(what)[:500]}"
    ) from error


def _check_host_tensors(tensors):
  for tensor in tf.nest.flatten(tensors):
    if tensor.shape.rank == 0:
      raise errors.SpecError(
        f"host_call: the tensor {tensor.name} is a scalar; it needs an axis "
        "to be concatenated along: tf.reshape(tensor, [1])."
      )


def _message(name, mode, element, error):
  shapes = ", ".join(
    f"{path} {leaf.dtype.name}{list(leaf.shape)}" for path, leaf in elements.named_leaves(element)
  )
  where = user_frames.where(
    [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
  )
  said = f"{type(error).__name__}: {error}"
  return f"model_fn {name} failed in mode {mode!r}{where}, given {shapes}: {said}"
