"""Durations in steps, epochs, examples, or as a share of the training.

    length = TrainingLength(batch_size=1024, epoch_examples=50_000, train_steps="50 epochs")
    length.total()                                  # 2441
    length.steps("5 epochs", "warmup")              # 244.140625

| duration          | steps                                        | needs                    |
|-------------------|----------------------------------------------|--------------------------|
| 245, "245 steps"  | 245                                          |                          |
| "250000 examples" | examples / global batch                      | the train batch size     |
| "5 epochs"        | epochs × examples in an epoch / global batch | RunConfig.epoch_examples |
| "10 %"            | this share of all steps of the training      | run.train_steps          |

A step processes one global batch and adds 1 to the global step. A unit may be singular, and
"percent" means "%".
"""

import dataclasses
import math
import re
from typing import Annotated

from trainer import errors
from trainer.settings import setting_types

_PATTERN = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([a-z%]+)")
_UNITS = {
  "step": "steps",
  "steps": "steps",
  "epoch": "epochs",
  "epochs": "epochs",
  "example": "examples",
  "examples": "examples",
  "%": "percent",
  "percent": "percent",
}


def parse(duration: float | str, name: str) -> tuple[float, str]:
  """Splits a duration into its number and its unit.

  Args:
    duration: a number of steps, or a string as in the table above.
    name: the setting's gin name, for the error message.

  Returns:
    (number, unit); unit is "steps", "epochs", "examples" or "percent".

  Raises:
    SettingError: it is not a duration, or it is negative.
  """
  if (
    isinstance(duration, int | float)
    and not isinstance(duration, bool)
    and math.isfinite(duration)
    and duration >= 0
  ):
    return float(duration), "steps"
  match = _PATTERN.fullmatch(duration.strip()) if isinstance(duration, str) else None
  if not match or match[2] not in _UNITS or not math.isfinite(float(match[1])):
    raise errors.SettingError(
      f"{name} is {duration!r}: expected a duration of at least 0, such as 245, '245 steps', '5 "
      "epochs', '250000 examples' or '10 %'."
    )
  return float(match[1]), _UNITS[match[2]]


def require_countable(steps: float, name: str) -> None:
  """Raises SettingError if a number of steps is too large to count them; `name` is its gin name."""
  if steps >= setting_types.MOST_STEPS:
    raise errors.SettingError(
      f"{name} must be less than 2**62 = {setting_types.MOST_STEPS}; got {steps!r}."
    )


def _is_length(value):
  if not isinstance(value, str):
    return True
  number, unit = parse(value, "run.train_steps")
  return number > 0 and unit != "percent"


_Length = Annotated[
  setting_types.Count | str | None,
  setting_types.Rule(
    "an int greater than 0, or a duration such as '50 epochs' or '2500000 examples'", _is_length
  ),
]


@dataclasses.dataclass(frozen=True)
class TrainingLength:
  """The sizes that convert durations to steps.

  An attribute may be None. A duration that needs it is then an error.

  Attributes:
    batch_size: examples in a step, of all cores together.
    epoch_examples: examples in an epoch.
    train_steps: length of the whole training: a number of steps, or a duration in steps, epochs or
      examples.

  Raises:
    SettingError: epoch_examples or train_steps has a wrong value.
  """

  batch_size: int | None = None
  epoch_examples: int | None = None
  train_steps: int | str | None = None

  def __post_init__(self) -> None:
    setting_types.check(self.epoch_examples, setting_types.Count | None, "RunConfig.epoch_examples")
    setting_types.check(self.train_steps, _Length, "run.train_steps")

  def total(self) -> int | None:
    """Returns the steps of the whole training.

    Returns:
      train_steps, rounded to the nearest step if it is a duration; None if train_steps is None.

    Raises:
      SettingError: an attribute that the duration needs is None, or it is less than a step.
    """
    if not isinstance(self.train_steps, str):
      return self.train_steps
    number = self.steps(self.train_steps, "run.train_steps")
    require_countable(number, "run.train_steps")
    steps = math.floor(number + 0.5)
    if not steps:
      raise errors.SettingError(
        f"run.train_steps is {self.train_steps!r}: less than a step of {self.batch_size} examples."
      )
    return steps

  def steps(self, duration: float | str, name: str) -> float:
    """Converts a duration to steps; the result may have a fraction.

    Args:
      duration: see `parse`.
      name: the setting's gin name, for the error message.

    Raises:
      SettingError: it is not a duration, or an attribute that it needs is None.
    """
    number, unit = parse(duration, name)
    if unit == "steps":
      return number
    if unit == "percent":
      total = self._known(
        self.total(),
        duration,
        name,
        "the length of the training",
        "run.train_steps",
        "RunConfig(train_steps=...)",
      )
      return number / 100 * total
    batch_size = self._known(
      self.batch_size,
      duration,
      name,
      "the global batch",
      "run.train_batch_size",
      "Estimator(train_batch_size=...)",
    )
    if unit == "examples":
      return number / batch_size
    epoch = self._known(
      self.epoch_examples,
      duration,
      name,
      "the examples of an epoch",
      "RunConfig.epoch_examples",
      "RunConfig(epoch_examples=...)",
    )
    return number * epoch / batch_size

  def _known(self, value, duration, name, what, gin_name, argument):
    if value is None:
      raise errors.SettingError(
        f"{name} is {duration!r}, and Octet does not know {what}: set {gin_name} (without gin: "
        f"{argument})."
      )
    return value
