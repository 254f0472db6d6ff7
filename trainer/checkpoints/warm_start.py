"""Warm start: takes the initial values of a model's variables from elsewhere, by name.

    run.warm_start_from = "out/pretrained"  # everything, from a folder of checkpoints

    run.warm_start_from = @WarmStartSettings()  # all but the head, which is new
    WarmStartSettings.ckpt_to_initialize_from = "imagenet.weights.h5"
    WarmStartSettings.vars_to_warm_start = "(?!head/)"

`trainer.checkpoints.weight_sources` lists the sources. See docs/warm_start.md.
"""

import collections
import dataclasses
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import own_names, reader, weight_sources
from trainer.config import gin_names
from trainer.settings import setting_types

_SHOWN = 20  # Most names in a row of the table.

_IS_PATH = setting_types.Rule(
  "the path of a checkpoint, folder or file", lambda path: bool(os.fspath(path))
)
_ARE_PATTERNS = setting_types.Rule("a regular expression, or a list of regular expressions", bool)
_ARE_NAMES = setting_types.Rule(
  "a dict of a variable's name to its name in ckpt_to_initialize_from", lambda names: True
)
_ARE_AXES = setting_types.Rule(
  "a dict of a regular expression to the numbers of axes, such as {'.*/kernel': (1, 0)}",
  lambda axes: all(sorted(order) == list(range(len(order))) for order in axes.values()),
)


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class WarmStartSettings:
  r"""Selects variables and the source of their first values.

  Attributes:
    ckpt_to_initialize_from: a checkpoint, a folder (its newest checkpoint), a SavedModel, a Keras
      `.weights.h5`, `.keras` or `.h5` file, or a `.safetensors` file.
    vars_to_warm_start: a regular expression or a list of regular expressions. It selects the
      variables with a match at the start of their names. It selects the global step and an
      optimizer's slots only if it matches none of the model's own variables, as "adam/.*" does.
    var_name_to_prev_var_name: a variable's name → its name in the source. A key that names no
      variable is a regular expression for whole names, its value the replacement: {r"(.*)/kernel":
      r"resnet/\1/weights"}.
    var_name_to_axes: a regular expression for whole names → the order of the axes of the source's
      value. PyTorch keeps the kernel of a Dense layer as [outputs, inputs]: {".*/kernel": (1, 0)}
      transposes it.

  Raises:
    SettingError: a value has a wrong type or is not a regular expression.
  """

  ckpt_to_initialize_from: Annotated[str | os.PathLike, _IS_PATH]
  vars_to_warm_start: Annotated[str | Sequence[str], _ARE_PATTERNS] = ".*"
  var_name_to_prev_var_name: Annotated[Mapping[str, str], _ARE_NAMES] | None = dataclasses.field(
    default=None, kw_only=True
  )
  var_name_to_axes: Annotated[Mapping[str, Sequence[int]], _ARE_AXES] | None = dataclasses.field(
    default=None, kw_only=True
  )

  def __post_init__(self) -> None:
    for pattern in self.patterns:
      _compiled(pattern, "vars_to_warm_start")
    for pattern in self.var_name_to_axes or {}:
      _compiled(pattern, "var_name_to_axes")

  @property
  def patterns(self) -> tuple[str, ...]:
    """vars_to_warm_start as a tuple."""
    return (
      (self.vars_to_warm_start,)
      if isinstance(self.vars_to_warm_start, str)
      else tuple(self.vars_to_warm_start)
    )

  @property
  def renames(self) -> dict[str, str]:
    """var_name_to_prev_var_name as a dict."""
    return dict(self.var_name_to_prev_var_name or {})


@dataclasses.dataclass(frozen=True)
class WarmStartReport:
  """What a warm start loaded. Its text is a table.

  Attributes:
    path: the source.
    loaded: name of a variable → its name in the source.
    left_out: names of the model's own unselected variables. They keep their initial values.
    unexpected: names in the source without a use.
  """

  path: str
  loaded: dict[str, str]
  left_out: list[str]
  unexpected: list[str]

  def __str__(self) -> str:
    loaded = [
      name if name == previous else f"{name} (from {previous})"
      for name, previous in self.loaded.items()
    ]
    rows = {"loaded": loaded, "left out": self.left_out, "unexpected": self.unexpected}
    lines = [f"Warm start from {self.path}:"]
    for title, names in rows.items():
      shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
      lines.append(f"  {title:<12}{len(names):>5}  {shown}".rstrip())
    return "\n".join(lines)


