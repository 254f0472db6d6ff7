"""The private names of Keras that Octet uses, from Keras 3.5 on. No other file uses them."""

import contextlib
import copy
import inspect
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from trainer.internals import private_names

# Functions that Octet replaces: (owner, name) for `patches.replaces`.

# Every optimizer's `apply_gradients` ends in this call.
APPLY = private_names.member("keras.src.optimizers.base_optimizer.BaseOptimizer.apply")

# Sums the gradients in [(gradient, variable)] over the replicas.
SUM_GRADIENTS = private_names.member(
  "keras.src.backend.tensorflow.optimizer.TFOptimizer._all_reduce_sum_gradients"
)

# The __init__ of the base class of all optimizers, and of all layers: every subclass calls it.
MAKE_OPTIMIZER = private_names.member("keras.src.optimizers.base_optimizer.BaseOptimizer.__init__")
MAKE_OPERATION = private_names.member("keras.src.ops.operation.Operation.__init__")

# Makes each Keras variable, and enters each scope, of a layer and others. Up to Keras 3.6 the
# public classes derive from these.
MAKE_VARIABLE = private_names.member("keras.src.backend.Variable.__init__")
ENTER_SCOPE = private_names.member("keras.src.backend.name_scope.__enter__")

# Updates all variables; it calls `update_step` once for each.
ADAM_UPDATE = private_names.member("keras.src.optimizers.adam.Adam._backend_update_step")

# Whether Muon updates a variable as AdamW does. None in older versions, which have no Muon.
MUON_USES_ADAMW = private_names.member_if_any("keras.src.optimizers.muon.Muon._should_use_adamw")

# These two create the tf.Variable of a Keras variable, from a value or from an initializer.
INITIALIZE = private_names.member("keras.src.backend.Variable._initialize")
INITIALIZE_WITH_INITIALIZER = private_names.member(
  "keras.src.backend.Variable._initialize_with_initializer"
)

# Assigns a value, also for `load_weights` and `set_weights`.
ASSIGN = private_names.member("keras.src.backend.Variable.assign")

# Returns the seed for one random operation.
NEXT_SEED = private_names.member("keras.src.random.seed_generator.SeedGenerator.next")

# Draws a seed for an initializer without one.
DEFAULT_SEED = private_names.member("keras.src.backend.tensorflow.random.make_default_seed")

# Draws a seed for a SeedGenerator without one.
GENERATOR_SEED = private_names.member("keras.src.random.seed_generator.make_default_seed")

# The dropout that layers call.
DROPOUT = private_names.member("keras.src.backend.tensorflow.random.dropout")

# Divides a loss by the number of replicas. None before Keras 3.8, which does not divide losses.
SCALE_LOSS = private_names.member_if_any("keras.src.losses.loss.scale_loss_for_distribution")

# Reduces the values of a loss, with their weights and mask, to a number.
REDUCE_LOSS = private_names.member("keras.src.losses.loss.reduce_weighted_values")

# Computes the mean and variance of a batch for batch normalization.
MOMENTS = private_names.member("keras.layers.BatchNormalization._moments")

# Returns the inputs behind a tensor; models of keras.applications ask for those of input_tensor.
SOURCE_INPUTS = private_names.member("keras.src.ops.operation_utils.get_source_inputs")

# Functions and classes that Octet calls.

# A context in which this thread deserializes in safe mode, whatever the process's setting.
safe_mode = private_names.find("keras.src.saving.serialization_lib.SafeModeScope")

# Records a call of a layer or an operation in a Functional model.
Node = private_names.find("keras.src.ops.node.Node")

Functional = private_names.find("keras.src.models.functional.Functional")
auto_name = private_names.find("keras.src.utils.naming.auto_name")
to_snake_case = private_names.find("keras.src.utils.naming.to_snake_case")

# The attribute of a tensor with Keras's mask.
_MASK = "_keras_mask"

