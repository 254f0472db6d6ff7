"""Creates each variable once, by name, for all traces of a model_fn.

A model_fn creates its layers and variables on every call. Octet calls it for every replica and
every mode, and again for another shape. Under `VariableStore.run` every way of creating a variable
(a Keras layer, optimizer or metric, `tf.Module`, `tf.Variable`, `tf.compat.v1.get_variable`) asks
the store. The first trace that asks for a name creates the variable, outside of the traced graph
and inside the strategy's scope. Every later trace gets the same variable. The names come from the
code (`conv2d_1/kernel`). Checkpoints use them as keys.

    store = VariableStore(strategy)
    tf.function(lambda batch: store.run(model_fn, (batch,), step))(batch)
    store.variables["dense/kernel"]
"""

import collections
import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import h5py
import keras
import numpy as np
import tensorflow as tf

from trainer.internals import keras_internals, patches, tensorflow_internals
from trainer.tracing import (
  fetched_operations,
  graph_collections,
  initial_values,
  keras_scope,
  outside_variables,
  store_run,
  variable_creation,
  xla_variables,
)

# Values of `may_change` in VariableStore.run: the variables that a function may change.
ANY, LOCAL, NOTHING = "any", "local", "nothing"

# The store whose `run` this thread is in, on a replica or between the replicas, or None.
_current = contextvars.ContextVar("current store", default=None)


