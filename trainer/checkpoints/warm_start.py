"""Warm start: the first values of a model's variables from elsewhere, by name.

    run.warm_start_from = "out/pretrained"  # everything, from a folder of checkpoints

    run.warm_start_from = @WarmStartSettings()  # all but the head, of which there is another
    WarmStartSettings.ckpt_to_initialize_from = "imagenet.weights.h5"
    WarmStartSettings.vars_to_warm_start = "(?!head/)"

What can be read is in `trainer.checkpoints.weight_sources`. See docs/warm_start.md.
"""

import collections
import dataclasses
import difflib
import os
import re
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors, optimizers
from trainer.checkpoints import weight_sources
from trainer.config import gin_names

_SHOWN = 20  # names of a kind that a table lists


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class WarmStartSettings:
  """Which variables start from which values.

  Attributes:
    ckpt_to_initialize_from: a checkpoint, a folder of them (the newest), a SavedModel, a Keras
      `.weights.h5`, `.keras` or `.h5` file.
    vars_to_warm_start: a regular expression or a list of them; a variable is meant whose name
      begins with what one of them matches. Of what is not the model's own (the step, an optimizer's
      slots) only what an expression names that matches nothing of the model's own: "adam/.*".
    var_name_to_prev_var_name: dict of a variable's name → its name there. A key that is no
      variable's name is a regular expression for whole names, the value its replacement:
      {r"(.*)/kernel": r"resnet/\\1/weights"}.

  Raises:
    SettingError: a value is of a type that it cannot have, or no regular expression.
  """

  ckpt_to_initialize_from: str
  vars_to_warm_start: Any = ".*"
  var_name_to_prev_var_name: Any = dataclasses.field(default=None, kw_only=True)

  def __post_init__(self):
    if not isinstance(self.ckpt_to_initialize_from, str | os.PathLike) or not os.fspath(
      self.ckpt_to_initialize_from
    ):
      raise errors.SettingError(
        f"WarmStartSettings.ckpt_to_initialize_from is {self.ckpt_to_initialize_from!r}: "
        "expected the path of a checkpoint, folder or file."
      )
    patterns, renames = self.vars_to_warm_start, self.var_name_to_prev_var_name
    if (
      not isinstance(patterns, str | list | tuple)
      or not patterns
      or not all(isinstance(pattern, str) for pattern in patterns)
    ):
      raise errors.SettingError(
        f"WarmStartSettings.vars_to_warm_start is {patterns!r}: expected a "
        "regular expression, or a list of them."
      )
    if renames is not None and not (
      isinstance(renames, dict)
      and all(isinstance(name, str) for pair in renames.items() for name in pair)
    ):
      raise errors.SettingError(
        f"WarmStartSettings.var_name_to_prev_var_name is {renames!r}: expected a dict of a "
        "variable's name to its name in ckpt_to_initialize_from."
      )
    for pattern in self.patterns:
      _compiled(pattern, "vars_to_warm_start")

  @property
  def patterns(self):
    """vars_to_warm_start as a tuple."""
    return (
      (self.vars_to_warm_start,)
      if isinstance(self.vars_to_warm_start, str)
      else tuple(self.vars_to_warm_start)
    )

  @property
  def renames(self):
    """var_name_to_prev_var_name as a dict."""
    return dict(self.var_name_to_prev_var_name or {})


@dataclasses.dataclass(frozen=True)
class WarmStartReport:
  """What a warm start took.

  Attributes:
    path: where the values are from.
    loaded: dict of variable's name → its name there.
    left_out: names of the model's own variables that were not asked for: they keep their initial
      values.
    unexpected: names there that were not taken.
  """

  path: str
  loaded: dict[str, str]
  left_out: list[str]
  unexpected: list[str]

  def __str__(self):
    loaded = [
      name if name == previous else f"{name} (from {previous})"
      for name, previous in self.loaded.items()
    ]
    return _table(
      self.path,
      {
        "loaded": loaded,
        "missing": [],
        "wrong shape": [],
        "left out": self.left_out,
        "unexpected": self.unexpected,
      },
    )


