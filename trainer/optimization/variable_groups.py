"""Settings of an optimizer for some of the variables, by their names.

minimize.groups = [@frozen/trainer.VariableGroup(), @plain/trainer.VariableGroup()]
frozen/VariableGroup.names = "^stem/"
frozen/VariableGroup.trainable = False
plain/VariableGroup.names = "(bias|gamma|beta)$"
plain/VariableGroup.weight_decay = False
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.config import files, gin_names
from trainer.optimization import averages, schedules
from trainer.settings import setting_types
from trainer.tracing import replica_updates


def _is_pattern(value):
  try:
    re.compile(value)
  except re.error:
    return False
  return True


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True, kw_only=True)
class VariableGroup:
  """Training settings for variables by name. A variable belongs to the first group that matches.

  Attributes:
    names: regular expression, searched in the names of the variables.
    learning_rate_factor: multiplies the optimizer's update of a variable, with the effect of that
      many times the learning rate.
    weight_decay: whether the optimizer's decoupled weight decay applies to the group.
    until: duration after which the variables stay constant, such as "3 epochs"; None to train them
      to the end.
    trainable: False keeps them constant, and the optimizer stores nothing for them.

  Raises:
    SettingError: a value is wrong.
  """

  names: Annotated[str, setting_types.Rule("a regular expression", _is_pattern)]
  learning_rate_factor: setting_types.Positive = 1.0
  weight_decay: bool = True
  until: schedules.Duration | None = None
  trainable: bool = True


class Groups:
  """The variables of a model_fn in their groups.

  Attributes:
    trained: the variables in training.

  Raises:
    SettingError: a group has no variable, or all groups are constant.
  """

  def __init__(self, groups: Sequence[VariableGroup], trained: Sequence[Any]) -> None:
    names = [_name(variable) for variable in trained]
    for group in groups:
      if not any(re.search(group.names, name) for name in names):
        near = files.did_you_mean(group.names, names) or f" There are {', '.join(names[:20])}."
        raise errors.SettingError(
          f"VariableGroup.names = {group.names!r} matches the name of no trainable variable.{near}"
        )
    self._groups = [
      next((group for group in groups if re.search(group.names, name)), None) for name in names
    ]
    pairs = list(zip(trained, self._groups, strict=True))
    self.trained = [variable for variable, group in pairs if group is None or group.trainable]
    self._without_decay = [
      variable for variable, group in pairs if group and not group.weight_decay
    ]
    self._scaled = {
      id(variable): group
      for variable, group in pairs
      if group and (group.learning_rate_factor != 1.0 or group.until is not None)
    }
    if not self.trained:
      raise errors.SettingError(
        "minimize.groups leave no variable to train: VariableGroup.trainable = False has taken the "
        "last one."
      )

  def exclude_from_decay(self, optimizer: Any) -> None:
    """Excludes variables from an optimizer's weight decay.

    Raises:
      SettingError: the optimizer is not a Keras optimizer with weight decay.
    """
    if not self._without_decay:
      return
    if not isinstance(optimizer, keras.optimizers.Optimizer) or not optimizer.weight_decay:
      raise errors.SettingError(
        "VariableGroup.weight_decay = False needs a Keras optimizer with a weight decay, such as "
        f"keras.optimizers.AdamW; got {type(optimizer).__name__}."
      )
    optimizer.exclude_from_weight_decay(var_list=self._without_decay)

  def scaled(self, apply: Callable[[], Any], trained: Sequence[Any]) -> Any:
    """Calls an optimizer and multiplies its updates by the factors of the groups.

    It scales the whole update and so works with each optimizer. A factor on the gradient would not
    change Adam's update.

    Args:
      apply: updates the variables; returns anything.
      trained: the variables.

    Returns:
      The result of `apply`.
    """
    scaled = [variable for variable in trained if id(variable) in self._scaled]
    before = [tf.identity(averages.tensorflow_variable(variable)) for variable in scaled]
    done = apply()
    factors = [_factor(self._scaled[id(variable)]) for variable in scaled]
    if scaled:
      replica_updates.update_each(
        lambda variable, old, factor: variable.assign(old + (variable - old) * factor),
        [averages.tensorflow_variable(variable) for variable in scaled],
        before,
        factors,
      )
    return done


def _factor(group):
  """Returns the factor of a group's updates in the current step."""
  if group.until is None:
    return group.learning_rate_factor
  is_trained = schedules.is_before(group.until, "VariableGroup.until")
  return tf.where(is_trained, group.learning_rate_factor, 0.0)


def _name(variable):
  return getattr(variable, "path", variable.name).removesuffix(":0")
