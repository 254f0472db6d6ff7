"""Gives each trace of a model_fn its own Keras global state.

Keras keeps its layer counters ("dense", "dense_1"), its dtype policy and its seed generator in
process-wide state. Octet traces a model_fn many times, and every trace must get the same names. So
each trace starts with fresh counters, the run's precision, random numbers that follow from seed,
step and replica, and, if wanted, the fast kernels for CPUs.
"""

import contextlib
import contextvars
import copy
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, patches
from trainer.tracing import cpu_kernels, seeds

# Distance between the seeds of two uses of one generator in a step: 2**32 divided by the golden
# ratio, which spreads any number of uses evenly.
_STRIDE = 0x9E3779B9

# The KerasScope of the trace that this context is in, or None.
_scope = contextvars.ContextVar("Keras scope", default=None)

# The step of the traced loop inside the replicas; None: the KerasScope's step.
_step: contextvars.ContextVar[tf.Tensor | None] = contextvars.ContextVar(
  "step inside the replicas", default=None
)

# The rule for the names of Keras's variables, see `named_by`.
_Rule = Callable[[keras.Variable], tuple[str, str] | None]
_rule: contextvars.ContextVar[_Rule | None] = contextvars.ContextVar(
  "rule for the names of Keras variables", default=None
)

# Without a seed, Keras draws one from Python's `random`, another one in each process: no run would
# be repeatable. Seeds for Keras objects without their own: on the current replica, and for the
# initial value in progress. The second one wins.
_replica_drawn = contextvars.ContextVar("seeds that this replica drew", default=None)
_value_drawn = contextvars.ContextVar("seeds that this initial value drew", default=None)


# generator → its uses, during another trace of a part of a replica; None: the KerasScope's uses.
_uses_again: contextvars.ContextVar[weakref.WeakKeyDictionary | None] = contextvars.ContextVar(
  "uses of generators in what is traced again", default=None
)


class _Drawn:
  """Returns one seed after another. Keras would draw these seeds from Python's `random`."""

  def __init__(self, seed):
    self._seed = seed
    self.seeds = []

  # Each draw gets a seed of its own from a count, so the n-th draw is the same in every trace.
  def next(self):
    self.seeds.append(seeds.seed_for(self._seed, f"draw {len(self.seeds)}"))
    return self.seeds[-1]

  def copy(self):
    drawn = _Drawn(self._seed)
    drawn.seeds = list(self.seeds)
    return drawn


def initial_value_scope(seed: int) -> contextlib.AbstractContextManager[None]:
  """Returns a context in which Keras's random numbers follow from a seed.

  For computing the initial value of a variable.
  """
  return patches.set_context(_value_drawn, _Drawn(seed))


def step_scope(step: tf.Tensor) -> contextlib.AbstractContextManager[None]:
  """Returns a context in which Keras's random numbers follow from a step.

  For a loop inside the replicas: the step of the KerasScope belongs to the graph around the loop.
  """
  return patches.set_context(_step, step)


def named_by(rule: _Rule) -> contextlib.AbstractContextManager[None]:
  """Returns a context in which a rule names Keras's variables.

  Args:
    rule: function of a variable during its creation. It returns `names` of the variable, or None if
      the variable's path is its name.
  """
  return patches.set_context(_rule, rule)


def names(variable: keras.Variable) -> tuple[str, str]:
  """Returns the name of a Keras variable in creation, and its name without any rule."""
  rule = _rule.get()
  return (rule(variable) if rule is not None else None) or (variable.path, variable.path)


def seeds_drawn() -> list[int]:
  """Returns the seeds given to Keras objects without a seed on this replica so far."""
  drawn = _replica_drawn.get()
  return drawn.seeds if drawn else []


