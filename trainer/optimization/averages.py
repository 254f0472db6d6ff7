"""Averages of the trained variables: moving averages to evaluate, and slow weights to train from.

minimize.ema_decay = 0.99
minimize.lookahead = @trainer.Lookahead()
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import tensorflow as tf

from trainer.config import gin_names
from trainer.optimization import schedules
from trainer.settings import setting_types
from trainer.tracing import replica_updates, store_run

# `minimize` keeps these for each trained variable, under names that begin so: moving averages, slow
# weights, sums of gradients.
EMA_SCOPE = "ema"
LOOKAHEAD_SCOPE = "lookahead"
ACCUMULATED_SCOPE = "accumulated"
SCOPES = (EMA_SCOPE, LOOKAHEAD_SCOPE, ACCUMULATED_SCOPE)

Decay = Annotated[
  float, setting_types.Rule("a number between 0 and 1", lambda value: 0 < value < 1)
]


def ema_name(name: str) -> str:
  """Returns the name of a variable's moving average."""
  return f"{EMA_SCOPE}/{name}"


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class Lookahead:
  """Slow weights, from which the training continues every few steps.

  After every `every` steps each slow weight moves towards its variable and the variable takes the
  slow weight's value: `slow = variable = d × slow + (1 - d) × variable`. M. Zhang et al.,
  "Lookahead Optimizer: k steps forward, 1 step back" (2019), has a constant d. With a growing d the
  training starts fast and ends with an average: K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a
  Single GPU" (2024), whose numbers are the defaults.

  The exchange includes the trained variables and the statistics, such as the moving means of batch
  norm, which must fit the weights. If the number of steps of a training is a multiple of `every`,
  it ends with the slow weights.

  Attributes:
    every: number of steps between two exchanges. The first exchange copies the variables.
    decay: d at the end of the training.
    power: d at a share p of the training is decay × p ** power; 0 for a constant d.

  Raises:
    SettingError: a value is out of range.
  """

  every: setting_types.Count = 5
  decay: Decay = 0.95**5
  power: setting_types.NotNegative = 3.0


def mirrored(variable: Any, scope: str) -> tf.Variable:
  """Makes a variable of zeros with a trained one's shape, and equal values on all replicas.

  Args:
    variable: the trained one.
    scope: what its name begins with.
  """
  name = getattr(variable, "path", variable.name).removesuffix(":0")
  # Outside of the model_fn's name scope, so that the variables' names do not depend on it.
  with tf.name_scope(""):
    return tf.Variable(
      tf.zeros(variable.shape, variable.dtype),
      trainable=False,
      name=f"{scope}/{name}",
      aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def update_ema(trained: Sequence[Any], decay: float) -> None:
  """Updates the moving averages of variables.

  Args:
    trained: the variables.
    decay: in (0, 1), the share of an average that stays.
  """
  averages = [mirrored(variable, EMA_SCOPE) for variable in trained]
  _move(averages, trained, decay, counter(f"{EMA_SCOPE}/updates"))


def look_ahead(
  trained: Sequence[Any], statistics: Mapping[str, tf.Variable], settings: Lookahead
) -> None:
  """Schedules the exchange with the slow weights after the steps of `settings.every`.

  Args:
    trained: the variables.
    statistics: name → statistic of the model; each replica has its own.
    settings: the Lookahead.
  """
  slow = [mirrored(variable, LOOKAHEAD_SCOPE) for variable in trained]
  own = {name: each for name, each in statistics.items() if not name.startswith(SCOPES)}
  with tf.name_scope(""):  # a variable like this is a statistic: each replica has its own
    slow_statistics = [
      tf.Variable(
        tf.zeros(each.shape, each.dtype),
        trainable=False,
        name=f"{LOOKAHEAD_SCOPE}/{name}",
        dtype=each.dtype,
      )
      for name, each in own.items()
    ]
  count = counter(f"{LOOKAHEAD_SCOPE}/updates")

  def exchange():
    decay = settings.decay
    if settings.power:
      decay *= schedules.progress("Lookahead.power") ** settings.power
    for average, variable in zip(slow_statistics, own.values(), strict=True):
      variable.assign(_moved(average, variable, decay, count))
    _move(slow, trained, decay, count)
    replica_updates.update_each(
      lambda variable, value: variable.assign(value),
      [tensorflow_variable(variable) for variable in trained],
      [tf.convert_to_tensor(average) for average in slow],
    )

  store_run.request_after_step(exchange, every=settings.every)


def tensorflow_variable(variable: Any) -> tf.Variable:
  """Returns the tf.Variable of a variable, which may be a Keras variable."""
  return variable if isinstance(variable, tf.Variable) else variable.value


def counter(name: str, dtype: tf.DType = tf.int64) -> tf.Variable:
  """Makes a scalar variable that starts at 0, with equal values on all replicas."""
  with tf.name_scope(""):
    return tf.Variable(
      0,
      trainable=False,
      name=name,
      dtype=dtype,
      aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def _moved(average, variable, decay, updates):
  """Moves one average towards a variable; returns its new value."""
  kept = tf.where(tf.equal(updates, 0), 0.0, tf.cast(decay, average.dtype))
  value = kept * average + (1 - kept) * tf.convert_to_tensor(variable)
  average.assign(value)
  return value


def _move(averages, trained, decay, updates):
  """Moves averages towards variables.

  The first update copies the variables. Starting from 0 would bias the averages towards 0.
  """
  replica_updates.update_each(
    lambda average, variable, updates: _moved(average, variable, decay, updates),
    averages,
    [tensorflow_variable(variable) for variable in trained],
    [updates] * len(averages),
  )
  replica_updates.update_each(lambda count: count.assign_add(1), [updates])
