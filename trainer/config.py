"""The gin configuration of a run: load it, write it down, and find the bindings that nobody uses.

    config.load(["gin_configs/digits.gin"], ["run.train_steps = 10"])
    config.dead_bindings()              # ["evl/digits.input_fn.split = 'test'  (gin_configs/digits.gin:12)"]
    config.save("out/digits/config.gin", config.parsed_text())

gin 0.5.0 says neither where a binding was made nor which take effect, and drops silently what it cannot write. What it keeps to itself and is needed
for that (`gin.config._CONFIG`, `_OPERATIVE_CONFIG` and the like) is touched in this file and nowhere else.
"""

import importlib
import inspect
import math
import os
import pathlib
import traceback

import gin
from absl import logging
from gin import config as gin_config

from trainer import config_files, errors

# (scope, complete selector, parameter) → where it was bound: "a.gin:12".
_places = {}

_LITERALS = (int, float, bool, str, bytes, type(None))
_LINE_LENGTH = 110


# ------------------------------------------------------------------------------------------------------------------------------------------------
# Loading


def load(gin_files=(), gin_bindings=(), root="trainer.experiment.run"):
  """Parses the files in order and then the bindings, checks them, and locks the configuration. What was loaded before is forgotten.

  Args:
    gin_files: paths, see `trainer.config_files`.
    gin_bindings: strings of gin, such as "run.train_steps = 10".
    root: the function that they configure, by module and name. Its module is imported, and Keras's names are registered (`trainer.registry`), once
      all files are found and their syntax is right: neither a missing file nor a typing error waits for TensorFlow. None: neither is done.

  Raises:
    errors.SettingError: names the file and line, what was found there, and near names.
  """
  files = [config_files.read(path) for path in gin_files] + [config_files.parse(text) for text in gin_bindings]
  clear()
  if root:
    importlib.import_module(root.rpartition(".")[0])
    from trainer import registry

    registry.register()
  for file in files:
    _apply(file)
  _check_macros()
  _check_required(root)
  gin.finalize()


def clear():
  """Forgets all bindings, and unlocks the configuration. What is registered stays so."""
  gin.clear_config()
  _places.clear()


def _apply(file):
  # A parse scope is what gin opens for each file: `from __gin__ import dynamic_registration` counts for the file that has it.
  with gin_config._parse_scope() as scope:
    for statement in file.statements:
      if isinstance(statement, config_files.File):
        _apply(statement)
        continue
      place = config_files.place(statement.location)
      if isinstance(statement, gin_config.config_parser.ImportStatement):
        _import(scope, statement, place)
      elif isinstance(statement, gin_config.config_parser.BlockDeclaration):
        _configurable(statement.selector, place)
      else:
        _bind(statement, place)
    gin_config._IMPORTS.update(scope.imports)


def _import(scope, statement, place):
  try:
    scope.process_import(statement)
  except ModuleNotFoundError as error:
    if error.name and (statement.module == error.name or statement.module.startswith(f"{error.name}.")):
      near = config_files.did_you_mean(statement.module, _modules())
      raise errors.SettingError(f"{place}: there is no module {statement.module}.{near}") from None
    raise errors.SettingError(f"{place}: {statement.module} cannot be imported: {error}. Is the package installed?") from error
  except errors.OctetError:
    raise
  except Exception as error:
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}:{last.lineno})"
    raise errors.SettingError(f"{place}: {statement.module} cannot be imported: {what}") from error


def _bind(statement, place):
  value = _looked_up(statement.value, place)
  if not statement.arg_name:  # NAME = value, a macro
    name = f"{statement.scope}/{statement.selector}" if statement.scope else statement.selector
    key = (name, "gin.macro", "value")
    gin.bind_parameter(key, value)
  else:
    configurable = _configurable(statement.selector, place)
    try:
      gin.bind_parameter((statement.scope, statement.selector, statement.arg_name), value)
    except ValueError:
      raise errors.SettingError(f"{place}: {_why_not(configurable, statement.selector, statement.arg_name)}") from None
    key = (statement.scope, configurable.selector, statement.arg_name)
  _places[key] = place


def _looked_up(value, place):
  """The value with gin's references in place of those as written."""
  if isinstance(value, config_files.Reference):
    _configurable(value.name.rpartition("/")[2], place)
    return gin_config.ConfigurableReference(value.name, value.evaluate)
  if isinstance(value, config_files.Macro):
    matches = gin_config._CONSTANTS.matching_selectors(value.name)
    if len(matches) > 1:
      raise errors.SettingError(f"{place}: %{value.name} is ambiguous: write one of {', '.join(f'%{name}' for name in sorted(matches))}.")
    return gin_config.ParserDelegate().macro(value.name)
  if isinstance(value, dict):
    return {_looked_up(key, place): _looked_up(item, place) for key, item in value.items()}
  if isinstance(value, list | tuple):
    return type(value)(_looked_up(item, place) for item in value)
  return value