def as_settings(warm_start_from: WarmStartSettings | str | os.PathLike) -> WarmStartSettings:
  """Turns a path into WarmStartSettings; returns WarmStartSettings unchanged.

  Raises:
    SettingError: it is neither.
  """
  if isinstance(warm_start_from, WarmStartSettings):
    return warm_start_from
  if isinstance(warm_start_from, str | os.PathLike):
    return WarmStartSettings(os.fspath(warm_start_from))
  raise errors.SettingError(
    f"warm_start_from is {warm_start_from!r}: expected a path or WarmStartSettings."
  )


def apply(
  settings: WarmStartSettings | str | os.PathLike,
  variables: Mapping[str, tf.Variable],
  own: Collection[str] | None = None,
) -> WarmStartReport:
  """Loads the selected variables, either all or none.

  Args:
    settings: the settings, or a path for all of the model's own variables.
    variables: name → variable, in the order of creation.
    own: names of the model's own variables; default: own_names.model_names(variables).

  Returns:
    The loaded variables. The function logs them too.

  Raises:
    CheckpointError: a selected variable is missing in the source or has another shape there. No
      variable has changed.
    CheckpointNotFoundError: there is nothing at the path.
    SettingError: an expression or a name in the settings matches nothing.
  """
  values, report = read(settings, variables, own)
  for name, value in values.items():
    variables[name].assign(value)
  logging.info("%s", report)
  return report


def read(
  settings: WarmStartSettings | str | os.PathLike,
  variables: Mapping[str, tf.Variable],
  own: Collection[str] | None = None,
) -> tuple[dict[str, np.ndarray], WarmStartReport]:
  """Reads the values that `apply` would assign; changes nothing. Takes and raises the same.

  Returns:
    (values, report): name → value, and the report of `apply`.
  """
  settings = as_settings(settings)
  own = own_names.model_names(variables) if own is None else set(own)
  return weight_sources.read(
    settings.ckpt_to_initialize_from, lambda source: _read(settings, source, variables, own)
  )


def _read(settings, source, variables, own):
  chosen = _chosen(settings, source, variables, own)
  previous = _previous_names(settings, source, variables, chosen)
  # All of the model's layers take part, also unselected ones. Otherwise a selected layer could get
  # a layer of the source that belongs to an unselected one.
  found, notes = source.find(
    [previous[name] for name in variables if name in own or name in chosen],
    _layers(previous, variables, own),
  )
  loaded = {name: found[previous[name]] for name in chosen if previous[name] in found}
  left_out = [name for name in variables if name in own and name not in chosen]
  unexpected = sorted(set(source.shapes) - set(loaded.values()))
  missing = {name: previous[name] for name in chosen if name not in loaded}
  axes = _axes(settings, chosen)
  differing = {
    name: previous
    for name, previous in loaded.items()
    if not _fits(variables[name], *source.shapes[previous], axes.get(name))
  }
  if missing or differing:
    raise errors.CheckpointError(_problem(source, variables, missing, differing, notes, axes))
  stored = source.read(sorted(set(loaded.values())))
  values = {}
  for name, previous in loaded.items():
    value = np.asarray(stored[previous])
    value = value.transpose(axes[name]) if name in axes else value
    values[name] = value.astype(variables[name].dtype.base_dtype.as_numpy_dtype)
  return values, WarmStartReport(source.path, loaded, left_out, unexpected)


def _chosen(settings, source, variables, own):
  """Lists the names of the selected variables, in the order of `variables`."""
  chosen = set()
  for pattern in settings.patterns:
    expression = _compiled(pattern, "vars_to_warm_start")
    matched = [name for name in variables if name in own and expression.match(name)] or [
      name for name in variables if expression.match(name)
    ]
    # An expression for an optimizer's slots is no mistake in an evaluation, although that has no
    # slots. So it is enough that it matches a name in the source.
    if not matched and not any(map(expression.match, source.shapes)):
      raise errors.SettingError(
        f"WarmStartSettings.vars_to_warm_start has {pattern!r}, and no variable of the model "
        f"matches it.{_like(pattern, own)}"
      )
    chosen.update(matched)
  return [name for name in variables if name in chosen]


