"""Finds the names of TensorFlow that a file uses, from its imports and assignments."""

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

# The package of trainer.compat with a name: TensorFlow 1's, TensorFlow 2's, or the package that the
# program means by a plain `tensorflow`.
V1, V2, PLAIN = "v1", "v2", ""

# A private name of TensorFlow that an import keeps: `tensorflow.python.framework.ops`.
INSIDE = "tensorflow"

# Another file of the program: its path replaces a name.
FILE = "file"

# Name in a file → (the name in trainer.compat, in TensorFlow, or a path; its package or FILE).
# `self.layers` is a name, too.
Bound = dict[str, tuple[str, str]]

# Path → the bindings of a file.
Files = Mapping[str, Bound]

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclasses.dataclass(frozen=True)
class Use:
  """A name of TensorFlow that a file uses.

  Attributes:
    name: the name in trainer.compat: `layers.dense`, `estimator.ModeKeys.TRAIN`.
    line: the line's number.
    api: the package with the name: V1, V2, or PLAIN; INSIDE for TensorFlow's own full name.
    of_plain: whether a plain `tf` leads to a name of TensorFlow 1 or 2:
      `tf.compat.v1.layers.dense`.
    positional: the number of positional arguments in the call; -1 without a call, or with a `*`.
    keywords: the names of the call's keyword arguments.
    optimizers: names of TensorFlow in arguments with names that end in "optimizer".
  """

  name: str
  line: int
  api: str = V1
  of_plain: bool = False
  positional: int = -1
  keywords: tuple[str, ...] = ()
  optimizers: tuple[str, ...] = ()


def found(tree: ast.Module, bound: Bound, own: Iterable[Use], files: Files) -> list[Use]:
  """Returns the uses of a file in order.

  Args:
    bound: the imports' bindings.
    own: uses by the import statements themselves.
    files: the other files' bindings.
  """
  uses = {*own, *_in_scope(tree, bound | _attributes(tree, bound, files), files)}
  return sorted(uses, key=lambda use: (use.line, use.name))


def aliases(tree: ast.Module, bound: Bound, files: Files) -> Bound:
  """Returns the bindings of assignments at the top of a file: `v1 = tf.compat.v1`."""
  return _assigned(_nodes(tree)[0], bound, files)[0]


def names(tree: ast.AST) -> set[str]:
  """Returns the names that a file binds anywhere, without the names of its stars."""
  bound = set()
  for node in ast.walk(tree):
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
      bound.add(node.id)
    elif isinstance(node, ast.arg):
      bound.add(node.arg)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
      bound.add(node.name)
    elif isinstance(node, ast.alias):
      bound.add(node.asname or node.name.split(".")[0])
    elif isinstance(node, ast.ExceptHandler) and node.name:
      bound.add(node.name)
  return bound


# ------------------------------------------------------------------ scopes


def _in_scope(scope: ast.AST, bound: Bound, files: Files) -> Iterator[Use]:
  """Yields the uses in a file or a function, and in the functions inside."""
  nodes, functions = _nodes(scope)
  aliased, hidden = _assigned(nodes, bound, files)
  if isinstance(scope, _FUNCTIONS):
    arguments = {node.arg for node in ast.walk(scope.args) if isinstance(node, ast.arg)}
    # If a function has an argument `tf`, its callers pass TensorFlow.
    hidden = {name for name in hidden | arguments if bound.get(name, ("", ""))[0]}
    bound = {name: value for name, value in bound.items() if name not in hidden}
  bound = bound | aliased
  yield from _uses(nodes, bound, files)
  for function in functions:
    yield from _in_scope(function, bound, files)


def _nodes(scope: ast.AST) -> tuple[list[ast.AST], list[ast.AST]]:
  """Returns (the nodes of a scope in order, the functions in it).

  Defaults and decorators of a function belong to the scope around the function.
  """
  nodes: list[ast.AST] = []
  functions: list[ast.AST] = []
  if isinstance(scope, ast.Lambda):
    waiting: list[ast.AST] = [scope.body]
  else:
    waiting = [*scope.body[::-1]]
  while waiting:
    node = waiting.pop()
    if isinstance(node, _FUNCTIONS):
      functions.append(node)
      inner = [one for one in [*node.args.defaults, *node.args.kw_defaults] if one]
      inner += [one.annotation for one in ast.walk(node.args) if getattr(one, "annotation", None)]
      if not isinstance(node, ast.Lambda):
        inner += [*node.decorator_list, *filter(None, [node.returns])]
    else:
      nodes.append(node)
      inner = [*ast.iter_child_nodes(node)]
    waiting += inner[::-1]
  return nodes, functions


def _assigned(nodes: list[ast.AST], bound: Bound, files: Files) -> tuple[Bound, set[str]]:
  """Returns (bindings of assignments in a scope to TensorFlow names, names bound otherwise too)."""
  aliased: Bound = {}
  targets = set()
  for node in nodes:
    if isinstance(node, ast.Assign) and all(isinstance(one, ast.Name) for one in node.targets):
      value = _value(node.value, bound | aliased, files)
      if value is not None:
        aliased |= {one.id: value for one in node.targets}
      if value is not None or _is_none(node.value):
        targets |= {id(one) for one in node.targets}
  hidden = {
    node.id
    for node in nodes
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in targets
  }
  return {name: value for name, value in aliased.items() if name not in hidden}, hidden


