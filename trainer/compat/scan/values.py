"""Resolves expressions to names of TensorFlow: `tf.layers`, `utils.tf`, `globals()["tf"]`."""

import ast
from collections.abc import Mapping

# The package of trainer.compat with a name: TensorFlow 1's, TensorFlow 2's, or the package that the
# program means by a plain `tensorflow`.
V1, V2, PLAIN = "v1", "v2", ""

# A private name of TensorFlow that an import keeps: `tensorflow.python.framework.ops`.
INSIDE = "tensorflow"

# Another file of the program: its path replaces a name.
FILE = "file"

# (The name in trainer.compat, in TensorFlow, or a path; its package or FILE.)
Value = tuple[str, str]

# Name in a file → its Value. `self.layers` is a name, too, and so is `f()`, the result of a call.
Bound = dict[str, Value]

# Path → the bindings of a file.
Files = Mapping[str, Bound]

_NAMESPACES = ("globals", "locals", "vars")


def before(node: ast.AST) -> ast.AST | None:
  """Returns `tf` of `tf.layers` and `getattr(tf, "layers")`, `f` of `f()`; None without such."""
  if isinstance(node, ast.Attribute):
    return node.value
  if _is_call(node, ("getattr",), 2):
    return node.args[0]
  if isinstance(node, ast.Call) and not imported(node):
    return node.func
  if isinstance(node, ast.Subscript) and _constant(node.slice):
    inner = node.value
    if isinstance(inner, ast.Attribute) and inner.attr == "__dict__":
      return inner.value
    if isinstance(inner, ast.Call) and getattr(inner.func, "id", "") == "vars" and inner.args:
      return inner.args[0]
  return None


def imported(node: ast.AST) -> str:
  """Returns TensorFlow's module in `importlib.import_module("...")`; "" for others."""
  if _is_call(node, ("import_module", "__import__"), 1):
    module = node.args[0].value
  elif isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "modules":
    module = _constant(node.slice)
  else:
    return ""
  return module if module.split(".")[0] == "tensorflow" else ""


def of(node: ast.AST, bound: Bound, files: Files) -> Value | None:
  """Returns the Value of an expression; None outside of TensorFlow."""
  base, parts = _parts(node)
  key = _name(base)
  value = (imported(base), INSIDE) if imported(base) else bound.get(key)
  names = bound
  for part in parts:
    if value is None:
      key += part
    elif value[1] == FILE:
      names, key = files.get(value[0], {}), part.removeprefix(".")
    elif part == "()":
      return None
    else:
      value = (value[0] + part).removeprefix("."), value[1]
      continue
    value = names.get(key)
  return value


def key_of(node: ast.AST) -> str:
  """Returns the text of a chain of attributes and calls, as in Bound; "" for anything else."""
  base, parts = _parts(node)
  name = _name(base)
  return name + "".join(parts) if name else ""


def _parts(node: ast.AST) -> tuple[ast.AST, list[str]]:
  """Returns (the node of `tf`, [".layers", "()"]) of `tf.layers()`."""
  parts: list[str] = []
  while (inner := before(node)) is not None:
    if isinstance(node, ast.Attribute):
      parts.append(f".{node.attr}")
    elif isinstance(node, ast.Subscript):
      parts.append(f".{_constant(node.slice)}")
    else:
      parts.append(f".{node.args[1].value}" if inner is not node.func else "()")
    node = inner
  return node, parts[::-1]


def _name(node: ast.AST) -> str:
  """Returns the name of `tf` and of `globals()["tf"]`; "" for anything else."""
  if isinstance(node, ast.Name):
    return node.id
  if isinstance(node, ast.Subscript) and is_namespace(node.value):
    return _constant(node.slice)
  return ""


def is_namespace(node: ast.AST) -> bool:
  """Returns whether a node is `globals()`, or another dict of the names in a scope."""
  return isinstance(node, ast.Call) and not node.args and _name(node.func) in _NAMESPACES


def _constant(node: ast.AST) -> str:
  return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_call(node: ast.AST, functions: tuple[str, ...], arguments: int) -> bool:
  """Returns whether a node calls one of functions with this many arguments, the last a string."""
  if not (isinstance(node, ast.Call) and len(node.args) == arguments and not node.keywords):
    return False
  name = getattr(node.func, "attr", getattr(node.func, "id", ""))
  return name in functions and bool(_constant(node.args[-1]))
