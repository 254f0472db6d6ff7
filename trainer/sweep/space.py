"""The search space of a sweep: parameters and their distributions.

    sweep.space = {
        'OPTIMIZER': @optimizer/choice(),
        'BATCH': [32, 64, 128],                              # short for a choice
        'keras.optimizers.SGD.momentum': @momentum/uniform(),
    }
    optimizer/choice.options = [@keras.optimizers.Adam, @keras.optimizers.SGD]
    momentum/uniform.low = 0.5
    momentum/uniform.high = 0.99
    momentum/uniform.when = {'OPTIMIZER': @keras.optimizers.SGD}

A key is the left side of a binding in a gin file: scope/name.parameter, or a macro. A parameter
with a `when` counts only in trials with a certain value of another parameter. Optuna stores the
values of a choice as gin text.
"""

import dataclasses
import decimal
import math
from typing import Annotated, Any

from trainer import errors
from trainer.config import files, gin_names
from trainer.settings import setting_types
from trainer.sweep import gin_text

_Bound = Annotated[float, setting_types.Rule("a number", math.isfinite)]
_IS_POSITIVE = setting_types.Rule("a number greater than 0", lambda value: 0 < value < math.inf)


@gin_names.configurable("choice", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class Choice:
  """One of several values.

  Attributes:
    options: the values: anything that gin can write, also @references and %macros of the
      experiment.
    when: key of another parameter → the value, or list of values, that makes this parameter count;
      None for always.

  Raises:
    SettingError: there are no options, or one occurs twice.
  """

  options: Any
  when: Any = None

  def __post_init__(self) -> None:
    if not isinstance(self.options, list | tuple) or not self.options:
      raise errors.SettingError(
        f"choice.options must be a list of at least one value; got {self.options!r}."
      )
    _check_different(self.texts(), "choice.options")

  def texts(self) -> list[str]:
    """Returns all values as gin text."""
    return [gin_text.text(option) for option in self.options]

  samples = texts

  def suggest(self, trial: Any, key: str) -> str:
    """Chooses the value of an optuna.Trial; returns it as gin text."""
    return trial.suggest_categorical(key, self.texts())


@gin_names.configurable("uniform", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class Uniform:
  """A float in [low, high].

  Attributes:
    low: lower bound.
    high: upper bound.
    when: as in Choice.

  Raises:
    SettingError: low > high, or a bound is not a number.
  """

  low: _Bound
  high: _Bound
  when: Any = None
  log = False

  def __post_init__(self) -> None:
    _check_range(self, "log_uniform" if self.log else "uniform", positive=self.log)

  def texts(self) -> None:
    """Returns None, because there are too many values."""
    return None

  def samples(self) -> list[str]:
    """Returns some values as gin text, to check the binding with."""
    return [gin_text.text(float(self.low))]

  def suggest(self, trial: Any, key: str) -> str:
    """Chooses the value of an optuna.Trial; returns it as gin text."""
    return gin_text.text(trial.suggest_float(key, self.low, self.high, log=self.log))


@gin_names.configurable("log_uniform", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class LogUniform(Uniform):
  """A float in [low, high] with a uniform logarithm.

  Attributes:
    low: lower bound, greater than 0.
    high: upper bound.
    when: as in Choice.

  Raises:
    SettingError: low > high, or low is not greater than 0.
  """

  log = True


@gin_names.configurable("int_uniform", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class IntUniform:
  """An int of low, low + step, … up to high.

  Attributes:
    low: the smallest value.
    high: the largest value, if it is low plus a multiple of step.
    step: distance between two values.
    log: whether the logarithm is uniform; then step must be 1.
    when: as in Choice.

  Raises:
    SettingError: a bound is not an int, low > high, or log has a step or a low under 1.
  """

  low: int
  high: int
  step: int = 1
  log: bool = False
  when: Any = None

  def __post_init__(self) -> None:
    _check_range(self, "int_uniform", positive=self.log)
    if self.step < 1 or (self.log and self.step != 1):
      raise errors.SettingError(
        f"int_uniform.step must be at least 1, and 1 with log = True; got {self.step}."
      )

  def texts(self) -> list[str]:
    """Returns all values as gin text."""
    return [str(value) for value in range(self.low, self.high + 1, self.step)]

  def samples(self) -> list[str]:
    """Returns some values as gin text, to check the binding with."""
    return [str(self.low)]

  def suggest(self, trial: Any, key: str) -> str:
    """Chooses the value of an optuna.Trial; returns it as gin text."""
    high = self.low + (self.high - self.low) // self.step * self.step
    return str(trial.suggest_int(key, self.low, high, step=self.step, log=self.log))


@gin_names.configurable("quantized", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class Quantized:
  """A float of low, low + step, … up to high.

  The values have no rounding errors: 0.3, not 0.30000000000000004.

  Attributes:
    low: the smallest value.
    high: the largest value, if it is low plus a multiple of step.
    step: distance between two values.
    when: as in Choice.

  Raises:
    SettingError: low > high, or step is not greater than 0.
  """

  low: _Bound
  high: _Bound
  step: Annotated[_Bound, _IS_POSITIVE]
  when: Any = None

  def __post_init__(self) -> None:
    _check_range(self, "quantized")

  # In decimal arithmetic: with floats, (0.3 - 0.1) / 0.1 is less than 2.
  @property
  def _count(self):
    low, high, step = (decimal.Decimal(repr(number)) for number in (self.low, self.high, self.step))
    return int((high - low) / step) + 1

  def _text(self, index):
    return repr(float(decimal.Decimal(repr(self.low)) + index * decimal.Decimal(repr(self.step))))

  def texts(self) -> list[str]:
    """Returns all values as gin text."""
    return [self._text(index) for index in range(self._count)]

  def samples(self) -> list[str]:
    """Returns some values as gin text, to check the binding with."""
    return [self._text(0)]

  def suggest(self, trial: Any, key: str) -> str:
    """Chooses the value of an optuna.Trial; returns it as gin text."""
    high = float(self._text(self._count - 1))
    value = trial.suggest_float(key, float(self.low), high, step=float(self.step))
    return self._text(round((value - self.low) / self.step))


DISTRIBUTIONS = (Choice, IntUniform, Quantized, Uniform)


class Space:
  """A search space. The class has the methods of `grid.Grid`.

  Args:
    entries: key → one of DISTRIBUTIONS, or a list (a choice).

  Raises:
    SettingError: there is no entry, an entry is neither, or a `when` names a parameter that does
      not exist or a value that it never has.
  """

  def __init__(self, entries: Any) -> None:
    if not isinstance(entries, dict) or not entries:
      raise errors.SettingError(
        "sweep.space must be a dict of at least one parameter, such as "
        f"{{'run.train_batch_size': [32, 64]}}; got {entries!r}."
      )
    self._distributions: dict[str, Any] = {}
    for key, entry in entries.items():
      gin_text.binding(key, "0")
      self._distributions[key] = Choice(entry) if isinstance(entry, list) else entry
      if not isinstance(self._distributions[key], DISTRIBUTIONS):
        raise errors.SettingError(
          f"sweep.space[{key!r}] must be @choice(), @uniform(), @log_uniform(), @int_uniform(), "
          f"@quantized() or a list; got {entry!r}. A reference "
          "needs its (): @lr/log_uniform()."
        )
    self._whens = {
      key: self._when(key, distribution.when) for key, distribution in self._distributions.items()
    }
    # A `when` reads the value of another parameter, so that parameter comes first.
    self._order: list[str] = []
    for key in self._distributions:
      self._place(key, ())

  @property
  def keys(self) -> list[str]:
    """The parameters' keys, in the order of their choice."""
    return list(self._order)

  def suggest(self, trial: Any) -> dict[str, str]:
    """Chooses the parameters that count in an optuna.Trial; returns key → gin text.

    A trial with parameters keeps them.
    """
    chosen: dict[str, str] = {}
    for key in self._order:
      if self._counts(key, chosen):
        chosen[key] = self._distributions[key].suggest(trial, key)
    return chosen

  def fixed(self, number: int) -> dict[str, str]:
    """Returns {}: the sampler chooses all parameters."""
    return {}

  def samples(self) -> dict[str, list[str]]:
    """Returns key → gin texts to check the binding with."""
    return {key: self._distributions[key].samples() for key in self._order}

  def definition(self) -> dict[str, Any]:
    """Returns the space in a form that JSON can hold; equal spaces have equal definitions."""
    shown: dict[str, dict[str, Any]] = {}
    for key, distribution in self._distributions.items():
      fields = {
        field.name: getattr(distribution, field.name)
        for field in dataclasses.fields(distribution)
        if field.name not in ("when", "options")
      }
      shown[key] = {"kind": type(distribution).__name__, **fields, "when": self._whens[key]}
      if isinstance(distribution, Choice):
        shown[key]["options"] = distribution.texts()
    return shown

  def _when(self, key, when):
    """Checks a `when`; returns key → gin texts."""
    if when is None:
      return {}
    if not isinstance(when, dict):
      raise errors.SettingError(
        f"sweep.space[{key!r}]: `when` must be a dict such as "
        f"{{'OPTIMIZER': @keras.optimizers.SGD}}; got {when!r}."
      )
    found = {}
    for other, values in when.items():
      if other not in self._distributions or other == key:
        near = files.did_you_mean(str(other), [name for name in self._distributions if name != key])
        raise errors.SettingError(
          f"sweep.space[{key!r}]: `when` names {other!r}; expected another parameter of the "
          f"space.{near}"
        )
      found[other] = [
        gin_text.text(value) for value in (values if isinstance(values, list) else [values])
      ]
      possible = self._distributions[other].texts()
      never = [text for text in found[other] if possible is not None and text not in possible]
      if never or possible is None:
        raise errors.SettingError(
          f"sweep.space[{key!r}]: `when` waits for {other!r} to be {(never or found[other])[0]}, "
          "and it never is; its values are "
          f"{', '.join(possible) if possible else 'not countable'}."
        )
    return found

  def _place(self, key, within):
    """Appends a key to the order, after the keys that it depends on (the keys in `within` wait)."""
    if key in within:
      raise errors.SettingError(
        f"sweep.space: the `when` of {' and of '.join(map(repr, within))} go in a circle."
      )
    if key not in self._order:
      for other in self._whens[key]:
        self._place(other, (*within, key))
      self._order.append(key)

  def _counts(self, key, chosen):
    return all(chosen.get(other) in texts for other, texts in self._whens[key].items())


def _check_different(texts, name):
  repeated = [text for text in texts if texts.count(text) > 1]
  if repeated:
    raise errors.SettingError(f"{name} has {repeated[0]} more than once.")


def _check_range(distribution, name, positive=False):
  if distribution.low > distribution.high:
    raise errors.SettingError(
      f"{name}: low must not be greater than high; got {distribution.low} and {distribution.high}."
    )
  if positive and distribution.low <= 0:
    raise errors.SettingError(
      f"{name}.low must be greater than 0 for a logarithm; got {distribution.low}."
    )
