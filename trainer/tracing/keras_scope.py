"""What Keras needs while a model_fn is traced: names that start anew, the precision, random numbers
by seed, step and replica, and fast kernels.

Keras numbers its layers, and keeps its dtype policy and its seed generators, in state of the
process. A model_fn is traced many times, so each trace gets a state of its own.
"""

import contextlib
import contextvars
import weakref

import keras
import tensorflow as tf

from trainer.internals import keras_internals, patches
from trainer.tracing import cpu_kernels, seeds

# The seeds of a generator that is used twice in a step are this far apart: 2**32 divided by the
# golden ratio, which spreads any number of uses.
_STRIDE = 0x9E3779B9

# The KerasScope of the trace that this thread is in, or None.
_scope = contextvars.ContextVar("Keras scope", default=None)

# The _Drawn of the replica that is being traced, and of the initial value that is being made.
_replica_drawn = contextvars.ContextVar("seeds that this replica drew", default=None)
_value_drawn = contextvars.ContextVar("seeds that this initial value drew", default=None)


class _Drawn:
  """Seeds by the order in which they are asked for, where Keras would take them from Python's
  `random`.
  """

  def __init__(self, seed):
    self._seed = seed
    self.seeds = []

  def next(self):
    self.seeds.append(seeds.seed_for(self._seed, f"draw {len(self.seeds)}"))
    return self.seeds[-1]


def initial_value_scope(seed: int) -> contextlib.AbstractContextManager[None]:
  """Inside, what Keras draws comes from this seed: for the first value of a variable."""
  return patches.set_context(_value_drawn, _Drawn(seed))


def seeds_drawn() -> list[int]:
  """Seeds of the initializers that were made on this replica so far, and given none."""
  drawn = _replica_drawn.get()
  return drawn.seeds if drawn else []


class KerasScope:
  """Keras's state for one trace.

  Enter `trace_scope()` once around the trace, and `replica_scope()` on each replica inside it.

  Args:
    precision: the dtype policy of the layers, such as "float32" or "mixed_bfloat16".
    seed: int, the run's seed.
    step: int64 scalar tensor, the step that the random numbers are for.
    on_cpu: whether what is traced runs on CPUs alone, and is to use `trainer.tracing.cpu_kernels`.
  """

  def __init__(self, precision, seed, step, on_cpu=False):
    self._policy = keras.dtype_policies.get(precision)
    self._seed = seed
    self._step = step
    self._on_cpu = on_cpu
    self._making = []
    self._uses = weakref.WeakKeyDictionary()

  @property
  def variable_being_made(self):
    """The Keras variable whose tf.Variable is being created, or None: a creator of tf.Variables
    hears only the last part of its path.
    """
    return self._making[-1] if self._making else None

  @contextlib.contextmanager
  def trace_scope(self):
    with (
      patches.set_context(_scope, self),
      cpu_kernels.use() if self._on_cpu else contextlib.nullcontext(),
    ):
      yield

  @contextlib.contextmanager
  def replica_scope(self):
    """Names start anew.

    The state is per thread, and a strategy may trace each replica in a thread of its own.
    """
    fresh = dict(
      object_name_uids=None,
      name_scope_stack=None,
      global_seed_generator=None,
      dtype_policy=self._policy,
    )
    with (
      keras_internals.global_state(fresh),
      patches.set_context(_replica_drawn, _Drawn(self._seed)),
    ):
      yield

  @contextlib.contextmanager
  def creation_scope(self, variable):
    """Inside, the tf.Variable of this Keras variable is created."""
    self._making.append(variable)
    try:
      yield
    finally:
      self._making.pop()

  def with_seed(self, variable, initializer):
    """An initializer that nobody gave a seed gets one by the name of its variable; Keras would
    draw it from Python's `random`.
    """
    if not keras_internals.lacks_seed(initializer):
      return initializer
    seeded = initializer.clone()
    seeded.seed = seeds.seed_for(self._seed, variable.path)
    return seeded

  def next_seed(self, generator):
    """In place of SeedGenerator.next, whose state is a variable and the same on all replicas: a
    seed by step and replica needs no memory.

    Returns:
      int32 [2]: one number for the generator and its use in this step, one for the step and the
      replica.
    """
    context = tf.distribute.get_replica_context()
    use = self._uses.get(generator, 0)
    self._uses[generator] = use + 1
    first = keras_internals.initial_seed(generator)
    if first is None:
      first = seeds.seed_for(self._seed, generator.state.path)
    first = (first + use * _STRIDE) % tf.int32.max
    second = tf.cast(self._step, tf.int64) * context.num_replicas_in_sync + tf.cast(
      context.replica_id_in_sync_group, tf.int64
    )
    return tf.stack([tf.constant(first, tf.int32), tf.cast(second % tf.int32.max, tf.int32)])


@patches.replaces(*keras_internals.INITIALIZE)
def _initialize(original, variable, value):
  scope = _scope.get()
  with scope.creation_scope(variable) if scope else contextlib.nullcontext():
    return original(variable, value)


@patches.replaces(*keras_internals.INITIALIZE_WITH_INITIALIZER)
def _initialize_with_initializer(original, variable, initializer):
  scope = _scope.get()
  if scope is None:
    return original(variable, initializer)
  with scope.creation_scope(variable):  # which Keras does without `_initialize` before 3.7
    return original(variable, scope.with_seed(variable, initializer))


@patches.replaces(*keras_internals.NEXT_SEED)
def _next_seed(original, generator, ordered=True):
  if _value_drawn.get():
    return tf.constant([_value_drawn.get().next(), 0], tf.int32)
  scope = _scope.get()
  return scope.next_seed(generator) if scope else original(generator, ordered)


@patches.replaces(*keras_internals.DEFAULT_SEED)
def _default_seed(original):
  drawn = _value_drawn.get() or _replica_drawn.get()
  return drawn.next() if drawn else original()


# Keras's losses divide by the number of replicas, for gradients that are summed; here they are
# averaged. Before 3.8 they do not.
if keras_internals.SCALE_LOSS:

  @patches.replaces(*keras_internals.SCALE_LOSS)
  def _scale_loss(original, value):
    return value if _scope.get() else original(value)
