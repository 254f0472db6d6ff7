"""Names Keras's variables as a graph of TensorFlow 2.15 does, in a program's functions.

There a layer opens a TensorFlow scope inside the current scope when the program calls it, and the
graph makes the new scope's name unique. The layer's variables get the name of the scope around
their creation: `dnn/dense/kernel` of a Dense in `tf.variable_scope("dnn")`. Keras 3 names variables
by its own scopes, `dense/kernel`. With the names of 2.15, old checkpoints fit, and
`tf.trainable_variables("dnn")` finds the layer.

A layer that the program builds without calling it opens no scope. Keras's own layers open a scope
for each layer that they build themselves, such as the cell of an LSTM; wrappers such as
TimeDistributed do not. A Sequential with a known input shape builds its layers when the program
makes it: `dense/kernel`, not `sequential/dense/kernel`.
"""

import bisect
import collections
import contextlib
import contextvars
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from trainer.compat.graph_mode import habits
from trainer.internals import keras_internals, patches
from trainer.tracing import keras_scope

v1 = tf.compat.v1

# Layers of Keras that open no scope for the layers that they build.
_WITHOUT_SCOPES = (
  keras.layers.Wrapper,
  keras.layers.ConvLSTM1D,
  keras.layers.ConvLSTM2D,
  keras.layers.ConvLSTM3D,
)

# Layers whose "kernel" had the name "depthwise_kernel" in Keras 2.
_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)


@dataclasses.dataclass
class _Trace:
  """A trace of a model_fn.

  Attributes:
    root: the scope of TensorFlow around the model_fn.
    made: by id: each variable that a layer makes, the layer, and the TensorFlow scope around the
      creation. Keras may create the tf.Variable later, in another scope.
    numbers: by a name such as "dense": the sorted numbers of the layers of tf.layers with this
      name.
  """

  root: str
  made: dict[int, tuple[keras.Variable, keras.layers.Layer, str]] = dataclasses.field(
    default_factory=dict
  )
  numbers: dict[str, list[int]] = dataclasses.field(
    default_factory=lambda: collections.defaultdict(list)
  )

  def names(self, variable: keras.Variable) -> tuple[str, str] | None:
    """Returns a variable's (name, name in earlier checkpoints); None if no layer made it.

    Variables of optimizers and metrics have scopes of Keras alone.
    """
    if id(variable) not in self.made:
      return None
    _, layer, scope = self.made[id(variable)]
    name = variable.name
    if name == "kernel" and isinstance(layer, _DEPTHWISE):
      name = "depthwise_kernel"
    former = map(self._former, variable.path.split("/"))
    return scope.removeprefix(self.root) + name, "/".join(former)

  def _former(self, name):
    """Returns a layer's name, with its number if tf.layers had made no layers."""
    base, _, number = name.rpartition("_")
    if name in self.numbers:
      base, number = name, "0"
    if not number.isdecimal() or base not in self.numbers:
      return name
    number = int(number) - bisect.bisect(self.numbers[base], int(number))
    return f"{base}_{number}" if number else base


@dataclasses.dataclass(frozen=True)
class _Call:
  """A call of a layer: its TensorFlow scope, with a slash at the end, and the scope's graph."""

  layer: keras.layers.Layer
  graph: Any
  scope: str


_trace: contextvars.ContextVar[_Trace | None] = contextvars.ContextVar("compat_trace", default=None)

# The innermost call of a layer on this thread, or None.
_call: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("compat_call", default=None)


# Whether the program makes a Sequential, or adds a layer to one: not a call.
_is_made: contextvars.ContextVar[bool] = contextvars.ContextVar("compat_is_made", default=False)


@contextlib.contextmanager
def model_fn_scope() -> Iterator[None]:
  """Gives a model_fn's variables these names, inside the context and on this thread."""
  trace = _Trace(_current_scope())
  with keras_scope.named_by(trace.names), patches.set_context(_trace, trace):
    yield


def count(kind: str) -> None:
  """Counts an unnamed layer of tf.layers among the layers of Keras, as 2.15 does.

  Args:
    kind: the name of its class.
  """
  if (trace := _trace.get()) is not None:
    base = keras_internals.to_snake_case(kind)
    number = keras_internals.auto_name(kind).removeprefix(base).lstrip("_")
    trace.numbers[base].append(int(number or 0))


def _current_scope() -> str:
  """Returns the current TensorFlow scope, with a slash at the end; "" for the outermost."""
  return f"{tf.get_current_name_scope()}/".lstrip("/")


