"""Changes the import statements of a program to trainer.compat's."""

import ast
import re
from collections.abc import Callable

from trainer.compat.scan import source as source_lib

_V1 = "trainer.compat.v1"


def lines_of(text: str) -> list[str]:
  """Returns lines with their ends; in Python, unlike in splitlines, a form feed ends no line."""
  return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)


def changed(source: source_lib.Source, api: str | None = source_lib.V1) -> str:
  """Returns the text of a file with its imports changed, and nothing else.

  Args:
    api: the meaning of a plain `tensorflow`, "v1" or "v2"; None if unknown: then nothing changes.
  """
  if api is None:
    return source.text
  lines = lines_of(source.text)
  to_change = [one for one in source.imports if not one.module.startswith("trainer")]
  statements = {id(one.node): one.node for one in to_change}
  for node in sorted(statements.values(), key=lambda node: -node.lineno):
    new = _statement(node, {one.bound: one.api for one in source.imports if one.api}, api)
    if new is None:
      continue
    first, last = node.lineno - 1, node.end_lineno - 1
    # The offsets count bytes of UTF-8.
    indent = lines[first].encode()[: node.col_offset].decode()
    comment = lines[last].encode()[node.end_col_offset :].decode()
    end = lines[last][len(lines[last].rstrip("\r\n")) :] or "\n"
    lines[first : last + 1] = [end.join(f"{indent}{line}" for line in new) + (comment or end)]
  return "".join(lines)


def _statement(
  node: ast.Import | ast.ImportFrom, explicit: dict[str, str], api: str
) -> list[str] | None:
  """Returns the lines that replace a statement, or None to keep it.

  Args:
    explicit: bound name → the package of an import that names its version.
    api: the package of all other imports.
  """

  def package(found: str, bound: str) -> str:
    return f"trainer.compat.{found or explicit.get(bound, api)}"

  found = _import(node, package) if isinstance(node, ast.Import) else _import_from(node, package)
  return None if found == [ast.unparse(node)] else found


def _import(node: ast.Import, package: Callable[[str, str], str]) -> list[str]:
  lines = []
  for alias in node.names:
    target, own = source_lib.target_of(alias.name)
    root = alias.name.split(".")[0]
    if (alias.name == "gin" or alias.name.startswith("gin.tf")) and alias.asname is None:
      name = "external_configurables"  # registers names, and binds gin itself
      registers = [name] if alias.name.endswith(f".{name}") else []
      lines.append(f"from {_V1} import {', '.join([*registers, 'gin'])}")
    elif target is None:
      lines.append(_unchanged(node, alias))
    elif alias.asname is None:  # binds the root; a use looks its names up
      target, own = source_lib.target_of(root)
      lines.append(_from(package(own, root), target or "", root))
    else:
      lines.append(_from(package(own, alias.asname), target, alias.asname))
  return list(dict.fromkeys(lines))


def _import_from(node: ast.ImportFrom, package: Callable[[str, str], str]) -> list[str]:
  lines = []
  for alias in node.names:
    target, own = source_lib.target_of(node.module or "", alias.name)
    bound = alias.asname or alias.name
    if node.level or target is None:
      lines.append(_unchanged(node, alias))
    elif alias.name == "*":
      module = f"{package(own, '')}.{target}".removesuffix("*").rstrip(".")
      lines.append(f"from {module} import *")
    else:
      lines.append(_from(package(own, bound), target, bound))
  unchanged = [line for line in lines if f"from {node.module} import" in line]
  if len(unchanged) == len(lines):
    return [ast.unparse(node)]
  return lines


def _from(package: str, target: str, bound: str) -> str:
  if not target:  # import tensorflow, from tensorflow.compat import v1
    return f"import {package} as {bound}"
  outer, _, name = target.rpartition(".")
  module = f"{package}.{outer}" if outer else package
  return f"from {module} import {name}" + ("" if bound == name else f" as {bound}")


def _unchanged(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
  single = ast.Import([alias]) if isinstance(node, ast.Import) else None
  return ast.unparse(single or ast.ImportFrom(node.module, [alias], node.level))
