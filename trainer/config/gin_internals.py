"""Access to private parts of gin 0.5.0: all bindings, the bindings that took effect, the registry.

No other file uses gin's private names. gin reports neither the place of a binding nor whether it
took effect, and its own text of a configuration silently lacks values that it cannot write. The
other modules of `trainer.config` build these reports on this module.

This module also replaces gin's registry: in the new one, a name can give way to other names with
the same short form.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from gin import config as gin_config
from gin import selector_map

# The key of a binding: (scope, complete selector, parameter).
Key: TypeAlias = tuple[str, str, str]

# (scope, complete selector) → {parameter: value}.
Bindings: TypeAlias = dict[tuple[str, str], dict[str, Any]]

Configurable = gin_config.Configurable
ConfigurableReference = gin_config.ConfigurableReference
iterate_references = gin_config.iterate_references


class _Registry(selector_map.SelectorMap):
  """gin's registry, with ranks for selectors and alternative prefixes.

  Attributes:
    ranks: complete selector → int. A short name that fits several selectors means the selectors
      with the lowest rank. A missing selector has rank 0.
    renamed: other prefix → prefix of registered selectors, used only if a selector fits nothing
      else.
    registrars: complete selector → name of the module that registered it; None if a gin file
      did, by dynamic registration.
  """

  def __init__(self):
    super().__init__()
    self.ranks = {}
    self.renamed = {}
    self.registrars = {}

  def __setitem__(self, complete_selector, value):
    super().__setitem__(complete_selector, value)
    self.registrars[complete_selector] = _registrar()

  def matching_selectors(self, partial_selector):
    found = super().matching_selectors(partial_selector)
    if not found:
      for prefix, known in self.renamed.items():
        name = known + partial_selector.removeprefix(prefix)
        if partial_selector.startswith(prefix) and name in self:
          return [name]
    lowest = min((self.ranks.get(selector, 0) for selector in found), default=0)
    return [selector for selector in found if self.ranks.get(selector, 0) == lowest]


# Modules that register names for other modules.
_GO_BETWEEN = (
  "gin.",
  "trainer.config.gin_",
  "trainer.compat.packages.gin.",
  "contextlib.",
  "functools.",
)


def _registrar():
  """Returns the name of the registering module."""
  frame = sys._getframe(2)
  while frame and f"{frame.f_globals['__name__']}.".startswith(_GO_BETWEEN):
    if frame.f_code is gin_config.ParseContext._register.__code__:
      return None
    frame = frame.f_back
  return frame and frame.f_globals["__name__"]


def _install():
  """Replaces gin's registry, once per process, when Python imports this module."""
  registry = _Registry()
  for selector, configurable_ in gin_config._REGISTRY.items():
    registry[selector] = configurable_
    # The registrar of earlier names is unknown; most often it is the module that defines them.
    registry.registrars[selector] = getattr(configurable_.wrapped, "__module__", None)
  gin_config._REGISTRY = registry


_install()


def stand_back(selector: str, rank: int) -> None:
  """Makes a complete selector give way to all others with the same short name.

  Args:
    selector: registered now or later.
    rank: int > 0. Among several that give way, gin takes the lowest rank.
  """
  gin_config._REGISTRY.ranks[selector] = rank


def rename(prefix: str, known: str) -> None:
  """Makes selectors that start with `prefix` find selectors that start with `known`."""
  gin_config._REGISTRY.renamed[prefix] = known


def bindings() -> Bindings:
  """Returns all bindings.

  A macro is the parameter `value` of the selector "gin.macro", in a scope with the macro's name.
  """
  return gin_config._CONFIG


def each_binding() -> list[tuple[Key, Any]]:
  """Returns (key, value) of each binding."""
  return [
    ((scope, selector, name), value)
    for (scope, selector), values in bindings().items()
    for name, value in values.items()
  ]


def operative_bindings() -> Bindings:
  """Returns the parameters of all called functions, with bound and default values.

  The result leaves out parameters that callers passed themselves.
  """
  with gin_config._OPERATIVE_CONFIG_LOCK:
    return {key: dict(values) for key, values in gin_config._OPERATIVE_CONFIG.items()}


