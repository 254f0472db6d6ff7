"""What optimizers do inside a model_fn: they apply the mean of the replicas' gradients, or nothing.

However an optimizer of Keras or of `tf.compat.v1` is called, gradients are combined when they reach
its `apply_gradients`, once, before the optimizer does anything with them. So does the
`apply_gradients` that a subclass of `tf.compat.v1.train.Optimizer` has of its own (AdamWeightDecay,
LARS) get combined gradients, and all replicas make the same step.

    with combined_gradients.training_scope():  # or idle_scope(), where nothing is trained
      ... trace a model_fn ...
"""

import contextlib
import contextvars
import functools

import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, patches, tensorflow_internals
from trainer.reporting import summaries
from trainer.tracing import variable_store

v1 = tf.compat.v1

# What optimizers do: as ever (None, outside of a model_fn), nothing, or apply combined gradients.
_IDLE, _TRAINING = "idle", "training"
_mode = contextvars.ContextVar("mode of optimizers", default=None)

# Whether the gradients that reach an optimizer are combined already.
_combined = contextvars.ContextVar("gradients are combined", default=False)


def idle_scope() -> contextlib.AbstractContextManager[None]:
  """Inside, no optimizer does anything: a model_fn may make its train_op in every mode."""
  return patches.set_context(_mode, _IDLE)


def training_scope() -> contextlib.AbstractContextManager[None]:
  """Inside, optimizers apply the mean over the replicas; entered once around a trace."""
  return patches.set_context(_mode, _TRAINING)


def is_idle() -> bool:
  """Whether optimizers do nothing here."""
  return _mode.get() == _IDLE


def combined_scope() -> contextlib.AbstractContextManager[None]:
  """Inside, the gradients that optimizers are given are combined already."""
  return patches.set_context(_combined, True)


def combine(gradients, op=tf.distribute.ReduceOp.MEAN):
  """[each gradient, combined over the replicas]; None stays None.

  Args:
    gradients: tensors or tf.IndexedSlices, and None.
    op: how, a tf.distribute.ReduceOp.

  Raises:
    ModelFnError: they were computed under tf.cond or in a tf.function, where replicas cannot meet.
  """
  context = tf.distribute.get_replica_context()
  if context.num_replicas_in_sync == 1:
    return list(gradients)
  present = [gradient for gradient in gradients if gradient is not None]
  graph = variable_store.replica_graph()
  if any(getattr(gradient, "graph", graph) is not graph for gradient in present):
    raise errors.ModelFnError(
      "Gradients that are computed under tf.cond or in a tf.function cannot be combined over "
      "several "
      "cores: compute them before it (optimizer.compute_gradients), and only apply them inside."
    )
  # So that an optimizer under tf.cond gets what was combined outside of it.
  with graph.as_default():
    combined = iter(context.all_reduce(op, present))
  return [None if gradient is None else next(combined) for gradient in gradients]


@patches.replaces(*keras_internals.APPLY)
def _apply(original, optimizer, grads, trainable_variables=None):
  if is_idle():
    return tf.no_op()
  if _mode.get() == _TRAINING and not _combined.get():
    record_learning_rate(optimizer)
    grads = combine(grads)
  return original(optimizer, grads, trainable_variables)


@patches.replaces(*keras_internals.SUM_GRADIENTS)
def _sum_gradients(original, optimizer, grads_and_vars):
  """Those of Keras would sum over the replicas what is combined already."""
  return list(grads_and_vars) if _mode.get() == _TRAINING else original(optimizer, grads_and_vars)


@patches.replaces(v1.train.Optimizer, "minimize")
def _minimize(original, *args, **kwargs):
  return tf.no_op() if is_idle() else original(*args, **kwargs)


@patches.replaces(v1.train.Optimizer, "compute_gradients")
def _compute_gradients(original, optimizer, loss, *args, **kwargs):
  if _mode.get() is None or not tf.is_tensor(loss) or loss.graph is v1.get_default_graph():
    return original(optimizer, loss, *args, **kwargs)
  # Under tf.cond TensorFlow finds no way back to a loss outside of it.
  with loss.graph.as_default():
    return original(optimizer, loss, *args, **kwargs)


@patches.replaces(v1.train.Optimizer, "apply_gradients")
def _apply_gradients(
  original, optimizer, grads_and_vars, global_step=None, name=None, skip_gradients_aggregation=False
):
  if _mode.get() is None or tf.distribute.in_cross_replica_context():
    return original(optimizer, grads_and_vars, global_step, name, skip_gradients_aggregation)
  if is_idle():
    return tf.no_op()
  if not (_combined.get() or skip_gradients_aggregation):
    grads_and_vars = _combined_pairs(grads_and_vars)
  # Each replica for itself, since under tf.cond they cannot meet; no global step: the loop counts.
  return original(optimizer, grads_and_vars, None, name, skip_gradients_aggregation=True)


@patches.replaces(v1.train.Optimizer, "__getattribute__")
def _attribute(original, optimizer, name):
  """A subclass's own `apply_gradients` comes from here: it may be of any class, made at any time.

  What it calls by `super()` does not, and gets its gradients as it gives them.
  """
  found = original(optimizer, name)
  if name != "apply_gradients" or _mode.get() is None:
    return found
  has_own = type(optimizer).apply_gradients is not v1.train.Optimizer.apply_gradients
  return functools.partial(_apply_own, found) if has_own else found


def _apply_own(apply_gradients, grads_and_vars, *args, **kwargs):
  if is_idle():
    return tf.no_op()
  pairs = grads_and_vars if _combined.get() else _combined_pairs(grads_and_vars)
  with combined_scope(), variable_store.changed_alike_scope():
    return apply_gradients(pairs, *args, **kwargs)


def _combined_pairs(grads_and_vars):
  """[(gradient, variable)], combined: to a mean, as losses are means over a replica's batch.

  To a sum where the newest loss of `tf.compat.v1.losses` is one, as TensorFlow has it.
  """
  gradients, trained = zip(*grads_and_vars, strict=True)
  is_sum = tensorflow_internals.newest_loss_is_sum(variable_store.replica_graph())
  op = tf.distribute.ReduceOp.SUM if is_sum else tf.distribute.ReduceOp.MEAN
  return list(zip(combine(gradients, op), trained, strict=True))


def record_learning_rate(optimizer) -> None:
  """Leaves an optimizer's learning rate behind for the log, where it has one."""
  rate = getattr(optimizer, "learning_rate", None)
  for name in ("_learning_rate", "_lr"):  # as tf.compat.v1.train has it
    rate = getattr(optimizer, name, None) if rate is None else rate
  if rate is not None:
    summaries.record("learning_rate", tf.convert_to_tensor(rate() if callable(rate) else rate))
