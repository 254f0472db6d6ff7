"""The session for hooks: it runs operations of a model_fn that the steps leave out.

    class Init(tf.train.SessionRunHook):
      def after_create_session(self, session, coord):
        session.run(init, feed_dict={placeholder: values})  # init = w.assign(placeholder)

The session copies the operations from the graph of the model_fn into a function. The function reads
and assigns the training's variables. An operation that needs a batch takes the next one of the
training input, as in TensorFlow 1.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.checkpoints import initial_checkpoints
from trainer.compat.graph_mode import graph_copies, habits
from trainer.internals import patches, tensorflow_internals
from trainer.tracing import assignments, fetched_operations, step_input, variable_store

v1 = tf.compat.v1

# The operation that reads a variable and changes no copy.
_READ = "ReadVariableOp"


class Session:
  """The session of a hook, a listener or an init_fn.

  Args:
    graph: the graph of the operations; None: `attach` sets it.
    due: list that gets (fetches, feed_dict) instead of a run, for an init_fn, which Octet calls
      before the variables have values. None: each run happens at once.

  Attributes:
    graph: the graph; None for a hook without an attached step.
  """

  def __init__(self, graph: Any = None, due: list[tuple[Any, Any]] | None = None) -> None:
    self.graph = graph
    self._due = due
    self._store: variable_store.VariableStore | None = None
    self._functions: dict[tuple, Callable] = {}  # ids of the targets and of the fed placeholders
    # id of an assignment's result → (the result, the tensor of its value). The entry keeps the
    # object, so that no other object gets its id.
    self._assigned: dict[int, tuple[Any, tf.Tensor]] = {}

  def attach(self) -> None:
    """Uses the graph and variables of the model_fn being traced. Call it on a replica."""
    self.graph, self._store = v1.get_default_graph(), variable_store.current()
    self._functions, self._assigned = {}, {}

  def run(
    self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, *unused: Any, **ignored: Any
  ) -> Any:
    """Runs operations; returns the values of variables and tensors.

    Args:
      fetches: nest of variables, and of tensors and operations of the graph or their names.
      feed_dict: placeholder → its value.
      *unused: options and run_metadata, without meaning here.
      **ignored: the same.

    Raises:
      SettingError: a fetch has no value outside of a step, or not yet.
    """
    leaves = tf.nest.flatten(fetches)
    if self._due is not None:
      _require_operations(leaves)
      self._due.append((fetches, feed_dict))
      return None
    with habits.enable(self.graph):
      targets = [self._target(leaf) for leaf in leaves]
      made = [target for target in targets if not isinstance(target, tf.Variable)]
      values = iter(self._compute(made, dict(feed_dict or {})) if made else ())
      found = [
        target.numpy() if isinstance(target, tf.Variable) else next(values) for target in targets
      ]
      return tf.nest.pack_sequence_as(fetches, found)

  def restore(self, path: str, wanted: Mapping[str, Any] | None) -> None:
    """Assigns values of a checkpoint to variables.

    Args:
      path: the checkpoint.
      wanted: name in the checkpoint → variable; None for all.
    """
    if self._due is not None:  # the variables start from these values
      if wanted is None:
        wanted = {one.name.partition(":")[0]: one for one in v1.global_variables()}
      v1.train.init_from_checkpoint(path, wanted)
      return
    if self._store is None:
      raise errors.SettingError(f"A hook restores {path}, but Octet has traced no model_fn.")
    model = self._store.variables
    self._store.sessions += 1  # the variables have no longer the checkpoint's values
    wanted = {name: name for name in model} if wanted is None else wanted
    initial_checkpoints.apply(
      [initial_checkpoints.CheckpointInitializer.of(path, wanted, model)], model
    )
    self._store.mark_assigned()

  def _compute(self, made: list[Any], fed: dict[Any, Any]) -> list[Any]:
    # The key is the identity of graph objects, which `_Copy` keeps alive: no id is ever reused.
    key = tuple(map(id, made)), tuple(map(id, fed))
    if key not in self._functions:
      self._functions[key] = _Copy(made, list(fed))
    copy = self._functions[key]
    try:
      values = copy(list(fed.values()))
    except tf.errors.InvalidArgumentError as error:
      # The loop asks for a batch that may be missing; TensorFlow 1 asked the iterator for the next
      # one.
      if "does not have a value" not in str(error):
        raise
      raise tf.errors.OutOfRangeError(None, None, "End of sequence") from error
    if self._store is not None:
      copy.spread(self._store)
      self._store.sessions += 1
    return values

  def _target(self, leaf: Any) -> Any:
    """Returns the variable, tensor or operation that a fetch means."""
    if isinstance(leaf, str) and self.graph is not None:
      return self.graph.as_graph_element(leaf)
    if isinstance(leaf, tf.Variable):
      operation = getattr(leaf, "op", None)
      if not isinstance(operation, tf.Operation):
        return leaf
      if id(leaf) not in self._assigned:  # cached, because each read adds an operation to the graph
        with operation.graph.as_default():
          self._assigned[id(leaf)] = leaf, tf.convert_to_tensor(leaf)
      return self._assigned[id(leaf)][1]
    if isinstance(leaf, tf.Tensor | tf.Operation) and hasattr(leaf, "graph"):
      return leaf
    raise errors.SettingError(
      f"A hook runs {leaf!r} in a session: expected a variable, or a tensor or an operation "
      "that the model_fn or the hook's begin made."[:500]
    )


class _Copy:
  """A function made of operations of a model_fn's graph.

  A branch or a loop of the model_fn has a graph of its own. Its operations may need tensors of the
  graphs around it, so the function copies the operations behind those tensors too.

  Args:
    made: tensors and operations.
    fed: the placeholders that get values.

  Raises:
    SettingError: the operations need a tensor without a value outside of a step.
  """

  def __init__(self, made: list[Any], fed: list[tf.Tensor]) -> None:
    self._fed = fed
    self._captured: dict[int, tf.Tensor] = {}  # id of a placeholder → its eager value
    # Placeholders of iterators. Look their values up at each call: each training has another
    # iterator.
    self._iterators: list[tf.Tensor] = []
    self._parts: list[_Part] = []  # the inner graph comes first
    wanted = made
    while wanted:
      self._parts.append(_Part(wanted, fed))
      wanted = self._find(self._parts[-1], made)
    self._function = tf.function(self._run, autograph=False)

  def _find(self, part: "_Part", made: list[Any]) -> list[tf.Tensor]:
    """Records eager values that a part needs; returns the tensors it needs of the graph around."""
    for placeholder in part.sources:
      eager = assignments.eager_handle(placeholder)
      if eager is not None:
        self._captured[id(placeholder)] = eager
      elif step_input.resource_of(placeholder) is not None:
        self._iterators.append(placeholder)
      elif _captured(placeholder) is None:
        raise errors.SettingError(
          f"A session runs {made!r}, which needs {placeholder!r}, but only a step has a value "
          "for it. Fetch it in before_run, or give the placeholder's value in feed_dict."[:600]
        )
    return part.outer(self._captured)

  def __call__(self, fed: list[Any]) -> list[Any]:
    values = [
      tf.convert_to_tensor(value, one.dtype) for one, value in zip(self._fed, fed, strict=True)
    ]
    values += [step_input.resource_of(one) for one in self._iterators]
    return [value.numpy() if tf.is_tensor(value) else None for value in self._function(values)]

  def _run(self, given: list[tf.Tensor]) -> list[Any]:
    # import_graph_def takes only tensors of the graph: capture the eager values.
    here = v1.get_default_graph()
    values = {key: here.capture(value) for key, value in self._captured.items()}
    arguments = [*self._fed, *self._iterators]
    values |= {id(one): value for one, value in zip(arguments, given, strict=True)}
    found: list[Any] = []
    # Outer graphs first: their tensors are the inner graphs' captures.
    for part in reversed(self._parts):
      found = part.run(values)
      values |= {id(one): value for one, value in zip(part.made, found, strict=True)}
    return [value if tf.is_tensor(value) else None for value in found]

  def spread(self, store: variable_store.VariableStore) -> None:
    """Copies assigned values from one replica to the other replicas."""
    # An operation ran with the handle of one replica's copy only. Copies of the others would differ
    # from then on, without an error.
    changed = {
      id(assignments.eager_handle(tensor))
      for part in self._parts
      for operation in part.inner
      if operation.type != _READ
      for tensor in assignments.inputs(operation)
      if tensor.dtype == tf.resource
    }
    for variable in store.variables.values():
      copies = store.strategy.experimental_local_results(variable)
      own = [copy for copy in copies if id(copy.handle) in changed]
      if own and len(own) < len(copies):
        for copy in copies:
          copy.assign(own[0].read_value())


class _Part:
  """The operations to copy from one graph.

  Args:
    made: tensors and operations of the graph.
    fed: the placeholders with given values.

  Attributes:
    made: the argument.
    inner: the operations.
    sources: the placeholders that the operations need and no feed_dict has.
  """

  def __init__(self, made: list[Any], fed: list[tf.Tensor]) -> None:
    self.made = made
    # An evaluation leaves assignments out of its steps. A session runs them.
    operations = fetched_operations.reached(
      [getattr(one, "op", one) for one in made], assignments.inputs
    )
    self.inner = [each for each in operations if not _is_source(each)]
    self._given = [each.outputs[0] for each in operations if _is_source(each)]
    self.sources = [each for each in self._given if all(each is not one for one in fed)]

  def outer(self, known: Mapping[int, Any]) -> list[tf.Tensor]:
    """Returns the outer graph's tensors that this part needs and `known` lacks."""
    needed = [_captured(one) for one in self.sources if id(one) not in known]
    return [one for one in needed if one is not None]

  def run(self, values: Mapping[int, tf.Tensor]) -> list[Any]:
    """Adds the operations to the default graph.

    Args:
      values: id of a placeholder, or of the tensor that it captures → its value.
    """
    if not self.inner:
      return [values[id(one)] for one in self.made]
    given = (tensor for operation in self.inner for tensor in assignments.inputs(operation))
    inputs = {assignments.name_of_input(one): one for one in given if hasattr(one, "numpy")}
    for one in self._given:
      inputs[one.name] = values[id(one)] if id(one) in values else values[id(_captured(one))]
    return graph_copies.copy(self.inner, inputs, [one.name for one in self.made])


def _captured(placeholder: tf.Tensor) -> tf.Tensor | None:
  """Returns the outer graph's tensor that a placeholder captures, or None."""
  captures = getattr(placeholder.graph, "captures", ())
  return next((outer for outer, inner in captures if inner is placeholder), None)


def _require_operations(leaves: list[Any]) -> None:
  for leaf in leaves:
    if not isinstance(getattr(leaf, "op", leaf), tf.Operation):
      raise errors.SettingError(
        f"A Scaffold's init_fn asks for the value of {leaf!r}, but variables have no values "
        "yet: init_fn may run assignments, or restore a tf.train.Saver."[:500]
      )


def _is_source(operation: tf.Operation) -> bool:
  return operation.type in ("Placeholder", "TPUReplicatedInput")


@patches.replaces(v1.train.Saver, "restore")
def _restore(original, self, sess, save_path):
  if not hasattr(sess, "restore"):
    return original(self, sess, save_path)
  wanted = tensorflow_internals.saved_by(self)
  if wanted is not None and not isinstance(wanted, dict):
    wanted = {one.name.partition(":")[0]: one for one in wanted}
  sess.restore(save_path, wanted)
  return None
