"""Grids: explicit lists of trials, made from lists of values.

    sweep.grid = @product()
    product.parts = [{'OPTIMIZER': [@keras.optimizers.Adam, @keras.optimizers.SGD]}, @sizes/zip()]
    sizes/zip.parts = [{'BATCH': [32, 64]}, {'run.train_steps': [2000, 1000]}]  # 2 × 2 trials

A dict of several lists is their product. `chain` concatenates lists of points.
"""

import dataclasses
import itertools
from typing import Any

from trainer import errors
from trainer.config import gin_names
from trainer.sweep import gin_text


@gin_names.configurable("product", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class Product:
  """All combinations of the points of the parts; the last part varies fastest.

  Attributes:
    parts: list of dicts (key → list of values), @product(), @zip() and @chain().
  """

  parts: Any

  def points(self) -> list[dict[str, str]]:
    """Returns each point as key → gin text.

    Raises:
      SettingError: parts is empty, or has a part of another kind.
    """
    return [_merged(points) for points in itertools.product(*_parts(self, "product"))]


@gin_names.configurable("zip", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class Zip:
  """The first points of all parts together, the second points together, and so on.

  Attributes:
    parts: as in Product, with equal numbers of points.
  """

  parts: Any

  def points(self) -> list[dict[str, str]]:
    """Returns each point as key → gin text.

    Raises:
      SettingError: the parts are not equally long; and see `Product.points`.
    """
    parts = _parts(self, "zip")
    sizes = [len(part) for part in parts]
    if len(set(sizes)) > 1:
      raise errors.SettingError(
        f"zip.parts must be equally long; they have {', '.join(map(str, sizes))} points."
      )
    return [_merged(points) for points in zip(*parts, strict=True)]


@gin_names.configurable("chain", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class Chain:
  """The points of the first part, then of the second, and so on.

  Attributes:
    parts: as in Product.
  """

  parts: Any

  def points(self) -> list[dict[str, str]]:
    """Returns each point as key → gin text; for Raises see `Product.points`."""
    return [point for part in _parts(self, "chain") for point in part]


@dataclasses.dataclass(frozen=True)
class Grid:
  """A list of trials. The class has the methods of `space.Space`.

  Attributes:
    points: for each trial, key → gin text.

  Raises:
    SettingError: there is no point, or one occurs twice.
  """

  points: list[dict[str, str]]

  def __post_init__(self) -> None:
    if not self.points:
      raise errors.SettingError("sweep.grid has no point.")
    for point in self.points:
      lines = [gin_text.binding(key, text) for key, text in point.items()]
      if self.points.count(point) > 1:
        raise errors.SettingError(f"sweep.grid has the point {', '.join(lines)} more than once.")

  @property
  def keys(self) -> list[str]:
    """The parameters' keys, in the order of their first use."""
    return list(self.samples())

  def suggest(self, trial: Any) -> dict[str, str]:
    """Returns key → gin text of an optuna.Trial; its sampler has fixed these values."""
    samples = self.samples()
    return {key: trial.suggest_categorical(key, samples[key]) for key in self.points[trial.number]}

  def fixed(self, number: int) -> dict[str, str]:
    """Returns key → gin text that the sampler must choose for the trial of this number."""
    return self.points[number]

  def samples(self) -> dict[str, list[str]]:
    """Returns key → all its gin texts in the grid."""
    found: dict[str, dict[str, None]] = {}  # Dicts, as sets that keep the order.
    for point in self.points:
      for key, text in point.items():
        found.setdefault(key, {})[text] = None
    return {key: list(texts) for key, texts in found.items()}

  def definition(self) -> list[dict[str, str]]:
    """Returns the grid in a form that JSON can hold; equal grids have equal definitions."""
    return self.points


def points_of(part: Any) -> list[dict[str, str]]:
  """Returns the points of a dict of lists, or of a Product, Zip or Chain.

  Raises:
    SettingError: it is of another kind.
  """
  if isinstance(part, Product | Zip | Chain):
    return part.points()
  if (
    not isinstance(part, dict)
    or not part
    or not all(isinstance(values, list) and values for values in part.values())
  ):
    raise errors.SettingError(
      f"A part of a grid must be a dict of lists, such as {{'run.train_batch_size': [32, 64]}}, "
      f"or @product(), @zip(), @chain(); got {part!r}."
    )
  texts = [[{key: gin_text.text(value)} for value in values] for key, values in part.items()]
  return [_merged(points) for points in itertools.product(*texts)]


def _parts(combination, name):
  if not isinstance(combination.parts, list) or not combination.parts:
    raise errors.SettingError(
      f"{name}.parts must be a list of at least one part; got {combination.parts!r}."
    )
  return [points_of(part) for part in combination.parts]


def _merged(points):
  merged: dict[str, str] = {}
  for point in points:
    for key in point:
      if key in merged:
        raise errors.SettingError(f"sweep.grid sets {key!r} in two parts of one product or zip.")
    merged.update(point)
  return merged
