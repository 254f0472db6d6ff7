"""Executes the statements of gin files: imports modules and binds parameters.

gin's errors become one or two sentences with the file, the line and similar names.
"""

import inspect
import os
import sys
import traceback
from typing import Any

import gin
from absl import flags
from gin import config_parser

from trainer import errors
from trainer.config import files as config_files
from trainer.config import gin_internals, trust


def apply(
  file: config_files.File, places: dict[gin_internals.Key, str], allowed: trust.Allowed
) -> None:
  """Executes the imports and bindings of a file and its includes, in order.

  Args:
    file: the parsed file.
    places: receives the place of each binding, such as "a.gin:12".
    allowed: the names that the file may import and use.

  Raises:
    SettingError: an import or a binding fails; the message names the file and line.
  """
  with gin_internals.file_scope() as scope:
    for statement in file.statements:
      if isinstance(statement, config_files.File):
        apply(statement, places, allowed)
        continue
      place = config_files.place(statement.location)
      if isinstance(statement, config_parser.ImportStatement):
        _import(scope, statement, place, allowed)
      elif isinstance(statement, config_parser.BlockDeclaration):
        find(statement.selector, place, allowed)
      else:
        places[_bind(statement, place, allowed)] = place


def find(selector: str, place: str, allowed: trust.Allowed) -> Any:
  """Returns gin's Configurable for a selector.

  Args:
    selector: complete, or its last parts.
    place: the selector's place, for the error message.
    allowed: the allowed names at this place.

  Raises:
    SettingError: the selector is unknown, ambiguous, or not allowed.
  """
  dynamic = gin_internals.registers_dynamically()
  try:
    if dynamic:
      # Before gin registers the selector's target: registering replaces the target.
      allowed.check_reached(selector, place)
    found = gin_internals.find(selector)
  except KeyError:
    raise errors.SettingError(
      f"{place}: {selector} is ambiguous: write one of "
      f"{', '.join(gin_internals.matching_selectors(selector))}."
    ) from None
  except (NameError, AttributeError) as error:  # Only in a file with dynamic registration.
    raise errors.SettingError(f"{place}: {error}") from None
  if found:
    if not dynamic:
      allowed.check_registered(found, selector, place)
    return found
  # A module of Octet without an import explains the error better than similar names.
  module = selector.rpartition(".")[0].rpartition(".")[2]
  unused = [
    name for name in _modules() if name.rpartition(".")[2] == module and name not in sys.modules
  ]
  hint = _near(selector)
  if unused and not selector.startswith("keras."):
    hint = f" Add `import {unused[0]}` to the gin file."
  raise errors.SettingError(
    f"{place}: no configurable has the name "
    f"{selector}.{hint or ' Does the gin file import the module that registers it?'}"
  )


def _near(selector):
  length = selector.count(".") + 1
  return config_files.did_you_mean(
    selector, [".".join(name.split(".")[-length:]) for name in gin_internals.all_selectors()]
  )


def named_parameters(configurable: Any) -> dict[str, inspect.Parameter]:
  """Returns the parameters of a gin Configurable that accept a keyword."""
  try:
    found = inspect.signature(configurable.wrapped).parameters.values()
  except ValueError:  # Some builtins have no signature; then Python checks the call.
    return {}
  return {
    parameter.name: parameter
    for parameter in found
    if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
  }


# These modules need tf.estimator, so importing them fails since TensorFlow 2.16. Octet skips the
# import, because trainer.config.keras_names registers the same names.
_GIN_TF = ("gin.tf", "gin.tf.external_configurables")


def _import(scope, statement, place, allowed):
  if statement.module in _GIN_TF and statement.module not in sys.modules:
    return
  if not statement.module.startswith("__gin__."):
    statement = statement._replace(module=_importable(statement.module))
    allowed.check_import(statement.module, place)
  try:
    scope.process_import(statement)
  except errors.OctetError:
    raise
  except SystemExit as error:
    raise errors.SettingError(
      f"{place}: cannot import {statement.module}: it ends the program, by "
      f"sys.exit({error.code!r}) in {_where_raised(error)}. Is it a script? A script's own work "
      'belongs below `if __name__ == "__main__":`.'
    ) from None
  except Exception as error:
    name = statement.module
    if name.startswith("__gin__."):  # An option of gin's parser, not a module.
      raise errors.SettingError(
        f"{place}: {str(getattr(error, 'msg', error)).splitlines()[0]}"
      ) from None
    # The module itself is missing, or one of its parent packages. If the error names another
    # module, this one exists and one of its own imports failed.
    if (
      isinstance(error, ModuleNotFoundError)
      and error.name
      and f"{name}.".startswith(f"{error.name}.")
    ):
      raise errors.SettingError(
        f"{place}: there is no module {name}.{config_files.did_you_mean(name, _modules())}"
      ) from None
    what = f"{type(error).__name__}: {error} ({_where_raised(error)})"
    raise errors.SettingError(f"{place}: cannot import {name}. {what}") from error