@contextlib.contextmanager
def file_scope() -> Iterator[Any]:
  """Opens the scope that gin opens for each file, and yields it for its `process_import`.

  `from __gin__ import dynamic_registration` counts only within the scope of its file.
  """
  with gin_config._parse_scope() as scope:
    yield scope
    gin_config._IMPORTS.update(scope.imports)


def find(selector: str) -> Any:
  """Returns gin's Configurable for a complete or shortened selector; None if nothing fits.

  Raises:
    KeyError: several fit.
    NameError: with dynamic registration, no import of the file defines it.
    AttributeError: with dynamic registration, the imported module lacks it.
  """
  return gin_config._parse_context().get_configurable(selector)


def matching_selectors(selector: str) -> list[str]:
  """Returns the complete selectors that a selector fits, sorted."""
  return sorted(gin_config._REGISTRY.matching_selectors(selector))


def all_selectors() -> list[str]:
  """Returns the complete selectors of all registered names."""
  return [selector for selector, _ in gin_config._REGISTRY.items()]


def configurable(complete_selector: str) -> Any:
  """Returns gin's Configurable for a complete selector."""
  return gin_config._REGISTRY[complete_selector]


def configurable_of(function: Any) -> Any:
  """Returns gin's Configurable of a function or class; None without a registration."""
  return gin_config._inverse_lookup(function)


def registrar(complete_selector: str) -> str | None:
  """Returns the name of the module that registered a selector.

  Returns:
    None for names that a gin file registered, by dynamic registration. For names from before the
    import of this module, the module that defines the object.
  """
  return gin_config._REGISTRY.registrars.get(complete_selector)


def imported_symbol(name: str) -> Any:
  """Returns the object that the file in binding imported under a name; None for `gin`.

  Raises:
    NameError: none of its imports has this name.
  """
  symbols = gin_config._parse_context()._symbol_table
  if name not in symbols:
    raise NameError(f"'{name}' was not provided by an import statement.")
  return None if name == "gin" else symbols[name]


def registers_dynamically() -> bool:
  """Returns whether the file in binding asked for dynamic registration."""
  return gin_config._parse_context()._dynamic_registration


def is_builtin(known: Any) -> bool:
  """Returns whether it is one of gin's own: macro, constant, singleton."""
  return known.wrapped in (gin_config.macro, gin_config._retrieve_constant, gin_config.singleton)


def constants(name: str | None = None) -> list[str]:
  """Returns the complete names of all constants, or of the constants that fit `name`; sorted."""
  if name is None:
    return sorted(known for known, _ in gin_config._CONSTANTS.items())
  return sorted(gin_config._CONSTANTS.matching_selectors(name))


def macro_or_constant(name: str) -> Any:
  """Returns the ConfigurableReference that gin makes of %name."""
  return gin_config.ParserDelegate().macro(name)


def is_macro(reference: Any) -> bool:
  """Whether a ConfigurableReference is a macro."""
  return reference.configurable.wrapped is gin_config.macro


def is_constant(reference: Any) -> bool:
  """Whether a ConfigurableReference is a constant."""
  return reference.configurable.wrapped is gin_config._retrieve_constant


def value_of_constant(reference: Any) -> Any:
  """Returns the value of a constant's ConfigurableReference."""
  return gin_config._CONSTANTS["/".join(reference.scopes)]


class CheckedCall(gin_config.ConfigurableReference):
  """`@name()` in a binding; it checks its result before use.

  Args:
    name: the scope and the selector.
    call: calls its argument and checks the result.
  """

  def __init__(self, name: str, call: Callable[[Callable[[], Any]], Any]) -> None:
    super().__init__(name, True)
    self._call = call

  def __deepcopy__(self, memo: Any) -> Any:  # gin evaluates references through this.
    return self._call(lambda: super(CheckedCall, self).__deepcopy__(memo))


def import_manager(configurables: Iterable[Any]) -> Any:
  """Returns gin's ImportManager for the text of a configuration that uses these Configurables.

  Its `sorted_imports` are the imports that the text needs. Its `minimal_selector(configurable)` is
  the name of a Configurable in that text.
  """
  manager = gin_config.ImportManager(gin_config._IMPORTS)
  for each in configurables:
    manager.require_configurable(each)
  return manager
