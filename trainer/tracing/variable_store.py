"""Variables that are made once, by name, for a model_fn that is traced many times.

A model_fn makes its layers and variables each time it is called; it is called for every replica and
mode, and again when a shape changes. Under `VariableStore.run`, every way of making a variable (a
Keras layer, optimizer or metric, `tf.Module`, `tf.Variable`, `tf.compat.v1.get_variable`) asks the
store: the first trace that wants a name makes the variable, outside the graph being traced and
inside the strategy's scope, and every later trace gets it back. Names are those that the code gives
(`conv2d_1/kernel`); they are the keys of checkpoints.

    store = VariableStore(strategy)
    tf.function(lambda batch: store.run(model_fn, (batch,), step))(batch)
    store.variables["dense/kernel"]
"""

import collections
import contextlib
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, patches, tensorflow_internals
from trainer.tracing import (
  assignments,
  graph_collections,
  initial_values,
  keras_scope,
  variable_ops,
)

v1 = tf.compat.v1

_running = threading.local()

# Which variables a function may change: see VariableStore.run.
ANY, LOCAL, NOTHING = "any", "local", "nothing"

# Whether the variables that are made are changed alike on all replicas.
_changed_alike = contextvars.ContextVar("variables are changed alike", default=False)

# The store whose `run` this thread is in, on a replica or between the replicas, or None.
_current = contextvars.ContextVar("current store", default=None)

# The graph in which this replica is traced.
_graph = contextvars.ContextVar("graph of this replica", default=None)


