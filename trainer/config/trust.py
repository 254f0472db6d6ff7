"""Decides which code a gin file may import and name, and which values it may give.

A gin file imports modules and names functions that a run calls: a file from elsewhere could run
anything. `Allowed` is the limit. It applies before an import of a module, and before a registration
of an object or a reference to it:

    limit = Allowed([".", "my_package"])            # the flag --gin_modules
    limit.check_import("os", "a.gin:1")             # SettingError
    limit.check_registered(configurable, "os.system", "a.gin:2")
    limit.check_value({"class_name": "f", "module": "os", "config": {}}, "a.gin:3: x")

Without any flag a gin file may name the registrations of Octet's packages and of the allowed ones,
Keras's layers, and the names of Keras and TensorFlow from `trainer.config.keras_names`. With gin's
dynamic registration it may also name an allowed package's own definitions, but only registered
names of Octet's own packages: most of their functions write files.

Wherever Keras takes a layer, an optimizer, a function and the like, it also takes a dict that
describes one: it imports the module in the dict, and calls the name in the dict. Keras 3.5 to 3.8
call any function of any module for it, such as subprocess.Popen; later versions call functions that
read and write files. So a dict with the key "class_name" is refused.
"""

import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from trainer import errors
from trainer.config import files, gin_internals

# The word in --gin_modules for the folder that the command runs in.
FOLDER = "."

OWN = ("input_pipelines", "models", "trainer", files.PACKAGE)

# The limit for imports from them; names in a gin file have a limit of their own.
_LIBRARIES = ("keras", "tensorflow")
_PARTS = (
  "activations",
  "initializers",
  "layers",
  "losses",
  "metrics",
  "optimizers",
  "optimizers.schedules",
  "regularizers",
)
_LIBRARY_MODULES = {
  "gin",
  "gin.tf",
  "gin.tf.external_configurables",
  "keras",
  "tensorflow",
  "tensorflow.compat",
  "tensorflow.compat.v1",
  "tensorflow.keras",
  *(f"keras.{part}" for part in _PARTS),
  *(f"tensorflow.keras.{part}" for part in _PARTS),
}

# Names that gin itself gives to a file with dynamic registration, below `gin`.
_GIN_BUILTINS = ("constant", "macro", "singleton")

# A SavedModel's graph may run any operation of TensorFlow, also one that writes files. The layers
# around other libraries' modules read pickles, Lambda reads marshalled code, and the look-up layers
# read a file or an address.
_LAYERS_THAT_LOAD = (
  "FlaxLayer",
  "IntegerLookup",
  "JaxLayer",
  "Lambda",
  "StringLookup",
  "TFSMLayer",
  "TextVectorization",
  "TorchModuleWrapper",
)

_PathFinder = importlib.machinery.PathFinder