def as_settings(warm_start_from):
  """A WarmStartSettings, from one or from a path; SettingError for anything else."""
  if isinstance(warm_start_from, WarmStartSettings):
    return warm_start_from
  if isinstance(warm_start_from, str | os.PathLike):
    return WarmStartSettings(os.fspath(warm_start_from))
  raise errors.SettingError(
    f"warm_start_from is {warm_start_from!r}: expected a path or WarmStartSettings."
  )


def apply(settings, variables, own=None):
  """Gives variables their values, all that are meant or none.

  Args:
    settings: WarmStartSettings or a path.
    variables: dict of name → tf.Variable, in the order of their making.
    own: names of those that are the model's own; default: model_names(variables).

  Returns:
    A WarmStartReport, which is logged.

  Raises:
    CheckpointError: what was asked for is not there, or has another shape there. No variable was
      changed.
    CheckpointNotFoundError: there is nothing at the path.
    SettingError: an expression or a name of the settings matches nothing.
  """
  values, report = read(settings, variables, own)
  for name, value in values.items():
    variables[name].assign(value)
  logging.info("%s", report)
  return report


def read(settings, variables, own=None):
  """What `apply` would do, without doing it: (dict of name → numpy array, WarmStartReport)."""
  settings = as_settings(settings)
  own = model_names(variables) if own is None else set(own)
  source = weight_sources.open_source(settings.ckpt_to_initialize_from)
  chosen = _chosen(settings, source, variables, own)
  previous = _previous_names(settings, source, variables, chosen)
  found, notes = source.find(
    [previous[name] for name in variables if name in own or name in chosen],
    _layers(previous, variables, own),
  )
  loaded = {name: found[previous[name]] for name in chosen if previous[name] in found}
  left_out = [name for name in variables if name in own and name not in chosen]
  unexpected = sorted(set(source.shapes) - set(loaded.values()))
  missing = {name: previous[name] for name in chosen if name not in loaded}
  differing = {
    name: previous
    for name, previous in loaded.items()
    if not _fits(variables[name], source.shapes[previous])
  }
  if missing or differing:
    raise errors.CheckpointError(
      _problem(source, variables, missing, differing, loaded, left_out, unexpected, notes)
    )
  stored = source.read(sorted(set(loaded.values())))
  values = {
    name: np.asarray(stored[previous]).astype(variables[name].dtype.base_dtype.as_numpy_dtype)
    for name, previous in loaded.items()
  }
  return values, WarmStartReport(source.path, loaded, left_out, unexpected)


def model_names(variables):
  """Names of the variables (dict of name → tf.Variable) that are a model's own: not the step,
  nor what optimizers and metrics keep; see own_names.
  """
  return own_names(variables, {name for name, variable in variables.items() if variable.trainable})


def own_names(names, trainable):
  """Of names, those of a model's own variables.

  An optimizer's are told by their names: those beside `<optimizer>/iteration` (Keras), those below
  the name of a trainable variable (`dense/kernel/Adam`, tf.compat.v1), the powers that its Adam
  keeps, averages and accumulated gradients. So are the sums of Keras's metrics, `total` beside
  `count`, which a compiled model has.

  Args:
    names: of the variables of a model or of a checkpoint.
    trainable: those among them that are trainable, or may be.
  """
  names = set(names)
  keras_optimizers = {
    name.removesuffix("iteration") for name in names if name.endswith("/iteration")
  }
  beside = (*keras_optimizers, f"{optimizers.EMA_SCOPE}/", "accumulated/")

  def is_own(name):
    outer = name.split("/")
    slot = any("/".join(outer[:end]) in trainable for end in range(1, len(outer)))
    sums = (
      outer[-1] in ("total", "count")
      and {"/".join([*outer[:-1], other]) for other in ("total", "count")} <= names
    )
    return not (
      slot
      or sums
      or name == "global_step"
      or name.startswith(beside)
      or re.fullmatch(r"beta[12]_power(_\d+)?", outer[-1])
    )

  return {name for name in names if is_own(name)}