class VariableStore:
  """Variables by name.

  Args:
    strategy: the tf.distribute.Strategy on whose replicas the functions run.
    precision: the Keras dtype policy that layers are made under.
    seed: int; the initial value of each variable comes from it and from the variable's name.
    on_cpu: whether the replicas are CPUs, for which `trainer.tracing.cpu_kernels` are.

  Attributes:
    variables: dict of name → tf.Variable, in the order of their making.
    initializers: what `tf.compat.v1.train.init_from_checkpoint` was asked for, in the order of the
      calls; see initial_checkpoints.
    averages: dict of the name of a variable → that of the variable whose moving average it is; see
      moving_averages.
  """

  def __init__(self, strategy, precision="float32", seed=0, on_cpu=False):
    self.strategy = strategy
    self.variables = {}
    self._precision = precision
    self._seed = seed
    self._on_cpu = on_cpu
    self._initial_values = {}
    self._keras_variables = {}  # the Keras object of the newest trace around a variable, by name
    self._names = _Names()  # of the newest run
    self._after_step = []  # for each replica of the newest run, a list of what it asked for
    self._present = {}  # the variables that the newest run has asked for so far
    self.initializers = []
    self.averages = {}
    # What is in no checkpoint: see scratch(); local variables, in which tf.compat.v1.metrics count;
    # and the state of Keras's seed generators, which nobody reads.
    self._scratch = {}

  def run(self, fn, args, step, global_step=None, may_change=ANY, goes_on=False):
    """`strategy.run(fn, args)` with this store's variables.

    Called while a tf.function is being traced.

    Args:
      fn: called once per replica.
      args: tuple of (nests of) per-replica values.
      step: int64 scalar tensor, the step that random numbers are for.
      global_step: the variable that `tf.compat.v1.train.get_global_step()` returns inside, or None.
        What changes it is left out.
      may_change: ANY variable, or only LOCAL ones, in which metrics count, or NOTHING. What changes
        others is left out.
      goes_on: whether this belongs to the step of the last run, so that variables of the same name
        are others.

    Returns:
      Per-replica values of what fn returns.

    Raises:
      errors.ModelFnError: fn makes a variable with a shape or dtype other than an earlier trace
        gave it.
    """
    keras_state = keras_scope.KerasScope(self._precision, self._seed, step, self._on_cpu)
    names = self._names if goes_on else _Names()
    self._names = names
    roots = []
    self._after_step = []
    self._present = {}

    def replica_fn(*args):
      with (
        keras_state.replica_scope(),
        own_collections.replica_scope(),
        tf.name_scope("model_fn") as root,
        tf.variable_creator_scope(collect),
        patches.set_context(_graph, v1.get_default_graph()),
      ):
        roots.append(root)
        self._after_step.append(after_step := [])
        _running.after_step = after_step
        return fn(*args)

    def creator(next_creator, **kwargs):
      # A mirrored strategy calls this for its first replica, and hands that variable to the others.
      maker = keras_state.variable_being_made
      path = maker.path if maker is not None else _path(kwargs["name"], roots[0])
      variable = self._get(next_creator, names.unique(path), maker, kwargs)
      own_collections.add_variable(variable, _collections(variable, kwargs))
      return variable

    def collect(next_creator, **kwargs):
      # This is called on every replica. On those after the first, next_creator is the strategy's,
      # which hands over the first one's variable.
      variable = next_creator(**kwargs)
      own_collections.add_variable(variable, _collections(variable, kwargs))
      return variable

    def is_left_out(handle):
      if may_change == ANY:  # but the step, which the loop counts
        return global_step is not None and _is_handle(handle, [global_step])
      return may_change == NOTHING or not _is_handle(handle, self._scratch.values())

    # Else those of stateful operations come from what the process last drew numbers for.
    v1.get_default_graph().seed = self._seed
    with (
      self._as_current(),
      keras_state.trace_scope(),
      graph_collections.replace(global_step) as own_collections,
      assignments.leave_out(is_left_out),
    ):
      with self.strategy.scope(), tf.variable_creator_scope(creator):
        return self.strategy.run(patches.keep_context(replica_fn), args)

  @contextlib.contextmanager
  def as_current(self) -> Iterator[None]:
    """Inside, what asks for the variables of a run, as init_from_checkpoint does, finds all of
    this store's.
    """
    self._present = dict(self.variables)
    with self._as_current():
      yield

  @contextlib.contextmanager
  def _as_current(self):
    with patches.set_context(_current, self), variable_ops.provide():
      yield

  def present(self) -> dict[str, tf.Variable]:
    """By name, the variables that the newest `run` has asked for so far."""
    return dict(self._present)

  def note_initializer(self, initializer: Any) -> None:
    """Adds to `initializers`; a later trace asks for the same again."""
    if initializer not in self.initializers:
      self.initializers.append(initializer)

  def after_step(self, fn, every):
    """Asks for fn to be called, by a later `run`, on this replica after every so many steps: what
    is under a condition cannot be in the step itself, where a strategy would have to meet the other
    replicas inside a branch. Called in `run`.
    """
    _running.after_step.append((fn, every))

  def take_after_step(self):
    """[(fn, every)] of what the last `run` asked for by `after_step`; fn is for another `run`,
    on whose replicas it calls each one's own.
    """
    taken, self._after_step = self._after_step, []

    def call(index):
      of_replicas = iter(taken)  # a strategy traces its replicas in their order

      def on_replica():
        fn, _ = next(of_replicas)[index]
        fn()

      return on_replica

    return [(call(index), every) for index, (_, every) in enumerate(taken[0])]

  def trainable_variables(self):
    """The trainable ones, as Keras variables where Keras made them, so that `layer.trainable =
    False` counts.
    """
    variables = [
      self._keras_variables.get(name, variable) for name, variable in self.variables.items()
    ]
    return [variable for variable in variables if variable.trainable]

  def local_variables(self):
    """Those that the model's functions use and that are in no checkpoint."""
    return list(self._scratch.values())

  def snapshot(self):
    """dict of name → tensor, the values to save.

    Statistics that each replica has of its own become their mean, on the replicas too.

    What is evaluated, saved and restored is then one and the same, and a run that goes on is to the
    bit the one that starts again.
    """
    values = {name: variable.read_value() for name, variable in self.variables.items()}
    for name, variable in self.variables.items():
      if variable.synchronization == tf.VariableSynchronization.ON_READ:
        variable.assign(values[name])
    return values

  def scratch(self, name):
    """A float32 scalar variable of each replica's own that is no part of the model; read from
    outside, it is their mean. Called in `run`.
    """
    _running.scratch = True
    try:
      return tf.Variable(
        0.0,
        trainable=False,
        name=name,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.MEAN,
      )
    finally:
      _running.scratch = False

  def reset(self):
    """Gives each variable its initial value."""
    for name, value in self._initial_values.items():
      for home in (self.variables, self._scratch):
        if name in home:
          home[name].assign(value())

  def _get(self, next_creator, name, maker, kwargs):
    scratch = (
      getattr(_running, "scratch", False)
      or name.endswith("seed_generator_state")
      or v1.GraphKeys.LOCAL_VARIABLES in (kwargs.get("collections") or ())
    )
    home = self._scratch if scratch else self.variables
    if name in home:
      _check_same(home[name], name, maker, kwargs)
    else:
      home[name] = self._create(next_creator, name, kwargs)
    variable = home[name]
    if home is self.variables:
      self._present[name] = variable
    if maker is not None and home is self.variables:
      self._keras_variables[name] = maker
    return variable

  def _create(self, next_creator, name, kwargs):
    initial_value = initial_values.InitialValue(kwargs["initial_value"], name, self._seed)
    # The variable is the store's: it is in no collection of the graph, and tf.function must not
    # lift its initializer.
    kwargs = dict(
      kwargs,
      name=name,
      initial_value=initial_value.for_tensorflow(),
      collections=None,
      experimental_enable_variable_lifting=False,
    )
    if _is_statistic(kwargs):
      kwargs.update(
        synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN
      )
    with tf.init_scope(), tf.name_scope(""):
      variable = next_creator(**kwargs)
    self._initial_values[name] = initial_value
    return variable