def _importable(module):
  """Returns Python's name of a module; Octet ships some under two names.

  A program's own package `models` or `input_pipelines` has priority for the modules in it.
  """
  short = module.removeprefix(f"{config_files.PACKAGE}.")
  if short.partition(".")[0] not in ("input_pipelines", "models"):
    return module
  long = f"{config_files.PACKAGE}.{short}"
  names = (long, short) if module == long and not trust.is_own(short) else (short, long)
  return next(filter(trust.is_there, names), module)


def _where_raised(error):
  last = traceback.extract_tb(error.__traceback__)[-1]
  return f"{os.path.basename(last.filename)}:{last.lineno}"


def _bind(statement, place, allowed):
  """Makes a binding and returns its key."""
  value = _resolve(statement.value, place, allowed)
  if not statement.arg_name:  # NAME = value, a macro.
    name = f"{statement.scope}/{statement.selector}" if statement.scope else statement.selector
    gin.bind_parameter((name, "gin.macro", "value"), value)
    return name, "gin.macro", "value"
  configurable = find(statement.selector, place, allowed)
  try:
    gin.bind_parameter((statement.scope, statement.selector, statement.arg_name), value)
  except ValueError:
    raise errors.SettingError(
      f"{place}: {_why_not(configurable, statement.selector, statement.arg_name)}"
    ) from None
  return statement.scope, configurable.selector, statement.arg_name


def _resolve(value, place, allowed):
  """Replaces the references and macros in a value, as written, by gin's own."""
  if isinstance(value, config_files.Reference):
    found = find(value.name.rpartition("/")[2], place, allowed)
    if value.evaluate and allowed.is_checked_call(found):
      return gin_internals.CheckedCall(
        value.name, lambda call: _checked(call, f"{place}: the result of @{value.name}()", allowed)
      )
    return gin_internals.ConfigurableReference(value.name, value.evaluate)
  if isinstance(value, config_files.Macro):
    try:
      return gin_internals.macro_or_constant(value.name)
    except ValueError as error:  # Several constants fit.
      raise errors.SettingError(f"{place}: {error}") from None
  if isinstance(value, dict):
    return {
      _resolve(key, place, allowed): _resolve(item, place, allowed) for key, item in value.items()
    }
  if isinstance(value, list | tuple):
    return type(value)(_resolve(item, place, allowed) for item in value)
  return value


def _checked(call, place, allowed):
  """Calls a function for a gin file; Keras and Octet's own code are the callers that check it."""
  if "keras" in sys.modules:
    from trainer.internals import keras_internals

    # A layer that copies itself, such as Bidirectional, deserializes outside of load_model.
    with keras_internals.safe_mode():
      value = call()
  else:
    value = call()
  allowed.check_value(value, place)
  return value


def _why_not(configurable, selector, name):
  """Returns a sentence that says why gin refused to bind a parameter."""
  known = configurable.allowlist or named_parameters(configurable)
  if name not in (configurable.denylist or ()) and not (selector == "run" and name in flags.FLAGS):
    near = config_files.did_you_mean(name, known) or f" It has: {', '.join(known) or 'none'}."
    return f"{selector} has no parameter {name}.{near}"
  # `run` passes these on to other objects: RunConfig.train_steps, for example, comes from
  # run.train_steps.
  if "trainer.run" in gin_internals.all_selectors() and name in named_parameters(
    gin_internals.configurable("trainer.run")
  ):
    return f"gin cannot set {selector}.{name}: bind run.{name}."
  return f"gin cannot set {selector}.{name}: give the flag --{name}, or the argument in the call."


def _modules():
  """Returns the names of Octet's own modules that a gin file may import."""
  roots = {"input_pipelines": config_files.SHIPPED, "models": config_files.SHIPPED}
  return [
    ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    for name, root in {**roots, "trainer": config_files.ROOT}.items()
    for file in sorted((root / name).rglob("*.py"))
  ]
