"""Imports the main module of a command with its own flags, as a process of the command has them.

Two commands may have a flag of one name, and absl refuses both in one process.
"""

import contextlib
import importlib
import sys

from absl import flags

_DEFINERS = ("_main", "_flags")


@contextlib.contextmanager
def loaded(name, *arguments):
  """Yields a freshly imported main module, whose flags have parsed the arguments."""
  known = flags.FLAGS
  others = {name: known[name] for name in _ours()}
  definers = {each: list(of) for each, of in known.flags_by_module_dict().items()}
  keys = {each: list(of) for each, of in known.key_flags_by_module_dict().items()}
  modules = {each: sys.modules[each] for each in _mains(name)}
  _forget(name)
  try:
    module = importlib.import_module(name)
    known(["command", *arguments])
    yield module
  finally:
    _forget(name)
    for flag, value in others.items():
      known[flag] = value
    for register, of_modules in (
      (known.register_flag_by_module, definers),
      (known.register_key_flag_for_module, keys),
    ):
      for each, of in of_modules.items():
        for flag in of:
          if flag.name in others:
            register(each, flag)
    for each, module in modules.items():
      sys.modules[each] = module
      package, _, own = each.rpartition(".")
      setattr(sys.modules[package], own, module)


def _ours():
  """Returns the names of the flags that absl does not define itself."""
  find = flags.FLAGS.find_module_defining_flag
  return [name for name in flags.FLAGS if not str(find(name)).startswith("absl.")]


def _mains(name):
  """Returns the imported modules that may define flags of a command."""
  return [
    each
    for each in sys.modules
    if each == name or (each.startswith("trainer.") and each.endswith(_DEFINERS))
  ]


def _forget(name):
  for flag in _ours():
    delattr(flags.FLAGS, flag)
  for each in _mains(name):
    package, _, own = each.rpartition(".")
    del sys.modules[each]
    # `from package import module` takes the attribute without an import.
    vars(sys.modules[package]).pop(own, None)