class _Names:
  """The names of the variables of one trace of a step."""

  def __init__(self):
    self._asked_for = collections.Counter()
    self._taken = set()

  def unique(self, name):
    """`name` where it is first asked for, then `name_1`, `name_2`: the same in each trace."""
    found = name
    while found in self._taken:
      self._asked_for[name] += 1
      found = f"{name}_{self._asked_for[name]}"
    self._taken.add(found)
    return found


def _is_handle(handle, variables):
  """Whether a handle is that of one of the variables."""
  return any(
    handle is own for variable in variables for own in tensorflow_internals.handles(variable)
  )


def replica_graph() -> tf.Graph | None:
  """The graph in which this replica is traced: not that of a branch or a function in it."""
  return _graph.get()


def changed_alike_scope() -> contextlib.AbstractContextManager[None]:
  """Inside, variables are made that all replicas change alike, as an optimizer does its slots."""
  return patches.set_context(_changed_alike, True)


def current():
  """The store of the function that is being traced under `VariableStore.run`, or None."""
  return _current.get()


def is_traced_here() -> bool:
  """Whether what is made here is made for a store's `run`: not so in a graph that a model_fn
  makes for itself.
  """
  return current() is not None and v1.get_default_graph().building_function


def _path(name, root):
  scope = (tf.get_current_name_scope() + "/").removeprefix(root)
  return (scope + (name or "Variable")).strip("/")


def _is_statistic(kwargs):
  """Batch norm's moving averages and the like: each replica keeps its own, and what is read
  from outside, as for a checkpoint, is their mean.
  """
  auto = (None, tf.VariableSynchronization.AUTO)
  none = (None, tf.VariableAggregation.NONE)
  return (
    not _changed_alike.get()
    and kwargs.get("trainable") is False
    and kwargs.get("colocate_with") is None  # which an optimizer's slots have
    and kwargs.get("dtype")
    and tf.as_dtype(kwargs["dtype"]).is_floating
    and kwargs.get("synchronization") in auto
    and kwargs.get("aggregation") in none
  )


def _collections(variable, kwargs):
  keys = list(kwargs.get("collections") or [v1.GraphKeys.GLOBAL_VARIABLES])
  if variable.trainable:
    keys.append(v1.GraphKeys.TRAINABLE_VARIABLES)
  return keys


def _check_same(variable, name, maker, kwargs):
  """A variable that is handed back must be what this trace would have made."""
  value = kwargs["initial_value"]
  if maker is not None and keras_internals.shape_of(maker) is not None:
    shape, dtype = keras_internals.shape_of(maker), kwargs["dtype"]
  else:
    with tensorflow_internals.scratch_graph().as_default(), keras_scope.initial_value_scope(seed=0):
      value = (
        tf.convert_to_tensor(value() if callable(value) else value)
        if not tf.is_tensor(value)
        else value
      )
    shape, dtype = value.shape, kwargs.get("dtype") or value.dtype
  shape, dtype = tf.TensorShape(shape), tf.as_dtype(dtype).base_dtype
  if (shape, dtype) != (variable.shape, variable.dtype.base_dtype):
    raise errors.ModelFnError(
      f"model_fn makes the variable {name} with shape {shape} and dtype {dtype.name}, and made "
      f"it with shape {variable.shape} and dtype "
      f"{variable.dtype.base_dtype.name} before: a name has to mean one variable in every mode."
    )