class KerasScope:
  """Keras's state for one trace.

  Enter `trace_scope()` once around the trace, and `replica_scope()` on each replica inside it.

  Args:
    precision: the layers' dtype policy, such as "float32" or "mixed_bfloat16".
    seed: the run's seed.
    step: int64 scalar tensor: the training step, which random numbers depend on.
    uses_cpu_kernels: whether layers and optimizers use `trainer.tracing.cpu_kernels`. Only for
      functions that run on CPUs.
    before: the scope of the trace that this one continues, or None.
  """

  def __init__(
    self,
    precision: str,
    seed: int,
    step: tf.Tensor,
    uses_cpu_kernels: bool = False,
    before: "KerasScope | None" = None,
  ) -> None:
    self._policy = keras.dtype_policies.get(precision)
    self.seed = seed
    self._step = step
    self._uses_cpu_kernels = uses_cpu_kernels
    self._in_creation: list[keras.Variable] = []
    # generator → its uses on this replica so far. Weak: a model_fn makes new generators each time.
    self._uses: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
    # Layers and optimizers of this trace, by id. The dict keeps them alive: Python would give the
    # id of a deleted object to a new one.
    self._made: dict[int, Any] = {} if before is None else before._made

  @property
  def variable_being_made(self) -> keras.Variable | None:
    """The Keras variable in the creation of its tf.Variable, or None.

    A variable creator gets only the last part of the variable's path ("kernel"). The Keras variable
    knows all of it ("dense/kernel").
    """
    return self._in_creation[-1] if self._in_creation else None

  @contextlib.contextmanager
  def trace_scope(self) -> Iterator[None]:
    """Applies this state to Keras while the context is open."""
    with (
      patches.set_context(_scope, self),
      cpu_kernels.use() if self._uses_cpu_kernels else contextlib.nullcontext(),
    ):
      yield

  @contextlib.contextmanager
  def replica_scope(self) -> Iterator[None]:
    """Starts names and seeds afresh while the context is open.

    Enter it on each replica: Keras keeps this state per thread, and a strategy may trace each
    replica in its own thread.
    """
    # Keras creates the counters, scopes and generator again at their first use. With a global
    # generator from an earlier trace, a graph would hold a tensor of another graph.
    fresh = dict(
      object_name_uids=None,
      name_scope_stack=None,
      global_seed_generator=None,
      dtype_policy=self._policy,
    )
    with (
      keras_internals.global_state(fresh),
      patches.set_context(_replica_drawn, _Drawn(self.seed)),
    ):
      yield

  def as_now(self) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Returns a function that makes contexts with the current names and seeds of this replica.

    Rematerialization (`tf.recompute_grad`, `keras.RematScope`) traces a part of a model twice. The
    second trace must draw the same random numbers and find the same variables as the first.
    """
    again = _uses_again.get()
    uses = (self._uses if again is None else again).copy()
    drawing: Any = _replica_drawn.get()  # never None on a replica
    drawn = drawing.copy()
    state = keras_internals.copied_global_state("object_name_uids", "name_scope_stack")

    @contextlib.contextmanager
    def as_now():
      # Copy again: Octet may trace a part more than twice, and each trace counts on in its copy.
      with (
        keras_internals.global_state({key: copy.copy(value) for key, value in state.items()}),
        patches.set_context(_replica_drawn, drawn.copy()),
        patches.set_context(_uses_again, uses.copy()),
      ):
        yield

    return as_now

  def add(self, made: Any) -> None:
    """Records a layer or an optimizer that this trace makes."""
    self._made[id(made)] = made

  def made_before(self) -> Any:
    """Returns the layer or optimizer in construction that an earlier trace made, or None.

    For nested layers, returns the outermost one.
    """
    kinds = keras.layers.Layer, keras.optimizers.Optimizer
    building = [each for each in keras_internals.being_built() if isinstance(each, kinds)]
    return next((each for each in building if id(each) not in self._made), None)

  @contextlib.contextmanager
  def creation_scope(self, variable: keras.Variable) -> Iterator[None]:
    """Sets `variable_being_made` while Keras creates the variable's tf.Variable."""
    self._in_creation.append(variable)
    try:
      yield
    finally:
      self._in_creation.pop()

  def with_seed(self, variable: keras.Variable, initializer: Any) -> Any:
    """Returns an initializer whose seed follows from the name of its variable.

    Keras would draw the seed from Python's `random`. An initializer with a seed keeps it.
    """
    if not keras_internals.lacks_seed(initializer):
      return initializer
    # A copy, because layers may share one initializer: its seed would give them equal weights.
    seeded = initializer.clone()
    seeded.seed = seeds.seed_for(self.seed, names(variable)[0])
    return seeded

  def next_seed(self, generator: keras.random.SeedGenerator) -> tf.Tensor:
    """Computes the next seed of a generator from the step and the replica.

    Replaces SeedGenerator.next, which counts in a variable. The variable has the same value on all
    replicas, and a checkpoint would have to save it. A seed that follows from the step needs no
    state.

    Returns:
      int32 [2]: one number for the generator and its use in this step, and one for the step and the
      replica.
    """
    context = tf.distribute.get_replica_context()
    again = _uses_again.get()
    uses = self._uses if again is None else again
    use = uses.get(generator, 0)
    uses[generator] = use + 1
    # This part is the same on all replicas: the generator, and its count of uses in the step.
    first = keras_internals.initial_seed(generator)
    if first is None:
      first = seeds.seed_for(self.seed, generator.state.path)
    first = (first + use * _STRIDE) % tf.int32.max
    # The part that differs: no two replicas and no two steps share a number. Keras's seeds are
    # int32.
    inner = _step.get()
    step = self._step if inner is None else inner
    second = tf.cast(step, tf.int64) * context.num_replicas_in_sync + tf.cast(
      context.replica_id_in_sync_group, tf.int64
    )
    return tf.stack([tf.constant(first, tf.int32), tf.cast(second % tf.int32.max, tf.int32)])


