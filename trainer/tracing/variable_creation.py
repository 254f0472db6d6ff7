"""Decides the kind, the place and the name of a variable that a VariableStore creates.

The kind follows from the arguments of the call that asks for the variable:

| kind      | variables                                            | on several replicas           |
|-----------|------------------------------------------------------|-------------------------------|
| statistic | an untrained float, such as a moving mean            | each its own; saved: the mean |
| local     | counters of metrics, state of seeds, `scratch_scope` | as requested; never saved     |
| other     | weights, slots of an optimizer                       | as requested; default: equal  |
"""

import contextlib
import contextvars
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, patches, tensorflow_internals
from trainer.tracing import graph_collections, initial_values, keras_scope, outside_variables

v1 = tf.compat.v1

# The end of the name of a Keras seed generator's state, which `KerasScope.next_seed` replaces.
_SEED_STATE = "seed_generator_state"

# Whether every replica makes the same changes to variables created now.
_changed_alike = contextvars.ContextVar("variables are changed alike", default=False)

# Whether checkpoints leave out variables created now.
_is_scratch = contextvars.ContextVar("variables are scratch", default=False)


def changed_alike_scope() -> contextlib.AbstractContextManager[None]:
  """Returns a context for creating variables to which all replicas make the same changes.

  Optimizer slots are such variables. Others, such as a BatchNormalization's moving mean, differ
  from replica to replica.
  """
  return patches.set_context(_changed_alike, True)


def scratch_scope() -> contextlib.AbstractContextManager[None]:
  """Returns a context for creating variables that no checkpoint holds."""
  return patches.set_context(_is_scratch, True)


def is_local(name: str, kwargs: dict[str, Any]) -> bool:
  """Returns whether no checkpoint holds the requested variable."""
  asked_for = kwargs.get("collections") or ()
  return (
    _is_scratch.get() or name.endswith(_SEED_STATE) or v1.GraphKeys.LOCAL_VARIABLES in asked_for
  )


def path(name: str | None) -> str:
  """Returns the name of a variable that Keras does not make: with the model_fn's scopes around."""
  if name and name.endswith("/"):  # a whole scope, see StoreRun._collect_on_replica
    return name.strip("/")
  scopes = graph_collections.OUTER_SCOPES.sub("", f"{tf.get_current_name_scope()}/", count=1)
  return (scopes + (name or "Variable")).strip("/")


def collections_of(variable: tf.Variable, kwargs: dict[str, Any]) -> list[str]:
  """Returns the keys of the graph's collections that a variable belongs to."""
  # What no checkpoint holds, none of a program's Savers may ask for.
  of_seeds = variable.name.removesuffix(":0").endswith(_SEED_STATE)
  default = v1.GraphKeys.LOCAL_VARIABLES if of_seeds else v1.GraphKeys.GLOBAL_VARIABLES
  keys = list(kwargs.get("collections") or [default])
  return [*keys, v1.GraphKeys.TRAINABLE_VARIABLES] if variable.trainable else keys


def create(
  next_creator: Callable[..., tf.Variable],
  name: str,
  initial_value: initial_values.InitialValue,
  kwargs: dict[str, Any],
) -> tf.Variable:
  """Creates a variable outside of the traced graph."""
  # The store owns the variable. So it must not enter the graph's collections (StoreRun adds it to
  # the replica's own), and tf.function must not lift its initializer out of the graph.
  kwargs = dict(
    kwargs,
    name=name,
    initial_value=initial_value.for_tensorflow(),
    collections=None,
    experimental_enable_variable_lifting=False,
  )
  if _is_statistic(kwargs):
    # Each replica updates its own value; read outside of replicas, the variable is their mean.
    kwargs.update(
      synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN
    )
  # init_scope leaves the traced graph: the variable outlives the trace.
  with tf.init_scope(), tf.name_scope(""):
    return next_creator(**kwargs)


def _is_statistic(kwargs):
  """Whether a variable is a statistic, such as a BatchNormalization's moving mean.

  The request shows it: a float that is not trainable, without a synchronization or aggregation.
  """
  return (
    not _changed_alike.get()
    and kwargs.get("trainable") is False
    and kwargs.get("colocate_with") is None  # an optimizer colocates slots with their variable
    and kwargs.get("dtype")
    and tf.as_dtype(kwargs["dtype"]).is_floating
    and kwargs.get("synchronization") in (None, tf.VariableSynchronization.AUTO)
    and kwargs.get("aggregation") in (None, tf.VariableAggregation.NONE)
  )


def require_same(
  variable: tf.Variable, name: str, maker: keras.Variable | None, kwargs: dict[str, Any]
) -> None:
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
      if not tf.is_tensor(value):
        value = tf.convert_to_tensor(value() if callable(value) else value)
    shape, dtype = value.shape, kwargs.get("dtype") or value.dtype
  shape, dtype = tf.TensorShape(shape), tf.as_dtype(dtype).base_dtype
  if (shape, dtype) != (variable.shape, variable.dtype.base_dtype):
    raise errors.ModelFnError(
      f"model_fn creates the variable {name} with shape {shape} and dtype {dtype.name}. An earlier "
      f"call created it with shape {variable.shape} and dtype {variable.dtype.base_dtype.name}: a "
      "name must mean the same variable in every mode."
    )
