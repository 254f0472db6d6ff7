"""Checks that a configuration sets all used macros and all required parameters.

The checks run after all bindings and before any call.
"""

from collections.abc import Mapping
from typing import Any

import gin

from trainer import errors
from trainer.config import binding, files, gin_internals, text


def check(places: Mapping[gin_internals.Key, str], root: Any = None) -> None:
  """Checks the current bindings.

  Args:
    places: the place of each binding.
    root: gin's Configurable of the configured function. Its callers pass exactly the parameters in
      its denylist.

  Raises:
    SettingError: a macro has no value or refers to itself; a macro from the command line, or a
      macro written like a parameter, is unused; or a required parameter is missing.
  """
  _check_macros(places)
  _check_use(places, root)
  bound = {(selector, name) for (_, selector, name), _ in gin_internals.each_binding()}
  for selector, name, place in _required(places, root):
    if (selector, name) not in bound:
      key = text.key_text("", selector, name)
      raise errors.SettingError(
        f"{place}{key} needs a value: add `{key} = ...` to a gin file or --gin_bindings."
      )


def _check_macros(places):
  for key, value in gin_internals.each_binding():
    for reference in gin_internals.iterate_references(value):
      name = "/".join(reference.scopes)
      if gin_internals.is_macro(reference) and reference.config_key not in gin_internals.bindings():
        known = [
          scope for scope, selector in gin_internals.bindings() if selector == "gin.macro"
        ] + gin_internals.constants()
        raise errors.SettingError(
          f"{places[key]}: %{name} has no value: add `{name} = "
          f"...`.{files.did_you_mean(name, known)}"
        )
  for scope, selector in gin_internals.bindings():
    if selector == "gin.macro":
      _count_values(scope, (), {})


def _check_use(places, root):
  """Raises SettingError for a macro with a name that looks like another macro's or a parameter's.

  A file may offer macros that an experiment does not use: `unused_bindings` reports those.
  """
  used = {
    "/".join(reference.scopes)
    for _, value in gin_internals.each_binding()
    for reference in gin_internals.iterate_references(value)
    if gin_internals.is_macro(reference)
  }
  for key, _ in gin_internals.each_binding():
    name, selector, _ = key
    if selector != "gin.macro" or any(f"{each}/".startswith(f"{name}/") for each in used):
      continue
    scope, _, last = name.rpartition("/")
    known = [*used, *(f"run.{each}" for each in (binding.named_parameters(root) if root else ()))]
    near = (
      f" Did you mean {scope}.{last}?"
      if scope
      else files.did_you_mean(name, known) or files.did_you_mean(f"run.{name}", known)
    )
    if scope or places[key] == files.COMMAND_LINE:
      raise errors.SettingError(f"{places[key]}: no binding uses the macro {name}.{near}")


# gin evaluates a macro anew at each use, so ten macros of ten macros each would be 10^10 values.
_MOST_VALUES = 100_000
_MOST_MACROS_DEEP = 200


def _count_values(name, within, counted):
  """Returns how many macros gin evaluates for one; `counted` has the earlier counts."""
  if name in within:
    raise errors.SettingError(
      f"The macro {name} contains itself: {' → '.join(f'%{each}' for each in (*within, name))}."
    )
  if len(within) > _MOST_MACROS_DEEP:
    raise errors.SettingError(
      f"The macro {within[0]} nests macros more than {_MOST_MACROS_DEEP} deep."
    )
  if name not in counted:
    value = gin_internals.bindings()[name, "gin.macro"]
    counted[name] = 1 + sum(
      _count_values("/".join(reference.scopes), (*within, name), counted)
      for reference in gin_internals.iterate_references(value)
      if gin_internals.is_macro(reference)
    )
  if counted[name] > _MOST_VALUES:
    raise errors.SettingError(
      f"The macro {name} has {counted[name]:,} values of macros; expected at most {_MOST_VALUES:,}."
    )
  return counted[name]


def _required(places, root):
  """Yields (complete selector, parameter, place of the reference) of the required parameters."""
  if root:
    for name, parameter in binding.named_parameters(root).items():
      if _has_no_default(parameter) and name not in (root.denylist or ()):
        yield root.selector, name, ""
  for key, value in gin_internals.each_binding():
    for reference in gin_internals.iterate_references(value):
      if gin_internals.is_macro(reference) or gin_internals.is_constant(reference):
        continue
      # gin itself calls `@name()`, so every parameter without a default needs a binding. Another
      # caller passes arguments to `@name`. Octet knows them only for calls by the root: the caller
      # passes no parameter marked gin.REQUIRED.
      by_root = root and key[1] == root.selector and value is reference
      for name, parameter in binding.named_parameters(reference.configurable).items():
        if (reference.evaluate and _has_no_default(parameter)) or (
          by_root and parameter.default is gin.REQUIRED
        ):
          yield reference.configurable.selector, name, f"{places[key]}: "


def _has_no_default(parameter):
  return parameter.default is parameter.empty or parameter.default is gin.REQUIRED