@patches.replaces(*keras_internals.INITIALIZE, inside=_scope)
def _initialize(original, variable, value):
  with _scope.get().creation_scope(variable):
    return original(variable, value)


@patches.replaces(*keras_internals.INITIALIZE_WITH_INITIALIZER, inside=_scope)
def _initialize_with_initializer(original, variable, initializer):
  scope = _scope.get()
  # Before 3.7 Keras creates the tf.Variable here and does not call `_initialize`.
  with scope.creation_scope(variable):
    return original(variable, scope.with_seed(variable, initializer))


@patches.replaces(*keras_internals.MAKE_OPERATION, inside=_scope)
def _make_operation(original, operation, *args, **kwargs):
  if isinstance(operation, keras.layers.Layer):
    _scope.get().add(operation)
  original(operation, *args, **kwargs)


@patches.replaces(*keras_internals.MAKE_OPTIMIZER, inside=_scope)
def _make_optimizer(original, optimizer, *args, **kwargs):
  """Names optimizers by the rule of Keras 3.15, under every version.

  The name is the class in snake case, numbered (`sgd`, `sgd_1`). Earlier versions give a class and
  its subclasses one name (`SGD`, `adamw`, `rmsprop`): the names in a checkpoint would depend on
  Keras's version.
  """
  _scope.get().add(optimizer)
  # Keras before 3.15 passes the default name as if the program had chosen it.
  if kwargs.get("name") == keras_internals.default_name(optimizer):
    kwargs["name"] = None
  original(optimizer, *args, **kwargs)


@patches.replaces(*keras_internals.NEXT_SEED)
def _next_seed(original, generator, ordered=True):
  # An initial value belongs to no step: its seed must not depend on the time of the computation.
  if _value_drawn.get():
    return tf.constant([_value_drawn.get().next(), 0], tf.int32)
  scope = _scope.get()
  return scope.next_seed(generator) if scope else original(generator, ordered)


@patches.replaces(*keras_internals.DEFAULT_SEED)
def _default_seed(original):
  drawn = _value_drawn.get() or _replica_drawn.get()
  return drawn.next() if drawn else original()


@patches.replaces(*keras_internals.GENERATOR_SEED, inside=_scope)
def _generator_seed(original):
  """Draws nothing, so that a generator's counter variable is the same in every export.

  `next_seed` does not use the counter.
  """
  return seeds.seed_for(_scope.get().seed, "seed generator")


for _kind in (
  keras.layers.Discretization,
  keras.layers.IntegerLookup,
  keras.layers.Normalization,
  keras.layers.StringLookup,
  keras.layers.TextVectorization,
):

  @patches.replaces(_kind, "adapt", inside=_scope)
  def _adapt(original, layer, *args, **kwargs):
    """Refuses to adapt in a graph: each step would read the data again, and tables cannot."""
    raise errors.ModelFnError(
      f"adapt of the layer {layer.name} ({type(layer).__name__}) would run in every step: adapt "
      "the layer once, outside of the model_fn or build_model, and use it in there."
    )


# Keras's losses divide by the number of replicas, because Keras sums the gradients of replicas.
# Octet averages them, so the division must not happen. Before 3.8 Keras does not divide.
if keras_internals.SCALE_LOSS:

  @patches.replaces(*keras_internals.SCALE_LOSS, inside=_scope)
  def _scale_loss(original, value):
    return value


@patches.replaces(*keras_internals.MOMENTS, inside=_scope)
def _synchronized_moments(original, layer, inputs, mask):
  """Adds the unmasked values over the replicas. Keras does so only without a mask."""
  context = tf.distribute.get_replica_context()
  if mask is None or not layer.synchronized or context.num_replicas_in_sync == 1:
    return original(layer, inputs, mask)
  is_real = tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(inputs))

  def totals(*values):
    axes = keras_internals.axes_of_moments(layer)
    own = [tf.reduce_sum(tf.where(is_real, each, 0), axes) for each in values]
    return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

  count, total = totals(tf.ones_like(inputs), inputs)
  mean = tf.math.divide_no_nan(total, count)
  shape = [
    size if axis == layer.axis % inputs.shape.rank else 1 for axis, size in enumerate(inputs.shape)
  ]
  (squares,) = totals(tf.math.squared_difference(inputs, tf.reshape(mean, shape)))
  return mean, tf.math.divide_no_nan(squares, count)