def _chosen(settings, source, variables, own):
  """Names of the variables that are asked for, in the order of variables."""
  chosen = set()
  for pattern in settings.patterns:
    expression = _compiled(pattern, "vars_to_warm_start")
    matched = [name for name in variables if name in own and expression.match(name)] or [
      name for name in variables if expression.match(name)
    ]
    # Slots that are named for the training are no variables of an evaluation.
    if not matched and not any(map(expression.match, source.shapes)):
      raise errors.SettingError(
        f"WarmStartSettings.vars_to_warm_start has {pattern!r}, which "
        f"matches no variable of the model.{_like(pattern, own)}"
      )
    chosen.update(matched)
  return [name for name in variables if name in chosen]


def _previous_names(settings, source, variables, chosen):
  """dict of every variable's name → the name that is looked for."""
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
        "which vars_to_warm_start leaves out."
        if key in variables
        else f"which is no variable that is asked for.{_like(key, chosen)}"
      )
      raise errors.SettingError(f"WarmStartSettings.var_name_to_prev_var_name has {key!r}, {why}")
  return previous


def _layers(previous, variables, own):
  """dict of looked-for name → (index, count) among the variables of its layer, in Keras's
  order: the trainable ones first.
  """
  layers = collections.defaultdict(list)
  for name in sorted(own & variables.keys(), key=list(variables).index):
    layers[name.rpartition("/")[0]].append(name)
  places = {}
  for names in layers.values():
    names.sort(key=lambda name: not variables[name].trainable)
    places.update({name: (index, len(names)) for index, name in enumerate(names)})
  return {previous[name]: places.get(name, (0, 1)) for name in variables}


def _fits(variable, stored):
  shape, dtype = stored
  kinds = [tf.as_dtype(kind).is_floating for kind in (dtype, variable.dtype)]
  return tuple(variable.shape.as_list()) == tuple(shape) and (kinds[0] == kinds[1])


def _problem(source, variables, missing, differing, loaded, left_out, unexpected, notes):
  def of_model(name):
    variable = variables[name]
    shape, dtype = tuple(variable.shape.as_list()), variable.dtype.base_dtype.name
    return f"{shape} {dtype} in the model"

  lines = [
    f"  {name}: "
    f"{notes.get(previous) or ('not there' if name == previous else f'no {previous} there')}; "
    f"{of_model(name)}"
    for name, previous in missing.items()
  ]
  lines += [
    f"  {name}: {tuple(source.shapes[previous][0])} {source.shapes[previous][1]} "
    f"there{'' if name == previous else f' as {previous}'}; "
    f"{of_model(name)}"
    for name, previous in differing.items()
  ]
  table = _table(
    source.path,
    {
      "fitting": [name for name in loaded if name not in differing],
      "missing": list(missing),
      "wrong shape": list(differing),
      "left out": left_out,
      "unexpected": unexpected,
    },
  )
  cut = lines[:_SHOWN] + (["  ..."] if len(lines) > _SHOWN else [])
  first = next(iter({**missing, **differing}))
  first = re.escape(first.rpartition("/")[0] or first)
  return "\n".join(
    [
      f"The warm start does not find in {source.path} what it was asked for.",
      *cut,
      table,
      f'WarmStartSettings.vars_to_warm_start says what is wanted ("(?!{first})" leaves a part '
      "out), var_name_to_prev_var_name what it is called "
      "there.",
    ]
  )


def _table(path, rows):
  lines = [f"Warm start from {path}:"]
  for title, names in rows.items():
    shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    lines.append(f"  {title:<12}{len(names):>5}  {shown}".rstrip())
  return "\n".join(lines)


def _compiled(pattern, setting):
  try:
    return re.compile(pattern)
  except re.error as error:
    raise errors.SettingError(
      f"WarmStartSettings.{setting} has {pattern!r}, which is no regular expression: {error}."
    ) from error


def _like(name, names):
  close = difflib.get_close_matches(name, list(names), 3, 0.5) or sorted(names)[:3]
  return f" Its names are like {', '.join(close)}."
