"""Combines gradients over the replicas inside optimizers, during the trace of a model_fn.

For any call of an optimizer of Keras or of `tf.compat.v1`, Octet combines the gradients once: when
they reach `apply_gradients`, before the optimizer uses them. An `apply_gradients` that a subclass
of `tf.compat.v1.train.Optimizer` defines (AdamWeightDecay, LARS) therefore gets combined gradients
too, and all replicas make the same update. In evaluation and prediction, optimizers do nothing.
`compute_gradients` of a `tf.compat.v1` optimizer already returns combined gradients: a model_fn
that clips them by their norm computes the same on all replicas, and the same as one core.

    with combined_gradients.training_scope():  # or idle_scope(), to evaluate or predict
      ... trace a model_fn ...
"""

import contextlib
import contextvars
import dataclasses
import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.cli import notices
from trainer.internals import keras_internals, patches, tensorflow_internals
from trainer.optimization import global_means, replaced_rates
from trainer.reporting import summaries
from trainer.tracing import fetched_operations, store_run, variable_creation

v1 = tf.compat.v1

# Whether the gradients on their way to an optimizer are already combined.
_combined = contextvars.ContextVar("gradients are combined", default=False)


@dataclasses.dataclass
class _Trace:
  """The combined values of one trace of a model_fn, on all of its replicas.

  Attributes:
    alike: tensors that are equal on all replicas, by identity.
    variables: identities of the variables whose gradients Octet combined at their computation.
    distinct: the indices of slices whose equal rows are added, by identity.
    counted: the graphs, each with its replica, in which an optimizer got the global step.
  """

  alike: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)
  variables: set[int] = dataclasses.field(default_factory=set)
  distinct: dict[int, tf.Tensor] = dataclasses.field(default_factory=dict)
  counted: set[tuple[tf.Graph, int | None]] = dataclasses.field(default_factory=set)


# Inside a model_fn, optimizers do nothing (_IDLE) or apply combined gradients (a _Trace). Outside
# (None) they behave as in TensorFlow or Keras.
_IDLE = "idle"
_mode: contextvars.ContextVar[_Trace | str | None] = contextvars.ContextVar(
  "mode of optimizers", default=None
)


def idle_scope() -> contextlib.AbstractContextManager[None]:
  """Makes optimizers do nothing inside a `with` block.

  A model_fn may make its train_op in every mode, and only training needs it.
  """
  return patches.set_context(_mode, _IDLE)


def training_scope() -> contextlib.AbstractContextManager[None]:
  """Makes optimizers combine gradients in a `with` block around a trace."""
  return patches.set_context(_mode, _Trace())


def is_idle() -> bool:
  """Whether optimizers do nothing here."""
  return _mode.get() == _IDLE


def _training() -> _Trace | None:
  """The trace of a training step that this is in, or None."""
  mode = _mode.get()
  return mode if isinstance(mode, _Trace) else None


def combined_scope() -> contextlib.AbstractContextManager[None]:
  """Makes optimizers in a `with` block take their gradients as combined."""
  return patches.set_context(_combined, True)


def combine(
  gradients: Sequence[Any], op: tf.distribute.ReduceOp = tf.distribute.ReduceOp.MEAN
) -> list[Any]:
  """Combines each gradient over the replicas, except gradients computed from combined ones alone.

  Args:
    gradients: tensors, tf.IndexedSlices or None.
    op: sum or mean.

  Returns:
    The combined gradients, the same on all replicas; None stays None.

  Raises:
    ModelFnError: the model_fn computed a gradient under tf.cond or in a tf.function, where replicas
      cannot wait for each other.
  """
  context = tf.distribute.get_replica_context()
  if context.num_replicas_in_sync == 1:
    return list(gradients)
  present = [g for g in gradients if g is not None and not _is_alike(g)]
  graph: Any = store_run.replica_graph()
  if any(getattr(gradient, "graph", graph) is not graph for gradient in present):
    raise errors.ModelFnError(
      "Octet cannot combine gradients from inside tf.cond or a tf.function over several cores: "
      "compute them before it (optimizer.compute_gradients), and only apply them inside."
    )
  # Replicas that share the indices combine their slices. TensorFlow's concatenation would have each
  # index once for each replica, and Adam squares each slice.
  shared = [isinstance(each, tf.IndexedSlices) and _is_constant(each.indices) for each in present]
  sent = [each.values if same else each for each, same in zip(present, shared, strict=True)]
  # In the replica's own graph, even for an optimizer under tf.cond: replicas cannot wait for each
  # other in a branch that only some of them take.
  with graph.as_default():
    received = context.all_reduce(op, sent) if sent else []
  combined = [
    tf.IndexedSlices(one, each.indices, each.dense_shape) if same else one
    for one, each, same in zip(received, present, shared, strict=True)
  ]
  made = {id(gradient): one for gradient, one in zip(present, combined, strict=True)}
  return [made.get(id(gradient), gradient) for gradient in gradients]


