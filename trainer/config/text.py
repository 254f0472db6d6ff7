"""Writes bindings as the text of a gin file that gin can parse again."""

import dataclasses
import math
from typing import Any

from absl import logging

from trainer.config import files, gin_internals


@dataclasses.dataclass(frozen=True)
class Verbatim:
  """A reference or macro as written, such as `@keras.optimizers.Adam` or `%BATCH`.

  The run that gets the value looks it up, not the reader of the file.
  """

  text: str


_LITERALS = (bool, bytes, float, int, str, type(None))
_OPEN: dict[type, str] = {list: "[", tuple: "(", dict: "{"}
_CLOSE: dict[type, str] = {list: "]", tuple: ")", dict: "}"}
_OMITTED_PACKAGES = ("input_pipelines", "models", "trainer")
_LINE_LENGTH = 110


def text(bindings: gin_internals.Bindings, heading: str) -> str:
  """Returns the text of a gin file: imports, then macros, then parameters.

  gin has no literal for some values. Such values go into comments at the end, and a warning names
  them.

  Args:
    bindings: (scope, complete selector) → {parameter: value}.
    heading: a comment for the first line.
  """
  references = [reference.configurable for reference in gin_internals.iterate_references(bindings)]
  manager = gin_internals.import_manager(
    [*(gin_internals.configurable(selector) for _, selector in bindings), *references]
  )
  # `from __gin__ import dynamic_registration` only affects the imports after it, so it comes first.
  imports = sorted(
    manager.sorted_imports,
    key=lambda statement: (not statement.module.startswith("__gin__"), statement.module),
  )
  macros: list[str] = []
  parameters: list[str] = []
  unwritten: list[str] = []
  for (scope, selector), values in sorted(
    bindings.items(), key=lambda item: (item[0][1].lower(), item[0][0])
  ):
    for name, value in values.items():
      key = key_text(scope, selector, name, manager)
      written = value_text(value, manager)
      if written is None:
        unwritten.append(f"{key} = {value!r}")
      else:
        (macros if selector == "gin.macro" else parameters).append(
          _line(key, written, value, manager)
        )
    if parameters and parameters[-1]:
      parameters.append("")
  if unwritten:
    logging.warning(
      "gin has no literal for these values; the saved configuration lacks them: %s",
      "; ".join(unwritten),
    )
  comments = [f"# Not written: {' '.join(line.split())}" for line in unwritten]
  parts = [
    [f"# {heading}"],
    [statement.format() for statement in imports],
    macros,
    parameters,
    comments,
  ]
  return "\n\n".join("\n".join(part).strip("\n") for part in parts if part) + "\n"


def key_text(scope: str, selector: str, name: str, manager: Any = None) -> str:
  """Returns a binding's left side: "scope/selector.parameter", or the name of a macro.

  Args:
    scope: of the binding; "" for none.
    selector: complete.
    name: of the parameter.
    manager: from gin_internals.import_manager; None to use complete selectors.
  """
  if selector == "gin.macro":
    return scope
  return (
    f"{scope}/" * bool(scope) + f"{_name(gin_internals.configurable(selector), manager)}.{name}"
  )


def value_text(value: Any, manager: Any = None) -> str | None:
  """Returns a value as gin writes it; None if gin has no literal for it."""
  if isinstance(value, Verbatim):
    return value.text
  if isinstance(value, files.Reference | files.Macro):
    return str(value)
  if isinstance(value, gin_internals.ConfigurableReference):
    # By its value where gin has a literal: the module that defines the constant may change.
    if value.evaluate and gin_internals.is_constant(value):
      literal = value_text(gin_internals.value_of_constant(value), manager)
      if literal is not None:
        return literal
    return _reference_text(value, manager)
  if type(value) in (list, tuple, dict):
    items = _items(value, manager)
    if items is None:
      return None
    comma = "," if type(value) is tuple and len(items) == 1 else ""
    return f"{_OPEN[type(value)]}{', '.join(items)}{comma}{_CLOSE[type(value)]}"
  if type(value) is float and math.isinf(value):
    return "1e999" if value > 0 else "-1e999"  # Python reads a literal that overflows as infinity.
  if type(value) not in _LITERALS or value != value:  # NaN has no literal.
    return None
  return repr(value)


def _items(value, manager):
  if isinstance(value, dict):
    pairs = [(value_text(key, manager), value_text(item, manager)) for key, item in value.items()]
    return (
      None if any(None in pair for pair in pairs) else [f"{key}: {item}" for key, item in pairs]
    )
  items = [value_text(item, manager) for item in value]
  return None if None in items else items


def _reference_text(reference, manager):
  if reference.evaluate and (
    gin_internals.is_macro(reference) or gin_internals.is_constant(reference)
  ):
    return "%" + "/".join(reference.scopes)
  return (
    "@"
    + "/".join([*reference.scopes, _name(reference.configurable, manager)])
    + "()" * reference.evaluate
  )


def _name(configurable, manager):
  """Returns the name of a Configurable in the text.

  The name is the complete selector, unambiguous whatever a program imports, but without Octet's own
  packages, as in config files.
  """
  if manager and manager.dynamic_registration:
    return manager.minimal_selector(configurable)
  selector = configurable.selector.removeprefix(f"{files.PACKAGE}.")
  package, _, rest = selector.partition(".")
  return (
    rest
    if package in _OMITTED_PACKAGES
    and gin_internals.matching_selectors(rest) == [configurable.selector]
    else configurable.selector
  )


def _line(key, written, value, manager):
  line = f"{key} = {written}"
  if len(line) <= _LINE_LENGTH or type(value) not in _OPEN:
    return line
  items = "".join(f"    {item},\n" for item in _items(value, manager))
  return f"{key} = {_OPEN[type(value)]}\n{items}{_CLOSE[type(value)]}"
