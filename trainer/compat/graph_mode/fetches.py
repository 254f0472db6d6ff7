"""Brings the tensors that hooks fetch to the host, in the step's host_call or eval_metrics.

A hook asks for tensors, or for their names, as it would ask a session. A training step passes the
tensors to the host_call, which keeps each in a variable; the hook reads the variable after a loop.
An evaluation step passes the tensors to metric_fn, which calls the hook with each batch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer import errors, spec
from trainer.compat.graph_mode import session_hooks
from trainer.tracing import fetched_operations

v1 = tf.compat.v1


class Fetched:
  """A fetched tensor. Its value comes from the last replica in the last step of a loop.

  Args:
    what: a tensor, or an operation (no value).
    changes: whether the step runs operations that change variables for this fetch alone.

  Attributes:
    tensor: the tensor, or None.
    changes: the argument.
  """

  def __init__(self, what: Any, changes: bool):
    self.tensor = what if tf.is_tensor(what) else None
    self.changes = changes
    self._kept: tf.Variable | None = None
    self._given: Any = None

  def keep(self, rows: tf.Tensor) -> None:
    """Adds the assignment of the replicas' values to the host's part of the step being traced."""
    if self._kept is None:
      # The host_call traces into a graph, so the variable must be created outside of it. The
      # value's shape is open: the number of rows is the number of replicas.
      with tf.init_scope():
        zero = tf.zeros([size or 0 for size in rows.shape], self.tensor.dtype)
        self._kept = tf.Variable(
          zero,
          trainable=False,
          shape=tf.TensorShape(None),
          experimental_enable_variable_lifting=False,
        )
    # Keep all replicas' rows. Taking the last row here would add five operations to each step;
    # `value` takes it when a hook asks.
    self._kept.assign(rows)

  def give(self, value: Any) -> None:
    """Sets the value of an evaluation's current batch."""
    self._given = value

  def value(self) -> Any:
    """Returns the value as a NumPy array."""
    return self._given if self._kept is None else self._kept.numpy()[-1]


class Step:
  """The traced step, which hooks ask for tensors.

  Attributes:
    fetched: the tensors and operations that the hooks asked for.
    global_step: the variable that counts the steps.

  Args:
    spec: the program's spec.
  """

  def __init__(self, spec: Any):
    self._graph = v1.get_default_graph()
    self._scope = tf.get_current_name_scope()
    self._loss = spec.loss
    # If the step also runs these operations for its own sake, a fetch of them changes nothing.
    self._runs_anyway = fetched_operations.changes([spec.train_op, spec.loss])
    self.fetched: list[Fetched] = []
    self.global_step = v1.train.get_global_step()

  def fetch(self, what: Any, who: Any) -> Fetched:
    """Asks for a tensor, an operation, a variable, or the name of a tensor or an operation.

    Raises:
      SettingError: the model_fn has made no tensor or operation with this name.
    """
    if isinstance(what, str):
      what = self._named(what, who)
    changes = fetched_operations.changes([what]) - self._runs_anyway
    if isinstance(what, tf.Operation):
      fetched_operations.fetch(what)
    else:
      what = tf.convert_to_tensor(what)
    found = Fetched(what, bool(changes))
    self.fetched.append(found)
    return found

  def _named(self, name: str, who: Any) -> Any:
    # Names in the model_fn are relative to its name scope; a program of TensorFlow 1 knows no such
    # scope. Try both, for operations and for tensors.
    for full in (f"{self._scope}/{name}", name, f"{self._scope}/{name}:0", f"{name}:0"):
      try:
        found = self._graph.as_graph_element(full)
      except (KeyError, ValueError):
        continue
      # Programs give LoggingTensorHook the name of an operation and mean its first output.
      return found.outputs[0] if isinstance(found, tf.Operation) and found.outputs else found
    if name in ("loss", "loss:0"):
      return self._loss
    raise errors.SettingError(
      f"The hook {spec.name_of(who)} asks for {name!r}, but the model_fn makes no tensor with "
      "this name: add tf.identity(tensor, name=...)."
    )