def add_equal_rows(gradients: Sequence[Any], optimizer: Any) -> list[Any]:
  """Adds slices of the same row, so that an optimizer or a norm sees each row's whole gradient.

  Args:
    gradients: tensors, tf.IndexedSlices or None, combined.
    optimizer: the optimizer that will apply them.

  Returns:
    For optimizers of TensorFlow and Keras, the sums of the rows, as many as there were slices, with
    zeros at the end. For a Keras optimizer with an update of its own, which may assign rows, dense
    gradients.
  """
  update = getattr(type(optimizer), "update_step", None)  # of a Keras optimizer
  is_own = update is not None and not update.__module__.startswith("keras.")
  add = tf.convert_to_tensor if is_own else _distinct_rows
  return [add(one) if isinstance(one, tf.IndexedSlices) else one for one in gradients]


def _distinct_rows(gradient):
  trace = _training() or _Trace()
  if id(gradient.indices) in trace.distinct:  # clipped after the rows were added
    return gradient
  # Not tf.unique: XLA finds the rows one after the other, and needs a result of constant size.
  order = tf.argsort(gradient.indices, stable=True)
  rows = tf.gather(gradient.indices, order)
  changes = tf.cast(tf.not_equal(rows, tf.roll(rows, 1, 0)), tf.int32)
  places, count = tf.cumsum(changes) - changes[:1], tf.size(rows)
  values = tf.math.unsorted_segment_sum(tf.gather(gradient.values, order), places, count)
  # The zeros at the end have the first row's index: Keras adds to rows, it never assigns them.
  indices = tf.maximum(tf.math.unsorted_segment_max(rows, places, count), rows[:1])
  trace.distinct[id(indices)] = indices
  return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _is_linear(optimizer):
  """Whether an optimizer by itself adds what it makes of equal rows, and the sum is right."""
  clips = optimizer.clipnorm or optimizer.global_clipnorm or optimizer.clipvalue
  return type(optimizer).update_step is keras.optimizers.SGD.update_step and not clips