_compute_loss = private_names.find("keras.Model._compute_loss")
_CompileLoss = private_names.find("keras.src.trainers.compile_utils.CompileLoss")
_CompileMetrics = private_names.find("keras.src.trainers.compile_utils.CompileMetrics")
_get_global = private_names.find("keras.src.backend.common.global_state.get_global_attribute")
_set_global = private_names.find("keras.src.backend.common.global_state.set_global_attribute")
_cast_seed = private_names.find("keras.src.backend.tensorflow.random._cast_seed")
_draw_seed = private_names.find("keras.src.random.seed_generator.draw_seed")


def default_name(optimizer: keras.optimizers.Optimizer) -> str | None:
  """Returns the name that a Keras class gives to an optimizer without a name.

  None from Keras 3.15 on, where the name follows from the class of the optimizer.
  """
  for kind in type(optimizer).__mro__:
    if kind.__module__.startswith("keras.") and "__init__" in vars(kind):
      name = inspect.signature(vars(kind)["__init__"]).parameters.get("name")
      return None if name is None else name.default
  return None


def being_built() -> list[Any]:
  """Returns the layers and optimizers that Keras builds or calls here, the outermost first."""
  return [
    scope.caller for scope in _get_global("name_scope_stack") or [] if scope.caller is not None
  ]


def runs_a_call() -> bool:
  """Whether Keras runs the `call` of a layer in this thread, not its `build`."""
  callers = being_built()
  return bool(callers) and callers[-1].built


def infers_shapes() -> bool:
  """Whether Keras calls a layer here only to find the shape of its output."""
  return _get_global("stateless_scope") is not None


def set_scope_of_tensorflow(scope: keras.name_scope, name: str) -> None:
  """Sets the tf.name_scope that a scope of Keras opens."""
  scope._tf_name_scope = tf.name_scope(name)


@contextlib.contextmanager
def global_state(values: dict[str, Any]) -> Iterator[None]:
  """Sets attributes of this thread's Keras global state while the context is open.

  Args:
    values: attribute name → value. The previous values come back at the end.
  """
  saved = {key: _get_global(key) for key in values}
  for key, value in values.items():
    _set_global(key, value)
  try:
    yield
  finally:
    for key, value in saved.items():
      _set_global(key, value)


def copied_global_state(*names: str) -> dict[str, Any]:
  """Returns attribute name → a copy of its value, of this thread's Keras global state."""
  return {name: copy.copy(_get_global(name)) for name in names}


def lacks_seed(initializer: Any) -> bool:
  """Returns whether an initializer draws random numbers and has no seed."""
  return getattr(initializer, "_init_seed", 0) is None


def shape_of(variable: keras.Variable) -> tuple[int, ...] | None:
  """Returns a variable's shape.

  Returns:
    None while Keras creates the variable from a value, when the shape is still unknown.
  """
  return variable._shape


def initial_seed(generator: keras.random.SeedGenerator) -> int | None:
  """Returns a generator's initial seed, or None."""
  return generator._initial_seed


def draw_seed(seed: Any) -> Any:
  """Turns the `seed` argument of a Keras random function into the seed of a stateless operation.

  Args:
    seed: an int, a keras.random.SeedGenerator or None.

  Returns:
    int32 [2].
  """
  return _cast_seed(_draw_seed(seed))


def averages(optimizer: keras.optimizers.Adam, variable: Any) -> tuple[Any, Any]:
  """Returns Adam's moving averages for a variable: of its gradient and of the squared gradient."""
  index = optimizer._get_variable_index(variable)
  return optimizer._momentums[index], optimizer._velocities[index]


def has_own_moments(layer: keras.layers.BatchNormalization) -> bool:
  """Returns whether a layer computes batch moments as Keras does, and not in a subclass's way."""
  return type(layer)._moments is keras.layers.BatchNormalization._moments


def axes_of_moments(layer: keras.layers.BatchNormalization) -> list[int]:
  """Returns the axes over which a layer takes the moments of a batch."""
  return layer._reduction_axes


def renormalizes(layer: keras.layers.BatchNormalization) -> bool:
  """Returns whether a layer does batch renormalization. Older versions of Keras have none."""
  return getattr(layer, "renorm", False)


