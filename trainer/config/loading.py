"""Loads the gin configuration of a run, and lists unused bindings.

Example:
    config.load(["gin_configs/digits.gin"], ["run.train_steps = 10"])
    config.dead_bindings()   # ["evl/digits.input_fn.split = 'test'  (gin_configs/digits.gin:12)"]
    config.parsed_text()
"""

import importlib
import os
import sys
from collections.abc import Sequence

import gin

from trainer import errors
from trainer.config import binding, checks, gin_internals, trust
from trainer.config import files as config_files
from trainer.config import text as config_text
from trainer.config import unused_bindings as dead
from trainer.devices import tensorflow_package
from trainer.settings import setting_types

# The place of each binding, "a.gin:12". Global, because gin's bindings are global.
_places: dict[gin_internals.Key, str] = {}

# The modules of the last load; a list, so that a load can replace them.
_modules: list[Sequence[str] | None] = [(trust.FOLDER,)]


def load(
  gin_files: Sequence[str | os.PathLike[str]] = (),
  gin_bindings: Sequence[str] = (),
  root: str | None = "trainer.experiment.Experiment",
  modules: Sequence[str] | None = (trust.FOLDER,),
) -> None:
  """Loads gin files and then bindings, checks them, and locks the configuration.

  A load drops all earlier bindings.

  Args:
    gin_files: paths, see `trainer.config.files`.
    gin_bindings: strings of gin, such as "run.train_steps = 10".
    root: module and name of the configured function. The load imports its module, and registers
      Keras's names (`trainer.config.keras_names`). None: the load skips both.
    modules: the packages that the files may import and name beside Octet's own, Keras's and
      TensorFlow's optimizers, layers and the like (`trainer.config.trust`); "." for all of the
      working directory. None: everything.

  Raises:
    SettingError: names the file and line, the text there, and similar names.
  """
  if str(config_files.SHIPPED) not in sys.path:
    sys.path.append(str(config_files.SHIPPED))  # Last: a program's own models/ comes first.
  # Read all files before importing the root: so a missing file or a syntax error shows at once and
  # does not wait for the import of TensorFlow.
  files = [config_files.read(path) for path in gin_files] + [
    config_files.parse(text) for text in gin_bindings
  ]
  clear()
  _modules[0] = modules
  configurable = None
  if root:
    configurable = _import_root(root)
  allowed = trust.Allowed(modules)
  for file in files:
    binding.apply(file, _places, allowed)
  checks.check(_places, configurable)
  for key, value in gin_internals.each_binding():
    place = f"{_places[key]}: {config_text.key_text(*key)}"
    allowed.check_value(value, place)
    # Check all written values, whether this run uses them or not.
    known = setting_types.annotations_of(gin_internals.configurable(key[1]).wrapped)
    if key[2] in known and not list(gin_internals.iterate_references(value)):
      setting_types.check(value, known[key[2]], place)
  try:
    gin.finalize()
  except ValueError as error:  # A value is %gin.REQUIRED.
    raise errors.SettingError(f"{errors.first_line(error)} (--gin_bindings)") from None


def clear() -> None:
  """Drops all bindings and unlocks the configuration. Registered names stay registered."""
  gin.clear_config()
  _places.clear()


def modules() -> tuple[str, ...] | None:
  """Returns the packages that the last `load` allowed its files to name; None for all."""
  return None if _modules[0] is None else tuple(_modules[0])


def _import_root(root):
  """Imports the root, registers Keras's names, and returns the root's gin Configurable."""
  module, _, name = root.rpartition(".")
  try:
    function = getattr(importlib.import_module(module), name)
    importlib.import_module("trainer.config.keras_names").register()
  except ImportError:
    tensorflow_package.check()
    raise
  return gin_internals.configurable_of(function)


def parsed_text() -> str:
  """Returns one gin file with all bindings, from files, includes and the command line."""
  return config_text.text(gin_internals.bindings(), "All bindings, as parsed.")


def operative_text() -> str:
  """Returns a gin file with the parameters in effect so far, defaults included."""
  return config_text.text(
    gin_internals.operative_bindings(), "The bindings in effect, defaults included."
  )


def input_bindings() -> list[str]:
  """Returns the lines of `operative_text` about a run's data and its reading.

  They are the parameters with names `...input_fn`, and the parameters of the functions in them.
  """
  bindings = gin_internals.operative_bindings()
  kept = {
    key: {name: value for name, value in values.items() if name.endswith("input_fn") and value}
    for key, values in bindings.items()
  }
  kept = {key: values for key, values in kept.items() if values}
  waiting = list(gin_internals.iterate_references(kept))
  while waiting:
    selector = waiting.pop().configurable.selector
    found = {key: bindings[key] for key in bindings if key[1] == selector and key not in kept}
    kept |= found
    waiting += gin_internals.iterate_references(found)
  lines = config_text.text(kept, "").splitlines() if kept else []
  return [line for line in lines if line and not line.startswith(("#", "import ", "from "))]


def dead_bindings(
  used_roots: Sequence[str] = ("trainer.run", "trainer.RunConfig"), trains: bool = True
) -> list[str]:
  """Returns the unused bindings; see `trainer.config.unused_bindings`.

  Args:
    used_roots: selectors of functions that the program calls itself. A binding of theirs counts as
      used even if a flag overrides it.
    trains: whether this run trains, see `unused_bindings.find`.

  Returns:
    Sorted strings "scope/selector.parameter = value  (a.gin:12)", some with a remedy.
  """
  return sorted(dead.describe(key, _places) for key in dead.find(used_roots, trains))
