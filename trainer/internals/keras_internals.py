"""What Keras keeps to itself and Octet relies on, from Keras 3.5 on. The one file that names it."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from trainer.internals import private_names

# What is replaced, as `patches.replaces` takes it.

# What every optimizer's `apply_gradients` comes to.
APPLY = private_names.member("keras.src.optimizers.base_optimizer.BaseOptimizer.apply")

# Sums the gradients of [(gradient, variable)] over the replicas.
SUM_GRADIENTS = private_names.member(
  "keras.src.backend.tensorflow.optimizer.TFOptimizer._all_reduce_sum_gradients"
)

# Updates the variables, of which `update_step` is for one.
ADAM_UPDATE = private_names.member("keras.src.optimizers.adam.Adam._backend_update_step")

# Make a variable's tf.Variable, from a value or from an initializer.
INITIALIZE = private_names.member("keras.src.backend.Variable._initialize")
INITIALIZE_WITH_INITIALIZER = private_names.member(
  "keras.src.backend.Variable._initialize_with_initializer"
)

# The seed of a random operation.
NEXT_SEED = private_names.member("keras.src.random.seed_generator.SeedGenerator.next")

# The seed of an initializer, or of a generator of seeds, that nobody gave one.
DEFAULT_SEED = private_names.member("keras.src.backend.tensorflow.random.make_default_seed")

# The dropout of layers.
DROPOUT = private_names.member("keras.src.backend.tensorflow.random.dropout")

# Divides a loss by the number of replicas. None before Keras 3.8, whose losses nobody divides.
SCALE_LOSS = private_names.member(
  "keras.src.losses.loss.scale_loss_for_distribution", is_needed=False
)

# What is called.

Functional = private_names.find("keras.src.models.functional.Functional")
to_snake_case = private_names.find("keras.src.utils.naming.to_snake_case")

_CompileLoss = private_names.find("keras.src.trainers.compile_utils.CompileLoss")
_CompileMetrics = private_names.find("keras.src.trainers.compile_utils.CompileMetrics")
_get_global = private_names.find("keras.src.backend.common.global_state.get_global_attribute")
_set_global = private_names.find("keras.src.backend.common.global_state.set_global_attribute")
_cast_seed = private_names.find("keras.src.backend.tensorflow.random._cast_seed")
_draw_seed = private_names.find("keras.src.random.seed_generator.draw_seed")
_moments = private_names.find("keras.layers.BatchNormalization._moments")


@contextlib.contextmanager
def global_state(values: dict[str, Any]) -> Iterator[None]:
  """Inside, this thread's attributes of Keras's global state have these values."""
  saved = {key: _get_global(key) for key in values}
  for key, value in values.items():
    _set_global(key, value)
  try:
    yield
  finally:
    for key, value in saved.items():
      _set_global(key, value)


def lacks_seed(initializer: Any) -> bool:
  """Whether an initializer draws random numbers, and nobody gave it a seed for them."""
  return getattr(initializer, "_init_seed", 0) is None


def shape_of(variable: keras.Variable) -> tuple[int, ...] | None:
  """Its shape; None of one that is being made from a value, and does not know it yet."""
  return variable._shape


def initial_seed(generator: keras.random.SeedGenerator) -> int | None:
  """The seed that it was given."""
  return generator._initial_seed


def draw_seed(seed: Any) -> Any:
  """The seed (int32 [2]) for a stateless operation, of what a layer gives to a random function."""
  return _cast_seed(_draw_seed(seed))


def averages(optimizer: keras.optimizers.Adam, variable: Any) -> tuple[Any, Any]:
  """Adam's averages of a variable's gradient and of its square."""
  index = optimizer._get_variable_index(variable)
  return optimizer._momentums[index], optimizer._velocities[index]


def has_own_moments(layer: keras.layers.BatchNormalization) -> bool:
  """Whether the mean and variance of a batch are those of Keras's layer, no subclass's."""
  return type(layer)._moments is _moments


def renormalizes(layer: keras.layers.BatchNormalization) -> bool:
  """Whether it does batch renormalization, which older versions do not know."""
  return getattr(layer, "renorm", False)


def set_loss(model: keras.Model, loss: Any, output_names: list[str] | None) -> None:
  """Gives a model its loss, in place of `compile`, which would also make metrics."""
  model._compile_loss = _CompileLoss(loss, None, output_names=output_names)


def compiled_metrics(model: keras.Model) -> Any:
  """The metrics that a model was compiled with, as they were given; None if there are none."""
  compiled = getattr(model, "_compile_metrics", None)
  return compiled._user_metrics if compiled is not None else None


def updated_metrics(
  metrics: Any, labels: Any, outputs: Any, output_names: list[str] | None
) -> dict[str, keras.metrics.Metric]:
  """The metrics of a batch by name, of what `keras.Model.compile` takes."""
  compiled = _CompileMetrics(metrics, None, output_names=output_names)
  compiled.update_state(labels, outputs)
  groups = [group for group in compiled._flat_metrics if group is not None]
  return {
    f"{group.output_name}_{metric.name}" if group.output_name else metric.name: metric
    for group in groups
    for metric in group.metrics
  }