class VariableStore:
  """Variables by name.

  Args:
    strategy: the tf.distribute.Strategy whose replicas run the functions.
    precision: the Keras dtype policy of layers.
    seed: the run's seed. A variable's initial value follows from the seed and the variable's name.
    uses_cpu_kernels: whether Keras's layers and optimizers use `trainer.tracing.cpu_kernels`. Only
      for replicas that are CPUs.
    xla_devices: the pjrt.devices.Devices that run the programs; None if TensorFlow does.
    compiled: where XLA devices find compiled programs, see RunConfig.compiled.

  Attributes:
    variables: name → tf.Variable, in the order of creation. The keys of checkpoints.
    on_xla: the XlaVariables, if XLA devices hold the variables between programs; else None.
    initializers: the calls of `tf.compat.v1.train.init_from_checkpoint`, in order; see
      `trainer.checkpoints.initial_checkpoints`.
    former_names: name of a variable → its name in checkpoints from before `keras_scope.named_by`
      had rules for the names of Keras's variables, if the two differ.
    averages: name of a moving average → name of the variable that it averages; see
      `trainer.checkpoints.moving_averages`.
    windows: the values of accumulate_steps in calls of `minimize`, without 1.
    sessions: how often a hook's session ran operations, which may have assigned variables.
  """

  def __init__(
    self,
    strategy: tf.distribute.Strategy,
    precision: str = "float32",
    seed: int = 0,
    uses_cpu_kernels: bool = False,
    xla_devices: Any = None,
    compiled: str = "",
  ) -> None:
    self.strategy = strategy
    self.variables: dict[str, tf.Variable] = {}
    self.on_xla: Any = (
      None if xla_devices is None else xla_variables.XlaVariables(self, xla_devices, compiled)
    )
    self.initializers: list[Any] = []
    self.former_names: dict[str, str] = {}
    self.averages: dict[str, str] = {}
    self.windows: set[int] = set()
    self.sessions = 0
    self._precision = precision
    self._seed = seed
    self._uses_cpu_kernels = uses_cpu_kernels
    self._initial_values: dict[str, initial_values.InitialValue] = {}
    # The keras.Variable around a tf.Variable, as the newest trace made it, by name.
    self._keras_variables: dict[str, keras.Variable] = {}
    # Local variables, which no checkpoint holds; see `variable_creation`.
    self._local: dict[str, tf.Variable] = {}
    self._newest_run: Any = None  # a store_run.StoreRun
    # The variables that the newest run has asked for so far.
    self._present: dict[str, tf.Variable] = {}

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

    Call it during the trace of a tf.function.

    Args:
      fn: called once per replica.
      args: (nests of) per-replica values.
      step: int64 scalar tensor: the training step, which random numbers depend on.
      global_step: the variable that `tf.compat.v1.train.get_global_step()` returns inside, or None.
        The store leaves out assignments to it: the training loop counts.
      may_change: which variables fn may change: ANY, only LOCAL ones (counters of metrics), or
        NOTHING. The store leaves out assignments to other variables.
      goes_on: whether fn continues the step of the last run. If so, a name that the last run has
        used gets a number (`w`, `w_1`), as a second use in one run does.
      name: what fn is part of, for messages.
      beside: another store, whose variables fn may use too.
      loop: what each replica runs instead of fn: `loop(one_step, *args)`. The loop traces
        `one_step(step, *args_of_fn)` inside a tf.while_loop; one_step calls fn at that step (int64
        scalar), and then the scheduled functions that it requested. A loop that waits for the other
        replicas works on XLA devices and on one replica; the replicas of a MirroredStrategy cannot
        wait for each other in there.

    Returns:
      The per-replica values that fn returns.

    Raises:
      ModelFnError: fn creates a variable with another shape or dtype than an earlier trace, or uses
        a variable from outside; see `outside_variables`.
    """
    # A run that continues a step shares names, changes and layers with the last run. Otherwise its
    # first `Dense` would get the variables of the last run's first `Dense`.
    before, carried = None, {}
    if goes_on:
      last = self._newest_run
      before = last.keras_state
      carried = dict(changed=last.changed, names=last.names, former_names=last.former_names)
    self._present = {}
    self._newest_run = store_run.StoreRun(
      self.strategy,
      keras_scope.KerasScope(self._precision, self._seed, step, self._uses_cpu_kernels, before),
      self._seed,
      self._get,
      functools.partial(self._is_left_out, may_change, global_step),
      graph_collections.GraphCollections(global_step),
      **carried,
    )
    watch = self._watch(global_step, may_change, beside)
    with patches.set_context(_current, self), watch.scope():
      try:
        results = self._newest_run.run(fn, args, loop)
      # A variable from outside may have caused the error; `check` then raises a clearer one.
      except Exception as error:
        watch.check(name, error)
        raise
    watch.check(name)
    return results

  def _is_left_out(self, may_change, global_step, handle):
    """Whether a run leaves out an assignment to the variable of a handle."""
    # The training loop alone counts the global step. A second assignment would count twice.
    if may_change == ANY:
      return global_step is not None and _is_handle(handle, [global_step])
    return may_change == NOTHING or not _is_handle(handle, self._local.values())

  def _watch(self, global_step, may_change, beside):
    """Returns the outside_variables.Watch of a run."""
    others = {} if beside is None else beside.variables
    asked_for = None
    # In training, an optimizer of tf.compat.v1 may keep its slots from trace to trace.
    if may_change != ANY:
      steps = {name: var for name, var in self.variables.items() if var is global_step}
      asked_for = collections.ChainMap(self._present, steps)
    return outside_variables.Watch((self.variables, self._local, others), asked_for)

  @contextlib.contextmanager
  def as_current(self) -> Iterator[None]:
    """Makes this the current store while the context is open, with all its variables present.

    For code outside of `run` that looks for the model's variables, such as an init_from_checkpoint
    in a scaffold_fn.
    """
    self._present = dict(self.variables)
    with patches.set_context(_current, self):
      yield

  def present(self) -> dict[str, tf.Variable]:
    """Returns the variables, by name, that the newest `run` has asked for so far."""
    return dict(self._present)

  def note_initializer(self, initializer: Any) -> None:
    """Adds to `initializers`, once: every trace repeats the same calls."""
    if initializer not in self.initializers:
      self.initializers.append(initializer)

  def after_step_requests(self) -> list[store_run.Request]:
    """Returns the requests of the last `run`, see `store_run.request_after_step`.

    Returns:
      (fn, every) for each request. Pass fn to another `run`: on each replica it calls the function
      that this replica had asked for.
    """
    of_replicas = self._newest_run.requests

    def call(index):
      replicas = iter(of_replicas)  # a strategy traces its replicas in order
      return lambda: next(replicas)[index][0]()

    return [(call(index), every) for index, (_, every) in enumerate(of_replicas[0])]

  def trainable_variables(self) -> list[tf.Variable | keras.Variable]:
    """Returns the trainable variables, as keras.Variables where Keras created them.

    Only the keras.Variable knows about `layer.trainable = False`.
    """
    variables = [
      self._keras_variables.get(name, variable) for name, variable in self.variables.items()
    ]
    return [variable for variable in variables if variable.trainable]

  def is_untrained(self) -> bool:
    """Whether the newest `run` and its continuations change no trainable variable.

    False if there are no trainable variables, or if a changed variable is unknown.
    """
    changes = self._newest_run.changed
    # Under trainer.compat a trace also has assignments that nothing fetches and that never run.
    run = set(fetched_operations.that_run([operation for operation, _ in changes]))
    changed = [handle for operation, handle in changes if operation in run]
    if any(handle is None for handle in changed):
      return False
    # Handles belong to tf.Variables, and a keras.Variable wraps its tf.Variable.
    trainable = [
      variable if isinstance(variable, tf.Variable) else variable.value
      for variable in self.trainable_variables()
    ]
    return bool(trainable) and not any(_is_handle(handle, trainable) for handle in changed)

  def statistics(self) -> dict[str, tf.Variable]:
    """Returns the statistics by name, such as moving means. Each replica has its own values."""
    own = tf.VariableSynchronization.ON_READ
    return {name: each for name, each in self.variables.items() if each.synchronization == own}

  def local_variables(self) -> list[tf.Variable]:
    """Returns the variables that functions use and that no checkpoint holds."""
    return list(self._local.values())

  def bring_to_host(self) -> None:
    """Copies the values from the XLA devices to the variables. Call it before reading variables.

    Does nothing if TensorFlow runs the programs. The next program starts from the values assigned
    after this call.

    Raises:
      ExecutionError: a program has failed on the devices.
    """
    if self.on_xla is not None:
      self.on_xla.bring_to_host()

  def mark_assigned(self) -> None:
    """Notes assignments to variables outside of programs."""
    if self.on_xla is not None:
      self.on_xla.mark_assigned()

  def synchronize_and_read(self) -> dict[str, tf.Tensor]:
    """Assigns statistics their mean on all replicas; returns the values to save, name → tensor.

    Statistics, such as a BatchNormalization's moving mean, differ between replicas, and a
    checkpoint holds their mean. Since the replicas get the mean too, a run that continues after a
    save has the same bits as one that restarts from the checkpoint.
    """
    self.bring_to_host()
    # Outside of replicas, TensorFlow reads a statistic as the mean over the replicas.
    values = {name: variable.read_value() for name, variable in self.variables.items()}
    for name, variable in self.statistics().items():
      variable.assign(values[name])
      if self.on_xla is not None:
        # XLA devices keep their own copies, and would go on with the values before the mean.
        self.on_xla.mark_assigned([variable])
    return values

  def scratch(
    self, name: str, dtype: tf.DType = tf.float32, shape: tf.TensorShape | tuple = ()
  ) -> tf.Variable:
    """Returns a variable of zeros that no checkpoint holds. Call it inside `run`.

    Each replica has its own value. Outside of replicas, a read returns the mean of a float
    variable, and the first replica's value of any other variable.
    """
    kinds = tf.VariableAggregation
    # A function, not a tensor, is the initial value: a tensor would belong to the traced graph,
    # and the store creates variables outside of it.
    with variable_creation.scratch_scope():
      return tf.Variable(
        lambda: tf.zeros(shape, dtype),
        trainable=False,
        name=name,
        dtype=dtype,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=kinds.MEAN if dtype.is_floating else kinds.ONLY_FIRST_REPLICA,
      )

  def reset(self) -> None:
    """Sets each variable to its initial value."""
    for name, value in self._initial_values.items():
      for home in (self.variables, self._local):
        if name in home:
          home[name].assign(value())

  def set_initial_value(self, variable: keras.Variable, value: Any) -> bool:
    """Makes an array the initial value of a variable; returns False for a variable from outside."""
    name = _name_in(self.variables | self._local, variable.value)
    if name is None:
      return False
    array = np.asarray(value, variable.value.dtype.as_numpy_dtype)
    self._initial_values[name] = initial_values.InitialValue(array, name, self._seed)
    return True

  def first_value(self, variable: tf.Variable) -> tf.Tensor:
    """Returns the value at the start of an evaluation.

    For a local variable this is its initial value, because no checkpoint holds local variables; for
    any other, its current value.
    """
    name = _name_in(self._local, variable)
    if name is not None:
      return tf.convert_to_tensor(self._initial_values[name](), variable.dtype)
    self.bring_to_host()
    # Replicas start an evaluation with equal values, so the first replica's value is enough.
    return self.strategy.experimental_local_results(variable)[0].read_value()

  def _get(self, next_creator, name, former_name, maker, kwargs):
    """Returns the variable of a name; creates it for the first trace that asks for it."""
    if name != former_name:
      self.former_names[name] = former_name
    is_local = variable_creation.is_local(name, kwargs)
    home = self._local if is_local else self.variables
    if name in home:
      # Layers with equal names and different shapes would otherwise fail in an operation that does
      # not name the variable.
      variable_creation.require_same(home[name], name, maker, kwargs)
    else:
      initial_value = initial_values.InitialValue(kwargs["initial_value"], name, self._seed)
      # Compute the value outside of the traced graph, so that `reset` can compute it again.
      home[name] = variable_creation.create(next_creator, name, initial_value, kwargs)
      self._initial_values[name] = initial_value
    if not is_local:
      self._present[name] = home[name]
      if maker is not None:
        # Every trace makes a new keras.Variable around the same tf.Variable. Only the newest one
        # knows whether this model_fn has set `layer.trainable = False`.
        self._keras_variables[name] = maker
    return home[name]


def _is_handle(handle, variables):
  """Whether a handle belongs to one of the variables."""
  # `is`, because `==` of two tensors makes an operation. Each replica has a handle of its own.
  return any(
    handle is own for variable in variables for own in tensorflow_internals.handles(variable)
  )


def current() -> VariableStore | None:
  """Returns the store whose `run` traces the current function, or None."""
  return _current.get()


def is_traced_here() -> bool:
  """Returns whether operations created now belong to a store's `run`.

  Operations in a tf.Graph that a model_fn opens itself do not.
  """
  return current() is not None and tf.compat.v1.get_default_graph().building_function


def _name_in(variables, variable):
  """Returns the name of a variable among variables by name, None if it is not there."""
  return next((name for name, own in variables.items() if own is variable), None)


@patches.replaces(*keras_internals.ASSIGN, inside=_current)
def _assign(original, variable, value):
  """Takes an array as an initial value, as `load_weights` and `set_weights` assign it.

  As an operation of the step it would undo the training in each step. In a layer's `call` it is an
  operation: there a layer sets its state back.
  """
  is_array = isinstance(value, np.ndarray | h5py.Dataset) and not keras_internals.runs_a_call()
  fits = is_array and tuple(value.shape) == tuple(variable.shape)
  if fits and is_traced_here() and _current.get().set_initial_value(variable, value):
    return value
  return original(variable, value)


@dataclasses.dataclass(frozen=True)
class VariableOp:
  """Stands in for the operation that creates a variable in a graph: `variable.op` in a model_fn.

  Programs for TF1 read it to choose the variables to decay or to restore, and to look them up in a
  checkpoint. A store creates its variables eagerly, and such a variable has no operation.

  Attributes:
    name: the variable's name without the ":0" of `variable.name`. The same on all replicas.
    type: the operation type of a TF2 variable in a graph.
    graph: always None. TensorFlow's strategies read it.
    traceback: always None. TensorFlow's strategies read it.
  """

  name: str
  type: str = "VarHandleOp"
  graph: Any = None
  traceback: Any = None


@patches.replaces(*tensorflow_internals.VARIABLE_OP, inside=_current)
def _op(original, variable):
  try:
    return original(variable)
  except AttributeError:  # an eager tensor's handle has no `op`
    return VariableOp(variable.name.partition(":")[0])


@patches.replaces(*tensorflow_internals.DISTRIBUTED_VARIABLE_OP, inside=_current)
def _op_of_all(original, variable):
  return tensorflow_internals.primary(variable).op
