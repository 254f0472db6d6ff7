"""Checks that the bindings of a sweep have an effect in the experiment.

gin accepts bindings in a scope that no reference uses. (`config.load` finds unused macros.)
"""

from collections.abc import Sequence

from gin import config_parser

from trainer import config, errors
from trainer.config import files, gin_internals


def check(gin_files: Sequence[str], rows: Sequence[Sequence[str]], modules: Sequence[str]) -> None:
  """Checks lists of bindings.

  Args:
    gin_files: of the experiment.
    rows: lists of bindings; each is loaded after the files.
    modules: modules that they may import and name, see `trainer.config.trust`.

  Raises:
    SettingError: a row binds in a scope without a reference and without bindings of the files; or
      see `config.load`.
  """
  config.load(gin_files, modules=modules)
  # A scope counts if the files bind in it, or if a reference has it. A row's binding does not prove
  # that something uses its scope.
  scopes = {
    scope for (names, _, _), _ in gin_internals.each_binding() for scope in names.split("/")
  }
  for row in rows:
    config.load(gin_files, row, modules=modules)
    for _, value in gin_internals.each_binding():
      for reference in gin_internals.iterate_references(value):
        scopes.update(reference.scopes)
  for line in dict.fromkeys(line for row in rows for line in row):
    for statement in files.parse(line).statements:
      if isinstance(statement, config_parser.BindingStatement):
        _check(statement, scopes)


def _check(statement, scopes):
  for scope in statement.scope.split("/") if statement.scope and statement.arg_name else ():
    if scope not in scopes:
      raise errors.SettingError(
        f"{statement.scope}/{statement.selector}.{statement.arg_name} has no effect: no reference "
        f"in the experiment has the scope {scope}.{files.did_you_mean(scope, scopes)}"
      )