def _configurable(selector, place):
  """What gin has registered under a selector, complete or not."""
  matches = gin_config._REGISTRY.matching_selectors(selector)
  try:
    found = gin_config._parse_context().get_configurable(selector)
  except KeyError:
    raise errors.SettingError(f"{place}: {selector} is ambiguous: write one of {', '.join(sorted(matches))}.") from None
  except (NameError, AttributeError) as error:  # with dynamic registration
    raise errors.SettingError(f"{place}: {error}") from None
  if found:
    return found
  length = selector.count(".") + 1
  registered = [".".join(name.split(".")[-length:]) for name, _ in gin_config._REGISTRY.items()]
  message = f"{place}: nothing is registered as {selector}."
  near = config_files.did_you_mean(selector, registered)
  missing = [module for module in _modules() if f".{selector}".rpartition(".")[0].endswith(f".{module.rpartition('.')[2]}")]
  if near:
    message += near
  elif missing:
    message += f" Add `import {missing[0]}` to the gin file?"
  else:
    message += " Does the gin file import the module that registers it?"
  raise errors.SettingError(message)


def _why_not(configurable, selector, name):
  """Why gin does not bind a parameter."""
  denied = configurable.denylist or ()
  if name in denied:
    return f"{selector}.{name} is not set in gin: give the flag --{name}, or the argument where the program calls {selector}."
  allowed = [other for other in configurable.allowlist or _parameters(configurable) if other not in denied]
  if name in _parameters(configurable):
    return f"{selector}.{name} is not set in gin; these are: {', '.join(allowed)}."
  near = config_files.did_you_mean(name, allowed) or f" It has {', '.join(allowed) or 'none'}."
  return f"{selector} has no parameter {name}.{near}"


def _parameters(configurable):
  """{name: inspect.Parameter} of those that can be given by name."""
  try:
    parameters = inspect.signature(configurable.wrapped).parameters.values()
  except ValueError:  # some builtins tell no signature; Python itself then checks the call
    return {}
  return {parameter.name: parameter for parameter in parameters if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)}


def _modules():
  """The modules of models/, input_pipelines/ and trainer/, which a gin file may import."""
  files = [file for folder in ("models", "input_pipelines", "trainer") for file in (config_files.ROOT / folder).rglob("*.py")]
  names = [".".join(file.relative_to(config_files.ROOT).with_suffix("").parts) for file in sorted(files)]
  return [name.removesuffix(".__init__") for name in names]


# ------------------------------------------------------------------------------------------------------------------------------------------------
# What must be set


def _check_macros():
  """Every %name is bound, and none to %gin.REQUIRED."""
  unset = []
  for key, value in _bindings():
    for reference in gin_config.iterate_references(value):
      name = "/".join(reference.scopes)
      if _is_macro(reference) and reference.config_key not in gin_config._CONFIG:
        known = [scope for scope, selector in gin_config._CONFIG if selector == "gin.macro"] + [name for name, _ in gin_config._CONSTANTS.items()]
        raise errors.SettingError(f"{_places[key]}: %{name} has no value: add `{name} = ...`.{config_files.did_you_mean(name, known)}")
      if _is_constant(reference) and name == "gin.REQUIRED":
        unset.append(key)
  if unset:
    names = [_written_key(*key) for key in unset]
    also = f" So are {', '.join(names[1:])}." if names[1:] else ""
    raise errors.SettingError(
        f"{_places[unset[0]]}: {names[0]} is required and not set: add `{names[0]} = ...` to a gin file or --gin_bindings.{also}")


def _check_required(root):
  """What will be called without arguments, or by the root alone, has all that it requires."""
  bound = {(selector, name) for (_, selector, name), _ in _bindings()}
  needed = {}
  if root:
    configurable = _configurable(root.rpartition(".")[2], root)
    for name, parameter in _parameters(configurable).items():
      if parameter.default in (parameter.empty, gin.REQUIRED) and name not in (configurable.denylist or ()):
        needed[configurable.selector, name] = ""
  for key, value in _bindings():
    for reference in gin_config.iterate_references(value):
      if reference.configurable.wrapped in (gin_config.macro, gin_config._retrieve_constant):
        continue
      # Who is called as @name() gets nothing but what is bound. Others get arguments from their callers; the root gives none that a config must set.
      by_root = root and key[1] == configurable.selector and value is reference
      for name, parameter in _parameters(reference.configurable).items():
        if (reference.evaluate and parameter.default in (parameter.empty, gin.REQUIRED)) or (by_root and parameter.default is gin.REQUIRED):
          needed.setdefault((reference.configurable.selector, name), f"{_places[key]}: ")
  for (selector, name), place in needed.items():
    if (selector, name) not in bound:
      written = _written_key("", selector, name)
      raise errors.SettingError(f"{place}{written} is required and not set: add `{written} = ...` to a gin file or --gin_bindings.")


def _bindings():
  """((scope, complete selector, parameter), value) of each binding."""
  return [((scope, selector, name), value) for (scope, selector), values in gin_config._CONFIG.items() for name, value in values.items()]


def _is_macro(reference):
  return reference.configurable.wrapped is gin_config.macro


def _is_constant(reference):
  return reference.configurable.wrapped is gin_config._retrieve_constant
