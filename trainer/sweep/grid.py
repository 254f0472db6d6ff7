"""Explicit lists of trials, put together from lists of values.

    sweep.grid = @product()
    product.parts = [{'OPTIMIZER': [@keras.optimizers.Adam, @keras.optimizers.SGD]}, @sizes/zip()]
    sizes/zip.parts = [{'BATCH': [32, 64]}, {'run.train_steps': [2000, 1000]}]  # 2 × 2 trials

A dict of several lists is their product. `chain` puts lists one after the other.
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
  """Each point of the first part with each of the second and so on; the last part changes first.

  Attributes:
    parts: list of dicts of key → list of values, and of @product(), @zip(), @chain().
  """

  parts: Any

  def points(self):
    """List of dicts of key → gin text."""
    return [_merged(points) for points in itertools.product(*_parts(self, "product"))]


@gin_names.configurable("zip", module="trainer.sweep")
@dataclasses.dataclass(frozen=True)
class Zip:
  """The first points of all parts together, the second ones, and so on.

  Parts as in Product; SettingError if they are not equally many.
  """

  parts: Any

  def points(self):
    """List of dicts of key → gin text."""
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
  """The points of the first part, then those of the second, and so on. Parts as in Product."""

  parts: Any

  def points(self):
    """List of dicts of key → gin text."""
    return [point for part in _parts(self, "chain") for point in part]


class Grid:
  """A list of trials.

  Args:
    points: list of dicts of key → gin text.

  Raises:
    SettingError: there is none, or one comes twice.
  """

  def __init__(self, points):
    if not points:
      raise errors.SettingError("sweep.grid has no point.")
    for point in points:
      for key, text in point.items():
        gin_text.binding(key, text)
      if points.count(point) > 1:
        raise errors.SettingError(
          "sweep.grid has the point "
          f"{', '.join(f'{key} = {text}' for key, text in point.items())} "
          "more than once."
        )
    self.points = points

  @property
  def keys(self):
    """The parameters' keys, in the order in which they first come."""
    return list(self.samples())

  def suggest(self, trial):
    """dict of key → gin text that an optuna.Trial was made for."""
    samples = self.samples()
    return {key: trial.suggest_categorical(key, samples[key]) for key in self.points[trial.number]}

  def fixed(self, number):
    """dict of key → gin text that the trial of this number has for certain."""
    return self.points[number]

  def samples(self):
    """dict of key → the gin texts that it has."""
    found = {}
    for point in self.points:
      for key, text in point.items():
        found.setdefault(key, {})[text] = None
    return {key: list(texts) for key, texts in found.items()}

  def definition(self):
    """What makes it this grid, as JSON can hold it."""
    return self.points


def points_of(part):
  """The points of a dict of lists, or of a Product, Zip or Chain; SettingError if it is none of
  these.
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
  merged = {}
  for point in points:
    for key in point:
      if key in merged:
        raise errors.SettingError(f"sweep.grid sets {key!r} in two parts of one product or zip.")
    merged.update(point)
  return merged
