"""Checks that the bindings of a sweep have an effect in the experiment.

gin accepts macros that are never used, and scopes that are never entered.
"""

from collections.abc import Sequence

from gin import config_parser

from trainer import config, errors
from trainer.config import files, gin_internals


def check(gin_files: Sequence[str], rows: Sequence[Sequence[str]], modules: Sequence[str]) -> None:
  """Checks lists of bindings.

  Args:
    gin_files: of the experiment.
    rows: lists of bindings, each of which is loaded after the files.
    modules: what they may import and name, see `trainer.config.trust`.

  Raises:
    SettingError: a row sets a macro that is never used, or binds in a scope that no reference names
      and in which the files bind nothing.
  """
  config.load(gin_files, modules=modules)
  macros = set()
  scopes = {
    scope for (names, _, _), _ in gin_internals.each_binding() for scope in names.split("/")
  }
  for row in rows:
    config.load(gin_files, row, modules=modules)
    for _, value in gin_internals.each_binding():
      for reference in gin_internals.iterate_references(value):
        scopes.update(reference.scopes)
        if gin_internals.is_macro(reference):
          macros.add("/".join(reference.scopes))
  for line in dict.fromkeys(line for row in rows for line in row):
    for statement in files.parse(line).statements:
      if isinstance(statement, config_parser.BindingStatement):
        _check(statement, macros, scopes)


def _check(statement, macros, scopes):
  name = f"{statement.scope}/{statement.selector}" if statement.scope else statement.selector
  if not statement.arg_name and name not in macros:
    raise errors.SettingError(
      f"The macro {name} is set, and nothing in the experiment mentions "
      f"%{name}.{files.did_you_mean(name, macros)}"
    )
  for scope in statement.scope.split("/") if statement.scope and statement.arg_name else ():
    if scope not in scopes:
      raise errors.SettingError(
        f"{name}.{statement.arg_name} is set, and no reference in the experiment has the scope "
        f"{scope}."
        f"{files.did_you_mean(scope, scopes)}"
      )