def _attributes(tree: ast.Module, bound: Bound, files: Files) -> Bound:
  """Returns bindings such as `self.layers = tf.contrib.layers`, if nothing else assigns them."""
  aliased: dict[str, set[tuple[str, str] | None]] = {}
  for node in ast.walk(tree):
    for target in node.targets if isinstance(node, ast.Assign) else ():
      base, rest = _parts(target)
      if isinstance(base, ast.Name) and len(rest) == 1 and not _is_none(node.value):
        value = _value(node.value, bound, files)
        aliased.setdefault(f"{base.id}.{rest[0]}", set()).add(value)
  return {
    name: value
    for name, (value, *more) in aliased.items()
    if value is not None and not more and name.partition(".")[0] not in bound
  }


def _is_none(node: ast.AST) -> bool:
  return isinstance(node, ast.Constant) and node.value is None


# ------------------------------------------------------------------ chains of attributes


def _uses(nodes: list[ast.AST], bound: Bound, files: Files) -> Iterator[Use]:
  """Yields the longest chains of attributes that begin with a bound name."""
  inner = {id(one) for node in nodes if (one := _before(node)) is not None}
  calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
  for node in nodes:
    # `tf.estimator.Estimator.hook = f` sets a name and reads none.
    is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    is_chain = isinstance(node, ast.Name) or _before(node) is not None or _imported(node)
    if is_chain and is_read and id(node) not in inner:
      name, api, of_plain = _resolved(node, bound, files)
      if name:
        called = _call(calls.get(id(node)), bound, files)
        yield Use(name, node.lineno, api, of_plain, *called)


def _before(node: ast.AST) -> ast.AST | None:
  """Returns `tf` of `tf.layers` and of `getattr(tf, "layers")`; None of anything else."""
  if isinstance(node, ast.Attribute):
    return node.value
  return node.args[0] if _is_call(node, ("getattr",), 2) else None


def _is_call(node: ast.AST, functions: tuple[str, ...], arguments: int) -> bool:
  """Returns whether a node calls one of functions with this many arguments, the last a string."""
  if not (isinstance(node, ast.Call) and len(node.args) == arguments and not node.keywords):
    return False
  last = node.args[-1]
  name = getattr(node.func, "attr", getattr(node.func, "id", ""))
  return name in functions and isinstance(last, ast.Constant) and isinstance(last.value, str)


def _imported(node: ast.AST) -> str:
  """Returns TensorFlow's module in `importlib.import_module("...")`; "" for others."""
  if not _is_call(node, ("import_module", "__import__"), 1):
    return ""
  module = node.args[0].value
  return module if module.split(".")[0] == "tensorflow" else ""


def _parts(node: ast.AST) -> tuple[ast.AST, list[str]]:
  """Returns (the node of `tf`, ["layers", "dense"]) of `tf.layers.dense`."""
  names: list[str] = []
  while (before := _before(node)) is not None:
    names.append(node.attr if isinstance(node, ast.Attribute) else node.args[1].value)
    node = before
  return node, names[::-1]


def _value(node: ast.AST, bound: Bound, files: Files) -> tuple[str, str] | None:
  """Returns the binding of a chain of attributes; None outside of TensorFlow."""
  base, rest = _parts(node)
  if isinstance(base, ast.Name):
    value = bound.get(base.id)
    if value is None and rest:
      value, rest = bound.get(f"{base.id}.{rest[0]}"), rest[1:]
  else:
    value = (_imported(base), INSIDE) if _imported(base) else None
  while value is not None and value[1] == FILE and rest:
    value, rest = files.get(value[0], {}).get(rest[0]), rest[1:]
  if value is None or value[1] == FILE:
    return value
  return ".".join(filter(None, [value[0], *rest])), value[1]


def _resolved(node: ast.AST, bound: Bound, files: Files) -> tuple[str, str, bool]:
  """Returns (name, api, of_plain) of a chain of attributes, see Use; name is "" for none."""
  value = _value(node, bound, files)
  if value is None or value[1] == FILE:
    return "", PLAIN, False
  target, api = value
  parts = target.split(".")
  if parts[:1] == ["compat"] and parts[1:2] in ([V1], [V2]):
    return ".".join(parts[2:]), parts[1], api == PLAIN
  return target, api, False


def _call(
  node: ast.Call | None, bound: Bound, files: Files
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
  """Returns (positional, keywords, optimizers) of a call, see Use."""
  if node is None:
    return -1, (), ()
  optimizers = {
    _resolved(inside, bound, files)[0]
    for keyword in node.keywords
    if (keyword.arg or "").endswith("optimizer")
    for inside in ast.walk(keyword.value)
  }
  starred = any(isinstance(one, ast.Starred) for one in node.args)
  keywords = tuple(sorted(k.arg for k in node.keywords if k.arg))
  return -1 if starred else len(node.args), keywords, tuple(sorted(optimizers - {""}))