class GivenHooks:
  """The hooks that the program gave to train or evaluate. All replicas share them.

  Args:
    hooks: hooks of Octet.
    every: the number of steps between two calls of the model_fn's hooks; None: one call after each
      loop.
  """

  def __init__(self, hooks: list[Any], every: int | None = 1):
    self.hooks = hooks
    self.every = every
    self._graph: Any = None
    self._fetched: list[Fetched] = []

  def attach(self, step: Step | None = None) -> None:
    """Lets the hooks ask for tensors, on the first replica traced in a graph.

    Without a step, as in a prediction, they ask for none.
    """
    # Every replica traces the model_fn in the same graph. The hooks ask once; the other replicas
    # repeat the fetches, so that all host_calls send the same tensors.
    graph = v1.get_default_graph()
    if self._graph is not graph:
      for hook in self.hooks:
        session_hooks.attach(hook, step)
      self._graph, self._fetched = graph, list(step.fetched) if step else []
    elif step is not None:
      step.fetched.extend(self._fetched)


def attach_to_host_call(
  host_call: Any, own_hooks: list[Any], train_hooks: GivenHooks, made: Any
) -> tuple[Any, list[Any]]:
  """Adds the tensors that hooks fetch to a host_call.

  Args:
    host_call: the spec's host_call, or None.
    own_hooks: the hooks of the spec.
    train_hooks: the hooks that the program gave to Estimator.train.
    made: the program's spec. Hooks may fetch its loss by the name "loss".

  Returns:
    (host_call or None, the spec's hooks in Octet's form).
  """
  step = Step(made)
  train_hooks.attach(step)
  adapted = session_hooks.adapt(own_hooks, train_hooks.every)
  for hook in adapted:
    session_hooks.attach(hook, step)
  if all(one.tensor is None for one in step.fetched):
    return host_call, adapted
  return _with_fetched(host_call, step.fetched), adapted


def attach_to_eval_metrics(
  eval_metrics: Any, own_hooks: list[Any], given_hooks: GivenHooks, made: Any, batch: Any
) -> tuple[Any, list[Any]]:
  """Adds tensors that an evaluation's hooks fetch to eval_metrics; calls the hooks for each batch.

  Args:
    eval_metrics: (metric_fn, dict or list of tensors), or None.
    own_hooks: the hooks of the spec.
    given_hooks: the hooks that the program gave to Estimator.evaluate.
    made: the program's spec.
    batch: the number of examples of the batch.

  Returns:
    (eval_metrics, the spec's hooks in Octet's form).
  """
  step = Step(made)
  given_hooks.attach(step)
  adapted = session_hooks.adapt(own_hooks)
  for hook in adapted:
    session_hooks.attach(hook, step)
  watching = session_hooks.batch_watchers([*given_hooks.hooks, *adapted])
  if not watching:
    return eval_metrics, adapted
  fn, given = eval_metrics or (dict, {})
  tensors = _by_name(given, "metrics")
  # Octet cuts off the rows of padded examples, so every tensor gets a row for each example.
  rows = {
    f"hook/{i}/{j}": tf.repeat(fetched.tensor[tf.newaxis], batch, 0)
    for i, hook in enumerate(watching)
    for j, fetched in enumerate(hook.see_batches())
    if fetched.tensor is not None
  }
  global_step = step.global_step

  def call(**gathered: tf.Tensor) -> Any:
    for index, hook in enumerate(watching):
      of_hook = [gathered[key][-1] for key in rows if key.startswith(f"hook/{index}/")]
      told = [tf.convert_to_tensor(global_step), *of_hook]
      # metric_fn is a graph. numpy_function runs the hook's Python for each batch; stateful, or
      # TensorFlow would merge or drop calls without outputs.
      tf.numpy_function(hook.batch, told, [], stateful=True)
    own = {name: gathered[name] for name in tensors}
    return fn(**own) if isinstance(given, Mapping) else fn(*own.values())

  return (call, tensors | rows), adapted


def _with_fetched(host_call: Any, fetched: list[Fetched]) -> tuple[Callable, dict[str, tf.Tensor]]:
  fn, given = host_call or (None, [])
  tensors = _by_name(given, "host_call")
  kept = {f"fetched/{i}": one for i, one in enumerate(fetched) if one.tensor is not None}

  def call(**rows: tf.Tensor) -> None:
    for key, one in kept.items():
      one.keep(rows[key])
    if fn is not None:
      own = {name: rows[name] for name in tensors}
      fn(**own) if isinstance(given, Mapping) else fn(*own.values())

  return call, tensors | {key: tf.expand_dims(one.tensor, 0) for key, one in kept.items()}


def _by_name(tensors: Any, prefix: str) -> dict[str, tf.Tensor]:
  if isinstance(tensors, Mapping):
    return dict(tensors)
  return {f"{prefix}/{index}": tensor for index, tensor in enumerate(tensors)}
