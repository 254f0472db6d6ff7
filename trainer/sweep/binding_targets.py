"""Whether what a sweep sets is anything that the experiment looks at: gin takes macros that
nobody mentions, and scopes that nobody enters.
"""

from gin import config_parser

from trainer import config, errors
from trainer.config import files, gin_internals


def check(gin_files, rows):
  """Raises SettingError if a row binds a macro that nothing mentions, or in a scope that no
  reference names and the files bind nothing in.

  Args:
    gin_files: those of the experiment.
    rows: lists of bindings, each of which loads after the files.
  """
  config.load(gin_files)
  macros, scopes = (
    set(),
    {scope for (names, _, _), _ in gin_internals.each_binding() for scope in names.split("/")},
  )
  for row in rows:
    config.load(gin_files, row)
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