class Allowed:
  """The packages that a gin file may import and name, beside Octet's.

  Args:
    modules: names of packages and modules, each with everything below it; "." for the packages and
      modules in the working directory. None: everything, for files of your own.
  """

  def __init__(self, modules: Iterable[str] | None) -> None:
    self._everything = modules is None
    given = [name.strip() for name in modules or ()]
    self._modules = tuple(name for name in given if name != FOLDER)
    self._folder = os.path.realpath(os.getcwd()) if FOLDER in given else None
    for name in filter(None, self._modules):
      if not is_there(name):
        raise errors.SettingError(
          f"--gin_modules: there is no module {name}, neither installed nor in {os.getcwd()}."
        )

  def check_import(self, module: str, place: str) -> None:
    """Raises SettingError if a gin file may not import a module; imports nothing itself."""
    if self._everything or module in _LIBRARY_MODULES:
      return
    if not _folders(module.partition(".")[0]):
      return  # There is no such module; the import reports it better.
    if _is_special(module.split(".")) or not self._is_allowed(module):
      raise errors.SettingError(f"{place}: Octet refuses import {module}: {self._limit(module)}")

  def check_registered(
    self, configurable: gin_internals.Configurable, selector: str, place: str
  ) -> None:
    """Raises SettingError if a gin file may not name the object behind a selector."""
    if not (self._everything or self._may_name(configurable)):
      module = gin_internals.registrar(configurable.selector) or configurable.wrapped.__module__
      raise errors.SettingError(
        f"{place}: Octet refuses {selector}; {module} registers it: {self._limit(module)}"
      )

  def check_reached(self, selector: str, place: str) -> None:
    """Checks the target of a selector, in a file with dynamic registration.

    The check of each module on the way comes before the check of its content.

    Raises:
      SettingError: the file may not name it.
      NameError: no import of the file gives the first of the names.
      AttributeError: the selector leads nowhere.
    """
    if self._everything:
      return
    first, *names = selector.split(".")
    value = gin_internals.imported_symbol(first)
    if value is None and names and names[0] in _GIN_BUILTINS and len(names) == 1:
      return
    for name in names:
      if _is_special([name]) or not self._may_look_into(value):
        break
      value = getattr(value, name)
    else:
      if self._may_name_object(value):
        return
    where = getattr(value, "__module__", None) or getattr(value, "__name__", None)
    raise errors.SettingError(
      f"{place}: Octet refuses {selector}; it leads to {where}: {self._limit(where)}"
    )

  def check_value(self, value: Any, place: str) -> None:
    """Checks a bound value, or the result of a call in a gin file.

    It does not look into references: their parts have a check of their own where gin binds or
    returns them.

    Args:
      value: the value, with gin's references.
      place: the place of the value and its parameter, for the error message.

    Raises:
      SettingError: Keras would make an object of a dict or string in it.
    """
    todo = [] if self._everything else [value]
    while todo:
      value = todo.pop()
      if isinstance(value, Mapping):
        todo += [*value, *value.values()]
        for key in value:
          if key == "class_name":
            raise errors.SettingError(
              f"{place}: Octet refuses a dict with the key 'class_name': Keras would make an "
              "object of it, and so could run any code. Gin writes it as @keras.layers.NAME()."
            )
          if isinstance(key, gin_internals.ConfigurableReference) and key.evaluate:
            raise errors.SettingError(f"{place} has a dict with the key {key}: write the key out.")
      elif isinstance(value, list | tuple | set | frozenset):
        todo += value
      elif isinstance(value, str) and _is_registered(value):
        raise errors.SettingError(
          f"{place}: Octet refuses {value!r}, Keras's name of a library's object. Gin writes an "
          "object as @NAME."
        )

  def is_checked_call(self, configurable: gin_internals.Configurable) -> bool:
    """Whether to check results of calls in gin files: not for trusted code."""
    known = gin_internals.registrar(configurable.selector) or configurable.wrapped.__module__
    return not self._everything and (is_own(known) or not self._is_allowed(known))

  def _may_look_into(self, value: Any) -> bool:
    """Whether a file may go on to attributes of a value: a module's imports are not part of it."""
    if not isinstance(value, types.ModuleType):
      return self._may_name_object(value)
    return value.__name__.partition(".")[0] in _LIBRARIES or self._is_allowed(value.__name__)

  def _may_name_object(self, value: Any) -> bool:
    known = None
    if callable(value) and isinstance(value, Hashable):
      known = gin_internals.configurable_of(value)
    return (known is not None and self._may_name(known)) or self._is_free(value)

  def _may_name(self, configurable: gin_internals.Configurable) -> bool:
    registrar = gin_internals.registrar(configurable.selector)
    return (
      gin_internals.is_builtin(configurable)
      or (registrar is not None and self._is_allowed(registrar))
      or self._is_free(configurable.wrapped)
    )

  def _is_free(self, value: Any) -> bool:
    """Whether a file may name a value without a registration."""
    if _is_layer(value):
      return True
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or not self._is_allowed(module):
      return False
    return not is_own(module) or self._is_given(module)

  def _is_allowed(self, module: str) -> bool:
    # The program itself, or a module in --gin_modules.
    if module == "__main__" or self._is_given(module):
      return True
    folders = set(_folders(module.partition(".")[0]))
    return is_own(module) or folders == {self._folder}

  def _is_given(self, module: str) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in self._modules)

  def _limit(self, module: str | None) -> str:
    own = f"{', '.join(OWN[:-1])}, Keras's and TensorFlow's optimizers, layers and the like"
    folder = f", the packages of {self._folder}" if self._folder else ""
    given = f", {', '.join(self._modules)}" if self._modules else ""
    add = ",".join([FOLDER] * bool(self._folder) + [*self._modules, (module or "NAME")])
    return (
      f"a gin file may import and name {own}{folder}{given}. If you trust it: "
      f"--gin_modules={add.replace('__main__', 'NAME')}"
    )


def is_there(module: str) -> bool:
  """Whether Python finds a module, without an import of its packages."""
  path = None
  for end in range(len(parts := module.split("."))):
    name = ".".join(parts[: end + 1])
    try:
      # Octet's own package has no code, and in an editable install no folder: ask it directly.
      is_asked = path is None or (end == 1 and parts[0] == files.PACKAGE)
      spec = _spec(name) if is_asked else _PathFinder.find_spec(name, path)
    except (ImportError, ValueError):
      return module in sys.modules
    if spec is None:
      return module in sys.modules
    path = list(spec.submodule_search_locations or ())
  return True


def _spec(name):
  """Returns the spec of a package, or of a package in one, without an import."""
  root, _, rest = name.partition(".")
  spec = importlib.util.find_spec(root)
  if spec is None or not rest:
    return spec
  path = list(spec.submodule_search_locations or ())
  return next(filter(None, (finder.find_spec(name, path) for finder in sys.meta_path)), None)


def _is_special(names: Iterable[str]) -> bool:
  """Whether one of the names is Python's own, such as __main__ and __globals__."""
  return any(name.startswith("__") for name in names)


def is_own(module: str) -> bool:
  """Returns whether a module is Octet's own, and no other of the same name."""
  root, _, rest = module.partition(".")
  if root == files.PACKAGE:  # In an editable install it lies in no folder, but its packages do.
    root = f"{root}.{rest.partition('.')[0]}" if rest else root
    return set(_folders(root)) == {str(files.SHIPPED)}
  return root in OWN and set(_folders(root)) in ({str(files.ROOT)}, {str(files.SHIPPED)})


def _is_registered(name: str) -> bool:
  """Whether a library has registered an object with Keras under a name, such as "theirs>Init"."""
  keras = sys.modules.get("keras")
  return ">" in name and keras is not None and keras.saving.get_registered_object(name) is not None


def _is_layer(value: Any) -> bool:
  keras = sys.modules.get("keras")
  name = getattr(value, "__name__", None)
  return (
    keras is not None
    and isinstance(value, type)
    and isinstance(name, str)
    and name not in _LAYERS_THAT_LOAD
    and getattr(keras.layers, name, None) is value
  )


def _folders(root: str) -> tuple[str, ...]:
  """Returns the folders that a top-level module or package lies in.

  The list has "" for a built-in module, and is empty for a missing one.
  """
  try:
    spec = _spec(root)
  except (ImportError, ValueError):
    return ("",)
  if spec is None:
    return ()
  if spec.submodule_search_locations is not None:
    paths = list(spec.submodule_search_locations)
  else:
    paths = [spec.origin or ""] if spec.has_location else []
  return tuple(os.path.realpath(os.path.dirname(path)) for path in paths if path) or ("",)