@patches.replaces(*keras_internals.MAKE_VARIABLE)
def _make_variable(original, self, *args, **kwargs):
  trace, makers = _trace.get(), keras_internals.being_built()
  if trace is not None and makers and isinstance(makers[-1], keras.layers.Layer):
    # Record the scope before Keras creates the tf.Variable: with deferred initialization the
    # creation comes later, in the scope of the first read.
    trace.made[id(self)] = self, makers[-1], _current_scope()
  original(self, *args, **kwargs)


class _SlashedName(str):
  """A layer's name with slashes, which Keras 3 looks for and refuses; Keras 2 allowed them."""

  def __contains__(self, part: str) -> bool:
    return part != "/" and super().__contains__(part)


@patches.replaces(keras.Operation, "__init__")
def _name(original, self, name=None):
  slashed = habits.are_enabled() and isinstance(name, str) and "/" in name
  original(self, _SlashedName(name) if slashed else name)


def call(inner: Callable, layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> Any:
  """Calls a layer in a scope of TensorFlow; see layer_calls."""
  args, kwargs = _by_name(layer, args, kwargs)
  graph, outer = v1.get_default_graph(), _call.get()
  with contextlib.ExitStack() as scopes:
    if outer is not None and outer.graph is not graph:
      # Keras builds some layers by tracing their call, in a new graph without the scopes around.
      scopes.enter_context(tf.name_scope(outer.scope + _current_scope()))
    scope = _current_scope() if _is_rebuilt(layer, args) else None
    scope = scope or scopes.enter_context(tf.name_scope(layer.name))
    scopes.enter_context(patches.set_context(_call, _Call(layer, graph, scope)))
    if _is_made.get():  # restart the paths of variables here, as in earlier checkpoints
      scopes.enter_context(keras.name_scope("", override_parent="", deduplicate=False))
      scopes.enter_context(patches.set_context(_is_made, False))
    return inner(layer, *args, **kwargs)


def _by_name(layer, args, kwargs):
  """Returns a call's arguments, from the second on by name if they are no tensors.

  Keras 3 takes only tensors by position, and sets `training` by name.
  """
  rest = args[1:]
  kwargs = {name: _without_numbers(value) for name, value in kwargs.items()}
  if all(map(tf.is_tensor, tf.nest.flatten(rest))):
    return args, kwargs
  rest = [_without_numbers(value) for value in rest]
  parameters = inspect.signature(layer.call).parameters.values()
  names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
  if len(names) < len(args):  # `call` takes any arguments
    return args, kwargs
  return args[:1], dict(zip(names[1:], rest, strict=False)) | kwargs


def _without_numbers(value):
  """Returns an argument with tensors for numbers if it has both: Keras 3 refuses a mixture."""
  if not any(map(tf.is_tensor, tf.nest.flatten(value))):
    return value
  return tf.nest.map_structure(
    lambda leaf: tf.constant(leaf) if type(leaf) in (int, float) else leaf, value
  )


def _is_rebuilt(layer, inputs):
  """Returns whether a Sequential calls its earlier layers because it gets one more layer."""
  around = keras_internals.being_built()
  return (
    layer.built
    and bool(inputs)
    and isinstance(inputs[0], keras.KerasTensor)
    and bool(around)
    and isinstance(around[-1], keras.Sequential)
  )


@patches.replaces(*keras_internals.ENTER_SCOPE)
def _enter(original, self):
  if habits.are_enabled() and _stays(self):
    keras_internals.set_scope_of_tensorflow(self, _current_scope())
  return original(self)


def _stays(scope):
  """Returns whether a scope of Keras opens no scope of TensorFlow."""
  layer = scope.caller
  if not isinstance(layer, keras.layers.Layer):
    return not scope.name
  call, around = _call.get(), keras_internals.being_built()
  if (call is not None and call.layer is layer) or not around:
    return True
  # The layer is in its build, without a call.
  builder = around[-1]
  return not (
    isinstance(builder, keras.layers.Layer)
    and type(builder).build.__module__.startswith("keras.")
    and not isinstance(builder, _WITHOUT_SCOPES)
  )


def _make(original, self, *args, **kwargs):
  with patches.set_context(_is_made, habits.are_enabled()):
    return original(self, *args, **kwargs)


patches.replaces(keras.Sequential, "__init__")(_make)
patches.replaces(keras.Sequential, "add")(_make)
