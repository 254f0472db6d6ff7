"""What gin 0.5.0 keeps to itself and a run needs: all bindings, those that took effect, who is
registered. The one file that touches its privates.

gin says neither where a binding was made nor whether it took effect, and drops what it cannot
write; `trainer.config` does, by what is read here. Nor does it know a name that stands back where
another module registers the same one: here its registry learns to.
"""

import contextlib

from gin import config as gin_config
from gin import selector_map

ConfigurableReference = gin_config.ConfigurableReference
iterate_references = gin_config.iterate_references


class _Registry(selector_map.SelectorMap):
  """gin's registry, in which the names that `stand_back` was told of give way to all others.

  Attributes:
    ranks: complete selector → int > 0, of what stands back; the lower rank is taken.
    renamed: prefixes by which complete selectors may be written too, where nothing is registered
      under them.
  """

  def __init__(self):
    super().__init__()
    self.ranks = {}
    self.renamed = {}

  def matching_selectors(self, partial_selector):
    found = super().matching_selectors(partial_selector)
    if not found:
      for prefix, known in self.renamed.items():
        name = known + partial_selector.removeprefix(prefix)
        if partial_selector.startswith(prefix) and name in self:
          return [name]
    lowest = min((self.ranks.get(selector, 0) for selector in found), default=0)
    return [selector for selector in found if self.ranks.get(selector, 0) == lowest]


def _install():
  """Once, as this module is imported, and for good: gin keeps one registry for the process."""
  registry = _Registry()
  for selector, configurable_ in gin_config._REGISTRY.items():
    registry[selector] = configurable_
  gin_config._REGISTRY = registry


_install()


def stand_back(selector: str, rank: int) -> None:
  """Lets a shortened name stand for this complete selector only where it stands for no other.

  Args:
    selector: what was registered, or will be.
    rank: int > 0; among those that stand back, the lower is taken.
  """
  gin_config._REGISTRY.ranks[selector] = rank


def rename(prefix: str, known: str) -> None:
  """Lets selectors that start with `prefix` stand for those that start with `known` instead."""
  gin_config._REGISTRY.renamed[prefix] = known


def bindings():
  """{(scope, complete selector): {parameter: value}} of all bindings; a macro is the parameter
  `value` of "gin.macro" in the scope of its name.
  """
  return gin_config._CONFIG


def each_binding():
  """((scope, complete selector, parameter), value) of each binding."""
  return [
    ((scope, selector, name), value)
    for (scope, selector), values in bindings().items()
    for name, value in values.items()
  ]


def operative():
  """{(scope, complete selector): {parameter: value}} of what was called so far: what gin or a
  default gave, without what the callers gave.
  """
  with gin_config._OPERATIVE_CONFIG_LOCK:
    return {key: dict(values) for key, values in gin_config._OPERATIVE_CONFIG.items()}


@contextlib.contextmanager
def file_scope():
  """What gin opens for each file: `from __gin__ import dynamic_registration` counts for the
  file that has it. Gives the scope, for process_import.
  """
  with gin_config._parse_scope() as scope:
    yield scope
    gin_config._IMPORTS.update(scope.imports)


def find(selector):
  """The configurable of a complete or shortened selector, None if there is none.

  Raises:
    KeyError: there are several.
    NameError, AttributeError: with dynamic registration, no import of the file gives it.
  """
  return gin_config._parse_context().get_configurable(selector)


def matching(selector):
  """The complete selectors that a selector may stand for, sorted."""
  return sorted(gin_config._REGISTRY.matching_selectors(selector))


def registered():
  """All complete selectors."""
  return [selector for selector, _ in gin_config._REGISTRY.items()]


def configurable(complete_selector):
  """The gin_config.Configurable registered under a complete selector."""
  return gin_config._REGISTRY[complete_selector]


def configurable_of(function):
  """That of a function or class that was registered, None if it was not."""
  return gin_config._inverse_lookup(function)


def constants(name=None):
  """The complete names of all constants, or of those that name may stand for; sorted."""
  if name is None:
    return sorted(known for known, _ in gin_config._CONSTANTS.items())
  return sorted(gin_config._CONSTANTS.matching_selectors(name))


def macro_or_constant(name):
  """The reference that %name is."""
  return gin_config.ParserDelegate().macro(name)


def is_macro(reference):
  return reference.configurable.wrapped is gin_config.macro


def is_constant(reference):
  return reference.configurable.wrapped is gin_config._retrieve_constant


def import_manager(configurables):
  """gin's keeper of names for a text: `sorted_imports`, and `minimal_selector(configurable)` of
  each of the configurables.
  """
  manager = gin_config.ImportManager(gin_config._IMPORTS)
  for each in configurables:
    manager.require_configurable(each)
  return manager
