"""The gin configuration of a run: load it, write it down, find the bindings that nobody uses.

Example:
    config.load(["gin_configs/digits.gin"], ["run.train_steps = 10"])
    config.dead_bindings()              # ["evl/digits.input_fn.split = 'test'
                                        # (gin_configs/digits.gin:12)"]
    config.save("out/digits/config.gin", config.parsed_text())
"""

import importlib
import os

import gin

from trainer import errors
from trainer.config import binding, checks, gin_internals
from trainer.config import files as config_files
from trainer.config import text as config_text
from trainer.config import unused_bindings as dead
from trainer.devices import tensorflow_package

# (scope, complete selector, parameter) → where it was bound, "a.gin:12". As global as gin's own
# state.
_places = {}


def load(gin_files=(), gin_bindings=(), root="trainer.experiment.run"):
  """Parses the files in order and then the bindings, checks them, and locks the configuration.

  What was loaded before is forgotten.

  Args:
    gin_files: paths, see `trainer.config.files`.
    gin_bindings: strings of gin, such as "run.train_steps = 10".
    root: the function that they configure, by module and name. Its module is imported, and Keras's
      names are registered (`trainer.config.keras_names`), once all files are found and their syntax
      is right: neither a missing file nor a typing error waits for TensorFlow. None: neither is
      done.

  Raises:
    errors.SettingError: names the file and line, what was found there, and near names.
  """
  files = [config_files.read(path) for path in gin_files] + [
    config_files.parse(text) for text in gin_bindings
  ]
  clear()
  configurable = None
  if root:
    configurable = _import_root(root)
  for file in files:
    binding.apply(file, _places)
  checks.check(_places, configurable)
  gin.finalize()


def clear():
  """Forgets all bindings and unlocks the configuration. What is registered stays so."""
  gin.clear_config()
  _places.clear()


def _import_root(root):
  """The root's gin Configurable; Keras's names are registered too. Both bring TensorFlow."""
  package = tensorflow_package.installed()
  if package.for_tpu and len(package.packages) == 1:
    # Now, since the import would abort the process where libtpu does not fit.
    tensorflow_package.check()
  module, _, name = root.rpartition(".")
  try:
    function = getattr(importlib.import_module(module), name)
    importlib.import_module("trainer.config.keras_names").register()
  except ImportError:
    tensorflow_package.check()
    raise
  return gin_internals.configurable_of(function)


def parsed_text():
  """All bindings as parsed, files, includes and command line together, as the text of a gin
  file that gives the same configuration.
  """
  return config_text.text(gin_internals.bindings(), "All bindings, as parsed.")


def operative_text():
  """What took effect so far, defaults included, as the text of a gin file that gives the same."""
  return config_text.text(gin_internals.operative(), "What took effect, defaults included.")


def dead_bindings(used_roots=("trainer.run", "trainer.RunConfig")):
  """The bindings that are set and not used, as sorted strings "scope/selector.parameter = value
  (a.gin:12)"; see `trainer.config.unused_bindings`.

  Args:
    used_roots: selectors of functions that the program calls by itself. What a flag gives in place
      of a binding of theirs does not make it dead.
  """
  return sorted(dead.shown(key, _places) for key in dead.find(used_roots))


def save(path, text):
  """Writes text, whole or not at all, to a local path or an address that TensorFlow can write to,
  such as gs://; makes its folder.

  Raises:
    errors.OutputError: it cannot be written.
  """
  import tensorflow as tf

  from trainer import files

  try:
    tf.io.gfile.makedirs(os.path.dirname(path) or ".")
    with files.write_atomically(path) as file:
      file.write(text)
  except (OSError, tf.errors.OpError) as error:
    raise errors.OutputError(
      f"Cannot write {path}: {getattr(error, 'message', error)} (--model_dir)"
    ) from error
