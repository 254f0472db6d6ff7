"""Checks that a configuration sets the macros that it uses and all required parameters.

The checks run when everything is bound and before anything is called.
"""

from collections.abc import Mapping
from typing import Any

import gin

from trainer import errors
from trainer.config import binding, files, gin_internals, text


def check(places: Mapping[gin_internals.Key, str], root: Any = None) -> None:
  """Checks the current bindings.

  Args:
    places: for each binding, where it was made.
    root: gin's Configurable of the function that the configuration is for. Its callers pass the
      parameters in its denylist, and no others.

  Raises:
    SettingError: a macro has no value or refers to itself, a macro of the command line, or one
      that is written like a parameter, is not used, a function is called to make its own argument,
      or a required parameter is not set.
  """
  _check_macros(places)
  _check_calls(places)
  _check_use(places, root)
  bound = {(selector, name) for (_, selector, name), _ in gin_internals.each_binding()}
  for selector, name, place in _required(places, root):
    if (selector, name) not in bound:
      key = text.key_text("", selector, name)
      raise errors.SettingError(
        f"{place}{key} is required and not set: add `{key} = ...` to a gin file or --gin_bindings."
      )


def _check_macros(places):
  unset = []
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
      if gin_internals.is_constant(reference) and name == "gin.REQUIRED":
        unset.append(key)
  for scope, selector in gin_internals.bindings():
    if selector == "gin.macro":
      _count_values(scope, (), {})
  if unset:
    first, *others = [text.key_text(*key) for key in unset]
    more = f" So are {', '.join(others)}." if others else ""
    raise errors.SettingError(
      f"{places[unset[0]]}: {first} is required and not set: add `{first} = ...` to a gin file "
      f"or --gin_bindings.{more}"
    )


def _check_use(places, root):
  """Raises SettingError for a macro that was meant for another, or for a parameter.

  A file may offer macros that an experiment does not need: `unused_bindings` reports those.
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


# Each use of a macro makes its value anew, so that ten macros of ten macros each would be 10^10.
_MOST_VALUES = 100_000
_MOST_MACROS_DEEP = 200


def _count_values(name, within, counted):
  """Returns how many macros are evaluated for one; counted has those that were counted."""
  if name in within:
    raise errors.SettingError(
      f"The macro {name} is made of itself: {' → '.join(f'%{each}' for each in (*within, name))}."
    )
  if len(within) > _MOST_MACROS_DEEP:
    raise errors.SettingError(
      f"The macro {within[0]} is made of macros that are more than {_MOST_MACROS_DEEP} deep."
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
      f"The macro {name} is made of {counted[name]:,} values of macros; at most {_MOST_VALUES:,} "
      "will do."
    )
  return counted[name]


def _check_calls(places):
  """Raises SettingError where `@name()` is called to make its own argument: gin would not end."""
  checked: set[tuple[str, str]] = set()
  for scope, selector in gin_internals.bindings():
    _follow_calls((scope, selector), (), checked, places)


def _follow_calls(call, within, checked, places):
  """Follows what a call of (scope, selector) makes gin call; within are the calls that led here."""
  if call in checked:
    return
  for key, value in _arguments(*call).items():
    for reference in gin_internals.iterate_references(value):
      if not reference.evaluate:
        continue
      inner = "/".join(reference.scopes) or call[0], reference.configurable.selector
      if inner in (*within, call):
        where, called = text.key_text(*key), reference.scoped_selector
        raise errors.SettingError(
          f"{places[key]}: {where} = @{called}() calls {called} to make an argument "
          "of its own call: without the brackets the function itself is given."
        )
      _follow_calls(inner, (*within, call), checked, places)
  checked.add(call)


def _arguments(scope, selector):
  """Returns the bindings that a call in a scope gets: (scope, selector, parameter) → value."""
  parts = scope.split("/") if scope else []
  found = {}
  for end in range(len(parts) + 1):
    outer = "/".join(parts[:end])
    for name, value in gin_internals.bindings().get((outer, selector), {}).items():
      found[name] = (outer, selector, name), value  # of an inner scope instead of an outer one's
  return dict(found.values())


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
      # gin itself calls `@name()`, so all that has no default must be bound. `@name` is called by
      # someone who passes arguments. Which ones is known only for what the root calls: none of
      # those that are marked gin.REQUIRED.
      by_root = root and key[1] == root.selector and value is reference
      for name, parameter in binding.named_parameters(reference.configurable).items():
        if (reference.evaluate and _has_no_default(parameter)) or (
          by_root and parameter.default is gin.REQUIRED
        ):
          yield reference.configurable.selector, name, f"{places[key]}: "


def _has_no_default(parameter):
  return parameter.default is parameter.empty or parameter.default is gin.REQUIRED