def _previous_names(settings, source, variables, chosen):
  """Maps every variable's name to the name to look for in the source."""
  renames = settings.renames
  expressions = {
    key: _compiled(key, "var_name_to_prev_var_name") for key in renames if key not in variables
  }
  used = set()
  previous = {}
  for name in variables:
    key = (
      name
      if name in renames
      else next(
        (key for key, expression in expressions.items() if expression.fullmatch(name)), None
      )
    )
    previous[name] = name
    if key is not None:
      previous[name] = (
        expressions[key].fullmatch(name).expand(renames[key])
        if key in expressions
        else renames[key]
      )
    if name in chosen:
      used.add(key)
  for key in renames.keys() - used:
    if key in variables or renames[key] not in source.shapes:
      why = (
        "and vars_to_warm_start leaves it out."
        if key in variables
        else f"and vars_to_warm_start selects no such variable.{_like(key, chosen)}"
      )
      raise errors.SettingError(f"WarmStartSettings.var_name_to_prev_var_name has {key!r}, {why}")
  return previous


def _axes(settings, chosen):
  """Maps each selected variable's name to the order of the source's axes, where there is one."""
  found = {}
  for pattern, order in (settings.var_name_to_axes or {}).items():
    matched = [name for name in chosen if re.fullmatch(pattern, name)]
    if not matched:
      raise errors.SettingError(
        f"WarmStartSettings.var_name_to_axes has {pattern!r}, and vars_to_warm_start selects no "
        f"such variable.{_like(pattern, chosen)}"
      )
    found |= {name: tuple(order) for name in matched if name not in found}
  return found


def _fits(variable, shape, dtype, order):
  if order is not None:
    if len(order) != len(shape):
      return False
    shape = [shape[axis] for axis in order]
  return reader.fits(variable, shape, dtype)


def _layers(previous, variables, own):
  """Maps each name to look for to (index, count): its place in its layer, in Keras's order.

  Keras puts a layer's trainable variables first.
  """
  layers = collections.defaultdict(list)
  for name in sorted(own & variables.keys(), key=list(variables).index):
    layers[name.rpartition("/")[0]].append(name)
  places = {}
  for names in layers.values():
    names.sort(key=lambda name: not variables[name].trainable)
    places.update({name: (index, len(names)) for index, name in enumerate(names)})
  return {previous[name]: places.get(name, (0, 1)) for name in variables}


def _problem(source, variables, missing, differing, notes, axes):
  lines = [
    f"  {name}: "
    f"{notes.get(previous) or ('not there' if name == previous else f'no {previous} there')}; "
    f"{_of_model(variables[name])}"
    for name, previous in missing.items()
  ]
  for name, previous in differing.items():
    shape, dtype = source.shapes[previous]
    order = f", taken in the order {axes[name]}" if name in axes else ""
    lines.append(
      f"  {name}: {tuple(shape)} {dtype} there"
      f"{'' if name == previous else f' as {previous}'}{order}; "
      f"{_of_model(variables[name])}"
    )
  cut = lines[:_SHOWN] + (["  ..."] if len(lines) > _SHOWN else [])
  first = next(iter({**missing, **differing}))
  first = re.escape(first.rpartition("/")[0] or first)
  return "\n".join(
    [
      f"The warm start misses variables in {source.path}: {len(missing)} are not there, and "
      f"{len(differing)} have another shape or kind.",
      *cut,
      f'WarmStartSettings.vars_to_warm_start selects variables ("(?!{first})" leaves a part out), '
      "var_name_to_prev_var_name gives their names in the checkpoint.",
    ]
  )


def _of_model(variable):
  shape, dtype = tuple(variable.shape.as_list()), variable.dtype.base_dtype.name
  return f"{shape} {dtype} in the model"


def _compiled(pattern, setting):
  try:
    return re.compile(pattern)
  except re.error as error:
    raise errors.SettingError(
      f"WarmStartSettings.{setting} has {pattern!r}; expected a regular expression: {error}."
    ) from error


def _like(name, names):
  return f" Its names are like {own_names.similar(name, names)}."