def combine_at_source(gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
  """Combines newly computed gradients of variables.

  Outside of a training, on one replica, and under tf.cond, where replicas cannot meet, the
  gradients stay unchanged.

  Args:
    gradients: tensors or tf.IndexedSlices, and None.
    variables: the variable or tensor of each gradient.
  """
  trace, context = _training(), tf.distribute.get_replica_context()
  if (
    trace is None
    or _combined.get()
    or context is None
    or context.num_replicas_in_sync == 1
    or v1.get_default_graph() is not store_run.replica_graph()
  ):
    return list(gradients)
  found = list(gradients)
  chosen = [
    index
    for index, (gradient, variable) in enumerate(zip(found, variables, strict=True))
    if gradient is not None and isinstance(variable, tf.Variable)
  ]
  if chosen:
    for index, one in zip(chosen, combine([found[i] for i in chosen], _reduction()), strict=True):
      found[index] = one
      trace.variables.add(id(variables[index]))
      trace.alike |= {id(part): part for part in _parts(one)}
  return found


def _parts(gradient: Any) -> list[Any]:
  if isinstance(gradient, tf.IndexedSlices):
    return [gradient.values, gradient.indices]
  return [gradient]


def _is_constant(tensor: tf.Tensor) -> bool:
  """Whether a tensor depends on constants and known shapes alone, such as the places of a text."""
  return _origins([tensor], {}) is not None


def _is_alike(gradient: Any) -> bool:
  """Whether a gradient depends on combined gradients and constants alone."""
  trace = _training()
  if trace is None or not trace.alike:
    return False
  found = _origins(_parts(gradient), trace.alike)
  trace.alike |= found or {}
  return found is not None


def _origins(tensors: Sequence[tf.Tensor], known: Mapping[int, Any]) -> dict[int, tf.Tensor] | None:
  """Returns these tensors and all that they depend on, up to known ones; None if replicas differ.

  Args:
    tensors: of a replica's graph.
    known: id → tensor that is equal on all replicas.
  """
  waiting, found = list(tensors), {}
  while waiting:
    tensor = waiting.pop()
    if id(tensor) in known or id(tensor) in found:
      continue
    operation = getattr(tensor, "op", None)  # an eager one has none
    # The replica's number is a constant of this name, another one on each replica.
    if operation is None or "replica_id_in_sync_group" in operation.name:
      return None
    found[id(tensor)] = tensor
    if operation.type == "Shape" and operation.inputs[0].shape.is_fully_defined():
      continue
    if operation.op_def.is_stateful or (operation.type != "Const" and not operation.inputs):
      return None
    waiting.extend(operation.inputs)
  return found


@patches.replaces(*keras_internals.APPLY, inside=_mode)
def _apply(original, optimizer, grads, trainable_variables=None):
  if is_idle():
    return tf.no_op()
  if optimizer.gradient_accumulation_steps:
    _refuse_on_several_cores(
      "gradient_accumulation_steps of a Keras optimizer",
      "leave it out, and accumulate with trainer.minimize(optimizer, loss, accumulate_steps=...)",
    )
  replaced_rates.replace(optimizer)
  if not _combined.get():
    record_learning_rate(optimizer)
    grads = combine(grads)
  if not _is_linear(optimizer):
    grads = add_equal_rows(grads, optimizer)
  with fetched_operations.fetched_where_made():  # Keras returns nothing to make a train_op of
    return original(optimizer, grads, trainable_variables)


@patches.replaces(keras.optimizers.LossScaleOptimizer, "apply", inside=_mode)
def _apply_scaled(original, optimizer, grads, trainable_variables=None):
  if is_idle():
    return tf.no_op()
  _refuse_on_several_cores(
    "keras.optimizers.LossScaleOptimizer",
    "train in bfloat16 with the wrapped optimizer; bfloat16 needs no loss scaling",
  )
  with fetched_operations.fetched_where_made():
    return original(optimizer, grads, trainable_variables)


def _refuse_on_several_cores(what, instead):
  """Refuses operations that Keras applies under a condition: replicas cannot wait in there."""
  if tf.distribute.get_strategy().num_replicas_in_sync > 1:
    raise errors.ModelFnError(f"{what} works on one core only. On several: {instead}.")


@patches.replaces(*keras_internals.SUM_GRADIENTS, inside=_mode)
def _sum_gradients(original, optimizer, grads_and_vars):
  """Keeps Keras from summing over the replicas: Octet has combined the gradients already."""
  return list(grads_and_vars)


if keras_internals.MUON_USES_ADAMW:

  @patches.replaces(*keras_internals.MUON_USES_ADAMW, inside=_mode)
  def _uses_adamw(original, optimizer, variable):
    """Gives Muon the name of a plain tf.Variable, which has no path."""
    path = getattr(variable, "path", variable.name)
    return original(optimizer, types.SimpleNamespace(shape=variable.shape, path=path))


@patches.replaces(v1.train.Optimizer, "minimize", inside=_mode)
def _minimize(original, *args, **kwargs):
  return tf.no_op() if is_idle() else original(*args, **kwargs)


@patches.replaces(v1.train.Optimizer, "compute_gradients", inside=_mode)
def _compute_gradients(original, optimizer, loss, *args, **kwargs):
  # Under tf.cond, TensorFlow cannot differentiate a loss from outside the branch. The gradients
  # are therefore computed in the loss's graph.
  is_outside = tf.is_tensor(loss) and loss.graph is not v1.get_default_graph()
  with loss.graph.as_default() if is_outside else contextlib.nullcontext():
    pairs = original(optimizer, loss, *args, **kwargs)
    gradients, variables = zip(*pairs, strict=True) if pairs else ((), ())
    return list(zip(combine_at_source(gradients, variables), variables, strict=True))


@patches.replaces(v1.train.Optimizer, "apply_gradients", inside=_mode)
def _apply_gradients(
  original, optimizer, grads_and_vars, global_step=None, name=None, skip_gradients_aggregation=False
):
  if tf.distribute.in_cross_replica_context():
    return original(optimizer, grads_and_vars, global_step, name, skip_gradients_aggregation)
  if is_idle():
    return tf.no_op()
  replaced_rates.replace(optimizer)
  if global_step is not None:
    _warn_of_a_second_count()
  if not (_combined.get() or skip_gradients_aggregation):
    grads_and_vars = _combined_pairs(grads_and_vars)
    # Skip aggregation: Octet has combined the gradients, and under tf.cond replicas cannot wait for
    # each other. Pass no global step, because the training loop counts steps.
  return original(optimizer, grads_and_vars, None, name, skip_gradients_aggregation=True)


def _warn_of_a_second_count():
  """Warns if an earlier optimizer of the step got the global step too.

  Branches of tf.cond have graphs of their own: there, only one of two optimizers counts.
  """
  counted, here = _mode.get().counted, (v1.get_default_graph(), store_run.replica_number())
  if here in counted:
    notices.warn_once(
      "The model_fn passes global_step to two optimizers. In TensorFlow each of them adds 1, so "
      "max_steps=1000 means 500 steps there, and schedules by the global step run twice as fast. "
      "Octet adds 1 for each step and trains 1000. To train as TensorFlow does, pass global_step "
      "to one optimizer, and halve max_steps, steps and the numbers of the schedules."
    )
  counted.add(here)


@patches.replaces(v1.train.Optimizer, "__getattribute__", inside=_mode)
def _attribute(original, optimizer, name):
  """Wraps a subclass's own `apply_gradients` when a program looks it up on an optimizer.

  The subclasses are the user's and may appear at any time, so Octet cannot patch them. A call by
  `super()` does not look the attribute up on the optimizer, so the base class's method gets the
  gradients of the subclass.
  """
  found = original(optimizer, name)
  if name != "apply_gradients":
    return found
  has_own = type(optimizer).apply_gradients is not v1.train.Optimizer.apply_gradients
  return functools.partial(_apply_own, optimizer, found) if has_own else found


def _apply_own(optimizer, apply_gradients, grads_and_vars, *args, **kwargs):
  if is_idle():
    return tf.no_op()
  replaced_rates.replace(optimizer)
  pairs = grads_and_vars if _combined.get() else _combined_pairs(grads_and_vars)
  with combined_scope(), variable_creation.changed_alike_scope():
    return apply_gradients(pairs, *args, **kwargs)


def _combined_pairs(grads_and_vars):
  """Combines the gradients in (gradient, variable) pairs."""
  gradients, trained = zip(*grads_and_vars, strict=True)
  trace = _training()
  # Do not sum combined gradients again.
  again = trace is not None and any(id(variable) in trace.variables for variable in trained)
  op = tf.distribute.ReduceOp.MEAN if again else _reduction()
  return list(zip(combine(gradients, op), trained, strict=True))


def _reduction() -> tf.distribute.ReduceOp:
  """Returns the reduction of gradients.

  A mean, because a loss is the mean over a replica's batch. A sum if the newest loss of
  `tf.compat.v1.losses` is a sum: TensorFlow's own rule.
  """
  is_sum = tensorflow_internals.newest_loss_is_sum(store_run.replica_graph())
  if is_sum:
    global_means.refuse_sum()
  return tf.distribute.ReduceOp.SUM if is_sum else tf.distribute.ReduceOp.MEAN


def record_learning_rate(optimizer: Any) -> None:
  """Records the learning rate of an optimizer for the log, if it has one."""
  rate = getattr(optimizer, "learning_rate", None)
  for name in ("_learning_rate", "_lr"):  # the names in optimizers of tf.compat.v1.train
    rate = getattr(optimizer, name, None) if rate is None else rate
  if rate is not None:
    summaries.record("learning_rate", tf.convert_to_tensor(rate() if callable(rate) else rate))
