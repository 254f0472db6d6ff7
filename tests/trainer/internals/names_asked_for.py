"""Which paths a file of private names asks for, read from its source: it need not be importable."""

import ast
import pathlib

import trainer
from trainer import errors
from trainer.internals import private_names

FOLDER = pathlib.Path(trainer.__file__).parent / "internals"


def paths(file: str) -> list[str]:
  """The paths that a file of trainer gives to `private_names` and cannot do without."""
  return [
    call.args[0].value
    for call in ast.walk(ast.parse((FOLDER / file).read_text()))
    if isinstance(call, ast.Call)
    and isinstance(call.func, ast.Attribute)
    and isinstance(call.func.value, ast.Name)
    and call.func.value.id == "private_names"
    and call.func.attr != "member_if_any"
  ]


def missing(file: str) -> list[str]:
  """What is said of each that the installed version lacks."""
  found = []
  for path in paths(file):
    try:
      private_names.find(path)
    except errors.VersionError as error:
      found.append(str(error))
  return found
