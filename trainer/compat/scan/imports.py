"""The import statements of a program, changed to those of trainer.compat.v1."""

import ast

from trainer.compat.scan import source as source_lib

_PACKAGE = "trainer.compat.v1"


def changed(source: source_lib.Source) -> str:
  """The text of a file with its imports changed; nothing else is touched."""
  lines = source.text.splitlines(keepends=True)
  statements = {id(one.node): one.node for one in source.imports}
  for node in sorted(statements.values(), key=lambda node: -node.lineno):
    new = _statement(node)
    if new is None:
      continue
    first, last = node.lineno - 1, node.end_lineno - 1
    indent = lines[first][: node.col_offset]
    comment = lines[last][node.end_col_offset :]
    text = "".join(f"{indent}{line}\n" for line in new)
    lines[first : last + 1] = [text[:-1] + (comment or "\n")]
  return "".join(lines)


def _statement(node: ast.Import | ast.ImportFrom) -> list[str] | None:
  """The lines in the place of a statement, or None if it stays as it is."""
  found = _import(node) if isinstance(node, ast.Import) else _import_from(node)
  return None if found == [ast.unparse(node)] else found


def _import(node: ast.Import) -> list[str]:
  lines = []
  for alias in node.names:
    target = source_lib.target_of(alias.name)
    if (alias.name == "gin" or alias.name.startswith("gin.tf")) and alias.asname is None:
      name = "external_configurables"  # which registers names, and binds gin itself
      registers = [name] if alias.name.endswith(f".{name}") else []
      lines.append(f"from {_PACKAGE} import {', '.join([*registers, 'gin'])}")
    elif target is None:
      lines.append(_unchanged(node, alias))
    elif alias.asname is None:  # binds the root, whose names are looked for when they are used
      lines.append(f"import {_PACKAGE} as {alias.name.split('.')[0]}")
    elif not target:
      lines.append(f"import {_PACKAGE} as {alias.asname}")
    else:
      lines.append(_from(target, alias.asname))
  return list(dict.fromkeys(lines))


def _import_from(node: ast.ImportFrom) -> list[str]:
  lines = []
  for alias in node.names:
    target = source_lib.target_of(node.module or "", alias.name)
    if node.level or target is None:
      lines.append(_unchanged(node, alias))
    elif alias.name == "*":
      lines.append(f"from {_PACKAGE} import *")
    elif not target or target == "compat.v1":  # from tensorflow.compat import v1
      lines.append(f"import {_PACKAGE} as {alias.asname or alias.name}")
    else:
      lines.append(_from(target.removeprefix("compat.v1."), alias.asname or alias.name))
  unchanged = [line for line in lines if f"from {node.module} import" in line]
  if len(unchanged) == len(lines):
    return [ast.unparse(node)]
  return lines


def _from(target: str, bound: str) -> str:
  outer, _, name = target.rpartition(".")
  module = f"{_PACKAGE}.{outer}" if outer else _PACKAGE
  return f"from {module} import {name}" + ("" if bound == name else f" as {bound}")


def _unchanged(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
  single = ast.Import([alias]) if isinstance(node, ast.Import) else None
  return ast.unparse(single or ast.ImportFrom(node.module, [alias], node.level))
