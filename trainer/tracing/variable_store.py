"""Creates each variable once, by name, for a model_fn that is traced many times.

A model_fn creates its layers and variables on every call. It is called for every replica and every
mode, and again when a shape changes. Under `VariableStore.run` every way of creating a variable (a
Keras layer, optimizer or metric, `tf.Module`, `tf.Variable`, `tf.compat.v1.get_variable`) asks the
store. The first trace that asks for a name creates the variable, outside of the graph that is being
traced and inside the strategy's scope. Every later trace gets the same variable. The names come
from the code (`conv2d_1/kernel`). Checkpoints use them as keys.

    store = VariableStore(strategy)
    tf.function(lambda batch: store.run(model_fn, (batch,), step))(batch)
    store.variables["dense/kernel"]
"""

import collections
import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, patches, tensorflow_internals
from trainer.tracing import (
  assignments,
  fetched_operations,
  graph_collections,
  initial_values,
  keras_scope,
  outside_variables,
  variable_ops,
)

v1 = tf.compat.v1

# What the replica that this thread traces has asked for: `after_step` and `scratch`.
_running = threading.local()

# Which variables a function may change, see VariableStore.run.
ANY, LOCAL, NOTHING = "any", "local", "nothing"

# The end of the name of a Keras seed generator's state.
_SEED_STATE = "seed_generator_state"

# Whether every replica makes the same changes to the variables that are created now.
_changed_alike = contextvars.ContextVar("variables are changed alike", default=False)

# The store whose `run` this thread is in, on a replica or between the replicas, or None.
_current = contextvars.ContextVar("current store", default=None)

# The graph that the current replica is traced in.
_graph = contextvars.ContextVar("graph of this replica", default=None)