def layers_of(model: keras.Model) -> list[keras.layers.Layer]:
  """Returns a model's layers, also those inside of layers."""
  return list(model._flatten_layers(include_self=False))


def mask_of(tensor: tf.Tensor) -> tf.Tensor | None:
  """Returns the mask that Keras keeps with a layer's output: losses and metrics leave it out."""
  return getattr(tensor, _MASK, None)


def is_own(metric: keras.metrics.Metric) -> bool:
  """Whether a metric's class is Keras's own, not a user's."""
  return type(metric).__module__.startswith("keras.")


def function_of(metric: keras.metrics.MeanMetricWrapper) -> Any:
  """Returns the function whose mean the metric is."""
  return metric._fn


def set_mask(tensor: tf.Tensor, mask: tf.Tensor | None) -> None:
  """Sets the mask of a tensor, see `mask_of`."""
  if mask is not None:
    setattr(tensor, _MASK, mask)


def compute_loss(
  model: keras.Model, features: Any, labels: Any, outputs: Any, sample_weight: Any, training: bool
) -> tf.Tensor:
  """Returns the result of a model's `compute_loss`, which may lack the argument `training`."""
  return _compute_loss(model, features, labels, outputs, sample_weight, training)


def copy_decay_exclusions(
  optimizer: keras.optimizers.Optimizer, copy: keras.optimizers.Optimizer
) -> bool:
  """Gives a copy the names that an optimizer excludes from weight decay.

  Returns:
    False if the optimizer excludes variables themselves.
  """
  pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
  if pattern is not None:
    copy.exclude_from_weight_decay(var_names=[pattern.pattern])
  return not getattr(optimizer, "_exclude_from_weight_decay", None)


def set_loss(model: keras.Model, loss: Any, output_names: list[str] | None) -> None:
  """Sets a model's loss. `compile` would also create metrics, with unwanted variables.

  Args:
    model: the model; it changes.
    loss: as for `keras.Model.compile`.
    output_names: names of the model's outputs, or None.
  """
  model._compile_loss = _CompileLoss(loss, None, output_names=output_names)


def loss_reductions(model: keras.Model) -> set[str | None]:
  """Returns the reductions of a model's loss objects, see keras.losses.Loss."""
  compiled = getattr(model, "_compile_loss", None)
  losses = keras.tree.flatten(compiled._user_loss) if compiled is not None else []
  return {loss.reduction for loss in losses if isinstance(loss, keras.losses.Loss)}


def compiled_metrics(model: keras.Model) -> tuple[Any, Any]:
  """Returns a model's compiled metrics and weighted_metrics; None without one."""
  compiled = getattr(model, "_compile_metrics", None)
  if compiled is None:
    return None, None
  return compiled._user_metrics, compiled._user_weighted_metrics


def updated_metrics(
  metrics: Any,
  weighted_metrics: Any,
  labels: Any,
  outputs: Any,
  sample_weight: Any,
  output_names: list[str] | None,
) -> dict[str, keras.metrics.Metric]:
  """Creates the metrics that `keras.Model.compile` would, and updates them with one batch.

  Args:
    metrics: what `keras.Model.compile` takes as metrics.
    weighted_metrics: what it takes as weighted_metrics.
    labels: the batch's labels.
    outputs: the model's outputs for the batch.
    sample_weight: the weights of the batch, for weighted_metrics; or None.
    output_names: names of the model's outputs, or None.

  Returns:
    Metric name → metric. The name of a named output is in front, as in "head_accuracy"; then
    "weighted_", where metrics have the same name.
  """
  compiled = _CompileMetrics(metrics, weighted_metrics, output_names=output_names)
  compiled.update_state(labels, outputs, sample_weight)
  found: dict[str, keras.metrics.Metric] = {}
  for of_kind in (compiled._flat_metrics, compiled._flat_weighted_metrics):
    for group in (group for group in of_kind if group is not None):
      for metric in group.metrics:
        output = f"{group.output_name}_" if group.output_name else ""
        is_taken = of_kind is compiled._flat_weighted_metrics and output + metric.name in found
        found[f"{output}{'weighted_' if is_taken else ''}{metric.name}"] = metric
  return found
