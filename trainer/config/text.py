"""Writes bindings as gin that can be parsed again: imports, macros, parameters."""

import math

from absl import logging

from trainer.config import gin_internals

_LITERALS = (bool, bytes, float, int, str, type(None))
_OPEN = {list: "[", tuple: "(", dict: "{"}
_CLOSE = {list: "]", tuple: ")", dict: "}"}
_LEFT_OUT = ("input_pipelines", "models", "trainer")
_LINE_LENGTH = 110


def text(bindings, heading):
  """The bindings as the text of a gin file.

  Args:
    bindings: {(scope, complete selector): {parameter: value}}.
    heading: str, a first line of comment.

  Returns:
    str. What gin has no literal for is in a comment at the end, and in a warning.
  """
  references = [reference.configurable for reference in gin_internals.iterate_references(bindings)]
  manager = gin_internals.import_manager(
    [*(gin_internals.configurable(selector) for _, selector in bindings), *references]
  )
  # Dynamic registration, where a file uses it, must come before the imports that it counts for.
  imports = sorted(
    manager.sorted_imports,
    key=lambda statement: (not statement.module.startswith("__gin__"), statement.module),
  )
  macros, parameters, unwritten = [], [], []
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
      "gin has no literal for these values, so that the saved configuration lacks them: %s",
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


def key_text(scope, selector, name, manager=None):
  """ "scope/selector.parameter", or the name of a macro."""
  if selector == "gin.macro":
    return scope
  return (
    f"{scope}/" * bool(scope) + f"{_name(gin_internals.configurable(selector), manager)}.{name}"
  )


def value_text(value, manager=None):
  """The value as gin writes it, None if gin has no literal for it."""
  if isinstance(value, gin_internals.ConfigurableReference):
    return _reference_text(value, manager)
  if type(value) in (list, tuple, dict):
    items = _items(value, manager)
    if items is None:
      return None
    comma = "," if type(value) is tuple and len(items) == 1 else ""
    return f"{_OPEN[type(value)]}{', '.join(items)}{comma}{_CLOSE[type(value)]}"
  if type(value) is float and math.isinf(value):
    return "1e999" if value > 0 else "-1e999"  # which Python reads as infinity
  if type(value) not in _LITERALS or value != value:
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
  """What a gin file calls it: the whole selector, which stays clear whatever else is imported,
  without the packages that configs leave out.
  """
  if manager and manager.dynamic_registration:
    return manager.minimal_selector(configurable)
  package, _, rest = configurable.selector.partition(".")
  return (
    rest
    if package in _LEFT_OUT and gin_internals.matching(rest) == [configurable.selector]
    else configurable.selector
  )


def _line(key, written, value, manager):
  line = f"{key} = {written}"
  if len(line) <= _LINE_LENGTH or type(value) not in _OPEN:
    return line
  items = "".join(f"    {item},\n" for item in _items(value, manager))
  return f"{key} = {_OPEN[type(value)]}\n{items}{_CLOSE[type(value)]}"