class VariableStore:
  """Variables by name.

  Args:
    strategy: the tf.distribute.Strategy whose replicas run the functions.
    precision: the Keras dtype policy of layers.
    seed: the run's seed. A variable's initial value follows from the seed and the variable's name.
    uses_cpu_kernels: whether Keras's layers and optimizers use `trainer.tracing.cpu_kernels`. Only
      for replicas that are CPUs.

  Attributes:
    variables: name → tf.Variable, in the order of creation. The keys of checkpoints.
    initializers: the calls of `tf.compat.v1.train.init_from_checkpoint`, in order; see
      `trainer.checkpoints.initial_checkpoints`.
    former_names: name of a variable → the name that it has in checkpoints that Octet wrote before
      there were rules for the names of Keras's variables (`keras_scope.named_by`), where these
      differ.
    averages: name of a moving average → name of the variable that it averages; see
      `trainer.checkpoints.moving_averages`.
    sessions: how often a hook's session has run operations, which may have assigned variables.
  """

  def __init__(
    self,
    strategy: tf.distribute.Strategy,
    precision: str = "float32",
    seed: int = 0,
    uses_cpu_kernels: bool = False,
  ) -> None:
    self.strategy = strategy
    self.variables: dict[str, tf.Variable] = {}
    self.initializers: list[Any] = []
    self.former_names: dict[str, str] = {}
    self.averages: dict[str, str] = {}
    self.sessions = 0
    self._precision = precision
    self._seed = seed
    self._uses_cpu_kernels = uses_cpu_kernels
    self._initial_values: dict[str, initial_values.InitialValue] = {}
    # The keras.Variable around a tf.Variable, as the newest trace made it, by name.
    self._keras_variables: dict[str, keras.Variable] = {}
    # Of the newest run: its names, and those without a rule for Keras's variables; the after_step
    # requests of each replica, and the variables that it has asked for so far.
    self._names = _Names(), _Names()
    self._keras_state: keras_scope.KerasScope | None = None  # of the newest run
    self._after_step: list[list[tuple[Callable[[], None], int]]] = []
    self._present: dict[str, tf.Variable] = {}
    # The operations that change variables, each with the variable's handle; None for a handle that
    # is not known.
    self._changed: list[tuple[tf.Operation, tf.Tensor | None]] = []
    # Variables that no checkpoint holds: those of scratch(), local variables (the counters of
    # tf.compat.v1.metrics), and the state of Keras's seed generators, which next_seed replaces.
    self._scratch: dict[str, tf.Variable] = {}

  def run(
    self,
    fn: Callable,
    args: tuple,
    step: tf.Tensor,
    global_step: tf.Variable | None = None,
    may_change: str = ANY,
    goes_on: bool = False,
    name: str = "model_fn",
    beside: "VariableStore | None" = None,
    loop: Callable[..., Any] | None = None,
  ) -> Any:
    """Runs `strategy.run(fn, args)` with this store's variables.

    Call it while a tf.function is being traced.

    Args:
      fn: called once per replica.
      args: (nests of) per-replica values.
      step: int64 scalar tensor: the training step, which random numbers depend on.
      global_step: the variable that `tf.compat.v1.train.get_global_step()` returns inside, or None.
        Assignments to it are left out: the training loop counts.
      may_change: which variables fn may change: ANY, only LOCAL ones (counters of metrics), or
        NOTHING. Assignments to other variables are left out.
      goes_on: whether fn continues the step of the last run. If so, a name that the last run has
        used gets a number (`w`, `w_1`), as a second use in one run does.
      name: what fn is part of, for messages.
      beside: another store, whose variables fn may use too.
      loop: what each replica runs in place of fn: `loop(one_step, *args)`. It traces
        `one_step(step, *args_of_fn)` inside a tf.while_loop, which calls fn at that step (int64
        scalar) and then, if they are due, the functions of `after_step`. A loop that waits for the
        other replicas works on a TPU and on one replica; the replicas of a MirroredStrategy cannot
        wait for each other in there.

    Returns:
      The per-replica values that fn returns.

    Raises:
      ModelFnError: fn creates a variable with another shape or dtype than an earlier trace, or uses
        one that was made outside of it; see `outside_variables`.
    """
    keras_state = self._keras_state = keras_scope.KerasScope(
      self._precision,
      self._seed,
      step,
      self._uses_cpu_kernels,
      before=self._keras_state if goes_on else None,
    )
    names, former_names = self._names if goes_on else (_Names(), _Names())
    self._names = names, former_names
    self._changed = self._changed if goes_on else []
    roots = []
    self._after_step = []
    self._present = {}

    def on_replica(fn, *args):
      with (
        keras_state.replica_scope(),
        own_collections.replica_scope(),
        tf.name_scope("model_fn") as root,
        tf.variable_creator_scope(functools.partial(collect, root)),
        patches.set_context(_graph, v1.get_default_graph()),
      ):
        roots.append(root)
        self._after_step.append(after_step := [])
        _running.after_step = after_step
        return fn(*args)

    def one_step(step, *args):
      roots.clear()  # each pass is in a graph of its own, of the one replica that is traced
      with keras_scope.step_scope(step):
        result = on_replica(fn, *args)
        requests = self._after_step.pop()
        for request, every in requests if may_change == ANY else ():
          tf.cond(
            tf.equal((step + 1) % every, 0),
            lambda request=request: on_replica_again(request),
            lambda: False,
          )
      return result

    def on_replica_again(request):
      roots.clear()
      on_replica(request)
      self._after_step.pop()
      return True  # a branch of tf.cond must return something

    def replica_fn(*args):
      return on_replica(fn, *args) if loop is None else loop(one_step, *args)

    def creator(next_creator, **kwargs):
      # A mirrored strategy calls this creator on its first replica only, and hands the variable to
      # the other replicas.
      maker = keras_state.variable_being_made
      if (made_before := keras_state.made_before()) is not None:
        outside_variables.made_by(made_before)
      if maker is None:
        path = former = _path(kwargs["name"], roots[0])
      else:
        path, former = keras_scope.names(maker)
      name, former = names.unique(path), former_names.unique(former)
      if name != former:
        self.former_names[name] = former
      variable = self._get(next_creator, name, maker, kwargs)
      own_collections.add_variable(variable, _collections(variable, kwargs))
      return variable

    def collect(root, next_creator, **kwargs):
      # The name of a scope ends in a slash and has all scopes around it: those of the replica too.
      if (kwargs.get("name") or "").endswith("/"):
        kwargs["name"] = kwargs["name"].removeprefix(root)
      # Unlike `creator`, this one is called on every replica. After the first replica next_creator
      # is the strategy's, which returns the first replica's variable. So each replica's own
      # collections get the variable.
      variable = next_creator(**kwargs)
      own_collections.add_variable(variable, _collections(variable, kwargs))
      return variable

    def is_left_out(handle):
      if may_change == ANY:  # any but the global step, which the training loop counts
        return global_step is not None and _is_handle(handle, [global_step])
      return may_change == NOTHING or not _is_handle(handle, self._scratch.values())

    watch = self._watch(global_step, may_change, beside)
    # Without a graph seed, stateful random operations take one from the process's eager generator,
    # which depends on what ran before.
    v1.get_default_graph().seed = self._seed
    # The order is important. The creator goes inside strategy.scope(): creators are called from the
    # innermost to the outermost, and the store must be asked before the strategy creates anything.
    with (
      self._as_current(),
      keras_state.trace_scope(),
      graph_collections.replace(global_step) as own_collections,
      fetched_operations.scope(),
      assignments.leave_out(is_left_out, lambda *change: self._changed.append(change)),
      watch.scope(),
    ):
      try:
        with self.strategy.scope(), tf.variable_creator_scope(creator):
          results = self.strategy.run(patches.keep_context(replica_fn), args)
      except Exception as error:  # which what was found may have caused
        watch.check(name, error)
        raise
    watch.check(name)
    return results

  def _watch(self, global_step, may_change, beside):
    """Returns the outside_variables.Watch of a run."""
    others = {} if beside is None else beside.variables
    asked_for = None
    # In training, an optimizer of tf.compat.v1 may keep its slots from trace to trace.
    if may_change != ANY:
      steps = {name: var for name, var in self.variables.items() if var is global_step}
      asked_for = collections.ChainMap(self._present, steps)
    return outside_variables.Watch((self.variables, self._scratch, others), asked_for)

  @contextlib.contextmanager
  def as_current(self) -> Iterator[None]:
    """Makes this the current store while the context is open, with all its variables present.

    For code outside of `run` that looks for the model's variables, such as an init_from_checkpoint
    in a scaffold_fn.
    """
    self._present = dict(self.variables)
    with self._as_current():
      yield

  @contextlib.contextmanager
  def _as_current(self):
    with patches.set_context(_current, self), variable_ops.provide():
      yield

  def present(self) -> dict[str, tf.Variable]:
    """Returns the variables, by name, that the newest `run` has asked for so far."""
    return dict(self._present)

  def note_initializer(self, initializer: Any) -> None:
    """Adds to `initializers`, once: every trace repeats the same calls."""
    if initializer not in self.initializers:
      self.initializers.append(initializer)

  def after_step(self, fn: Callable[[], None], every: int) -> None:
    """Asks for a call of fn on this replica after every `every` steps. Call it inside `run`.

    A later `run` calls fn, under a condition on the step. The step itself cannot contain such a
    condition: a merge_call, in which a strategy waits for all replicas, fails inside a branch.

    Args:
      fn: function without arguments.
      every: number of steps from call to call.
    """
    _running.after_step.append((fn, every))

  def take_after_step(self) -> list[tuple[Callable[[], None], int]]:
    """Returns the `after_step` requests of the last `run`, and forgets them.

    Returns:
      (fn, every) for each request. Pass fn to another `run`: on each replica it calls the function
      that this replica had asked for.
    """
    taken, self._after_step = self._after_step, []

    def call(index):
      of_replicas = iter(taken)  # a strategy traces its replicas in order

      def on_replica():
        fn, _ = next(of_replicas)[index]
        fn()

      return on_replica

    return [(call(index), every) for index, (_, every) in enumerate(taken[0])]

  def trainable_variables(self) -> list[tf.Variable | keras.Variable]:
    """Returns the trainable variables, as keras.Variables where Keras created them.

    Only the keras.Variable knows about `layer.trainable = False`.
    """
    variables = [
      self._keras_variables.get(name, variable) for name, variable in self.variables.items()
    ]
    return [variable for variable in variables if variable.trainable]

  def is_untrained(self) -> bool:
    """Whether the newest `run`, with what went on from it, leaves all trainable variables alone.

    It does not where there are none, nor where a variable is changed that cannot be told.
    """
    run = set(fetched_operations.that_run([operation for operation, _ in self._changed]))
    changed = [handle for operation, handle in self._changed if operation in run]
    if any(handle is None for handle in changed):
      return False
    trainable = [
      variable if isinstance(variable, tf.Variable) else variable.value
      for variable in self.trainable_variables()
    ]
    return bool(trainable) and not any(_is_handle(handle, trainable) for handle in changed)

  def local_variables(self) -> list[tf.Variable]:
    """Returns the variables that functions use and that no checkpoint holds."""
    return list(self._scratch.values())

  def snapshot(self) -> dict[str, tf.Tensor]:
    """Reads the values to save, name → tensor.

    Statistics that differ between replicas, such as a BatchNormalization's moving mean, are saved
    as their mean. This method also assigns the mean to all replicas. So a run that continues after
    a save has the same bits as one that restarts from the checkpoint.
    """
    values = {name: variable.read_value() for name, variable in self.variables.items()}
    for name, variable in self.variables.items():
      if variable.synchronization == tf.VariableSynchronization.ON_READ:
        variable.assign(values[name])
    return values

  def scratch(
    self, name: str, dtype: tf.DType = tf.float32, shape: tf.TensorShape | tuple = ()
  ) -> tf.Variable:
    """Returns a variable of zeros that no checkpoint holds. Call it inside `run`.

    Each replica has its own value. Read outside of replicas, a variable of floats is the mean of
    them, another one that of the first replica.
    """
    kinds = tf.VariableAggregation
    _running.scratch = True
    try:
      return tf.Variable(
        lambda: tf.zeros(shape, dtype),
        trainable=False,
        name=name,
        dtype=dtype,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=kinds.MEAN if dtype.is_floating else kinds.ONLY_FIRST_REPLICA,
      )
    finally:
      _running.scratch = False

  def reset(self) -> None:
    """Sets each variable to its initial value."""
    for name, value in self._initial_values.items():
      for home in (self.variables, self._scratch):
        if name in home:
          home[name].assign(value())

  def _get(self, next_creator, name, maker, kwargs):
    scratch = (
      getattr(_running, "scratch", False)
      or name.endswith(_SEED_STATE)
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
    # The store owns the variable. So it must not enter the graph's collections (`run` adds it to
    # the replica's own), and tf.function must not lift its initializer out of the graph.
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
    # init_scope leaves the graph that is being traced: the variable outlives the trace.
    with tf.init_scope(), tf.name_scope(""):
      variable = next_creator(**kwargs)
    self._initial_values[name] = initial_value
    return variable


class _Names:
  """Makes the variable names of one trace unique."""

  def __init__(self):
    self._asked_for = collections.Counter()
    self._taken = set()

  def unique(self, name):
    """Returns `name` on the first call, then `name_1`, `name_2`: the same in every trace."""
    found = name
    while found in self._taken:
      self._asked_for[name] += 1
      found = f"{name}_{self._asked_for[name]}"
    self._taken.add(found)
    return found


def _is_handle(handle, variables):
  """Whether a handle belongs to one of the variables."""
  return any(
    handle is own for variable in variables for own in tensorflow_internals.handles(variable)
  )


def replica_graph() -> tf.Graph | None:
  """Returns the graph that the current replica is traced in, or None outside of replicas.

  Inside a branch or an inner function this is not the default graph.
  """
  return _graph.get()


def changed_alike_scope() -> contextlib.AbstractContextManager[None]:
  """Returns a context for creating variables to which all replicas make the same changes.

  Optimizer slots are such variables. Others, such as a BatchNormalization's moving mean, differ
  from replica to replica.
  """
  return patches.set_context(_changed_alike, True)


def current() -> VariableStore | None:
  """Returns the store whose `run` traces the current function, or None."""
  return _current.get()


def is_traced_here() -> bool:
  """Returns whether operations created now belong to a store's `run`.

  They do not in a tf.Graph that a model_fn opens for itself.
  """
  return current() is not None and v1.get_default_graph().building_function


def _path(name, root):
  if name and name.endswith("/"):  # with all scopes around it
    return name.strip("/")
  scope = (tf.get_current_name_scope() + "/").removeprefix(root)
  return (scope + (name or "Variable")).strip("/")


def _is_statistic(kwargs):
  """Whether a variable is a statistic, such as a BatchNormalization's moving mean.

  Each replica updates its own value. Read outside of replicas, for instance for a checkpoint, the
  variable is the mean of them. A statistic is known by what its creator asks for: a float that is
  not trainable, with no wish about synchronization or aggregation.
  """
  auto = (None, tf.VariableSynchronization.AUTO)
  none = (None, tf.VariableAggregation.NONE)
  return (
    not _changed_alike.get()
    and kwargs.get("trainable") is False
    and kwargs.get("colocate_with") is None  # optimizer slots are colocated with their variable
    and kwargs.get("dtype")
    and tf.as_dtype(kwargs["dtype"]).is_floating
    and kwargs.get("synchronization") in auto
    and kwargs.get("aggregation") in none
  )


def _collections(variable, kwargs):
  # What no checkpoint holds, none of a program's Savers may ask for.
  of_seeds = variable.name.removesuffix(":0").endswith(_SEED_STATE)
  default = v1.GraphKeys.LOCAL_VARIABLES if of_seeds else v1.GraphKeys.GLOBAL_VARIABLES
  keys = list(kwargs.get("collections") or [default])
  if variable.trainable:
    keys.append(v1.GraphKeys.TRAINABLE_VARIABLES)
  return keys


def _check_same(variable, name, maker, kwargs):
  """Raises ModelFnError if this trace would create the variable with another shape or dtype."""
  value = kwargs["initial_value"]
  if maker is not None and keras_internals.shape_of(maker) is not None:
    shape, dtype = keras_internals.shape_of(maker), kwargs["dtype"]
  else:
    with (
      tensorflow_internals.scratch_graph().as_default(),
      keras_scope.initial_value_scope(seed=0),
      outside_variables.ignore(),  # a variable may begin with the value of another one
    ):
      value = (
        tf.convert_to_tensor(value() if callable(value) else value)
        if not tf.is_tensor(value)
        else value
      )
    shape, dtype = value.shape, kwargs.get("dtype") or value.dtype
  shape, dtype = tf.TensorShape(shape), tf.as_dtype(dtype).base_dtype
  if (shape, dtype) != (variable.shape, variable.dtype.base_dtype):
    raise errors.ModelFnError(
      f"model_fn creates the variable {name} with shape {shape} and dtype {dtype.name}. An earlier "
      f"call created it with shape {variable.shape} and dtype {variable.dtype.base_dtype.name}: a "
      "name must mean the same variable in every mode."
    )
