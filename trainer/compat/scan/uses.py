"""Finds names of TensorFlow in a syntax tree, through its scopes and assignments."""

import ast
import dataclasses
from collections.abc import Iterable, Iterator

from trainer.compat.scan import values
from trainer.compat.scan.values import FILE, PLAIN, V1, V2, Bound, Files, Value

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

# Functions that do not keep their first argument; the first ones take the name of an attribute.
_ASKING = ("delattr", "getattr", "hasattr", "object", "setattr")  # `mock.patch.object`
_READING = ("id", "isinstance", "print")


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
    is_lost: whether the value goes where the scan cannot follow it: into a dict, to a function.
  """

  name: str
  line: int
  api: str = V1
  of_plain: bool = False
  positional: int = -1
  keywords: tuple[str, ...] = ()
  optimizers: tuple[str, ...] = ()
  is_lost: bool = False


def found(
  tree: ast.Module, bound: Bound, own: Iterable[Use], files: Files, loose: Bound | None = None
) -> list[Use]:
  """Returns the uses of a file in order.

  Args:
    bound: the imports' bindings.
    own: uses by the import statements themselves.
    files: the other files' bindings.
    loose: attribute → a module that any file of the program assigns to it.
  """
  file = _File(files, loose or {}, _parents(tree))
  uses = {*own, *_in_scope(tree, bound | attributes(tree, bound, files), file)}
  return sorted(uses, key=lambda use: (use.line, use.name))


def aliases(tree: ast.Module, bound: Bound, files: Files) -> Bound:
  """Returns the bindings at the top of a file: `v1 = tf.compat.v1`, functions that return `tf`."""
  nodes, functions = _nodes(tree)
  aliased = _assigned(nodes, bound, files)[0]
  return aliased | _returned(functions, bound | aliased, files)


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


def read_texts(tree: ast.AST) -> None:
  """Puts the statements of constant texts that exec and eval run into the tree."""
  for node in ast.walk(tree):
    if is_unread(node) and isinstance(node.args[0], ast.Constant):
      try:
        body = ast.parse(node.args[0].value).body
      except (SyntaxError, TypeError):
        continue
      for one in (inner for statement in body for inner in ast.walk(statement)):
        one.lineno = node.lineno
      node.args = body


def is_unread(node: ast.AST) -> bool:
  """Returns whether a node runs a text whose statements are not in the tree."""
  is_run = isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("exec", "eval")
  return is_run and bool(node.args) and not isinstance(node.args[0], ast.stmt)


# ------------------------------------------------------------------ scopes


@dataclasses.dataclass(frozen=True)
class _File:
  """What the scopes of a file share: `found`'s arguments, and each node's parent by its id."""

  files: Files
  loose: Bound
  parents: dict[int, ast.AST]


def _parents(tree: ast.AST) -> dict[int, ast.AST]:
  return {id(inner): node for node in ast.walk(tree) for inner in ast.iter_child_nodes(node)}


def _in_scope(scope: ast.AST, bound: Bound, file: _File) -> Iterator[Use]:
  """Yields the uses in a file or a function, and in the functions inside."""
  nodes, functions = _nodes(scope)
  bound = _inner(scope, nodes, functions, bound, file.files)
  yield from _uses(scope, nodes, bound, file)
  for function in functions:
    yield from _in_scope(function, bound, file)


def _inner(
  scope: ast.AST, nodes: list[ast.AST], functions: list[ast.AST], bound: Bound, files: Files
) -> Bound:
  """Returns the bindings inside of a scope, from the bindings around it."""
  aliased, hidden = _assigned(nodes, bound, files)
  if isinstance(scope, _FUNCTIONS):
    arguments = {node.arg for node in ast.walk(scope.args) if isinstance(node, ast.arg)}
    aliased = _defaults(scope.args, bound, files) | aliased
    # If a function has an argument `tf`, its callers pass TensorFlow.
    hidden = {name for name in hidden | arguments if bound.get(name, ("", ""))[0]}
    bound = {name: value for name, value in bound.items() if name not in hidden}
  bound = bound | aliased
  return bound | _returned(functions, bound, files)


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
  """Returns (bindings of assignments in a scope to one name of TensorFlow each, names bound
  otherwise too).
  """
  aliased: Bound = {}
  targets, ambiguous = set(), set()
  for node in nodes:
    if isinstance(node, ast.Assign) and all(isinstance(one, ast.Name) for one in node.targets):
      value = values.of(node.value, bound | aliased, files)
      if value is not None:
        ambiguous |= {one.id for one in node.targets if aliased.get(one.id, value) != value}
        aliased |= {one.id: value for one in node.targets}
      if value is not None or _is_none(node.value):
        targets |= {id(one) for one in node.targets}
  hidden = ambiguous | {
    node.id
    for node in nodes
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in targets
  }
  return {name: value for name, value in aliased.items() if name not in hidden}, hidden


def _defaults(arguments: ast.arguments, bound: Bound, files: Files) -> Bound:
  """Returns the bindings of arguments by their defaults: `def f(layers=tf.layers)`."""
  positional = [*arguments.posonlyargs, *arguments.args]
  last = positional[len(positional) - len(arguments.defaults) :]
  given = [*last, *arguments.kwonlyargs], [*arguments.defaults, *arguments.kw_defaults]
  pairs = zip(*given, strict=True)
  found = ((name.arg, values.of(node, bound, files)) for name, node in pairs if node)
  return {name: value for name, value in found if value is not None}


def _returned(functions: list[ast.AST], bound: Bound, files: Files) -> Bound:
  """Returns bindings such as `f()`, for functions that return one name of TensorFlow."""
  found = {}
  for function in functions:
    if isinstance(function, ast.FunctionDef):
      value = _result(function, bound, files)
      if value is not None:
        found[f"{function.name}()"] = value
  return found


def _result(function: ast.FunctionDef, bound: Bound, files: Files) -> Value | None:
  nodes, _ = _nodes(function)
  returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value]
  if not returned:
    return None
  bound = _inner(function, nodes, [], bound, files)
  results = {values.of(one, bound, files) for one in returned if not _is_none(one)}
  return results.pop() if len(results) == 1 else None


def attributes(tree: ast.Module, bound: Bound, files: Files) -> Bound:
  """Returns bindings such as `self.layers = tf.contrib.layers`, if nothing else assigns them."""
  aliased: dict[str, set[Value | None]] = {}
  for node in ast.walk(tree):
    for target in node.targets if isinstance(node, ast.Assign) else ():
      if isinstance(target, ast.Attribute) and not _is_none(node.value):
        value = values.of(node.value, bound, files)
        aliased.setdefault(values.key_of(target), set()).add(value)
    if isinstance(node, ast.ClassDef):
      inner = _assigned(node.body, bound, files)[0]
      inner |= _returned([one for one in node.body if isinstance(one, _FUNCTIONS)], bound, files)
      for owner in ("self", "cls", node.name):
        for name, value in inner.items():
          aliased.setdefault(f"{owner}.{name}", set()).add(value)
  return {
    name: value
    for name, (value, *more) in aliased.items()
    if value is not None and not more and name.partition(".")[0] not in bound
  }


def _is_none(node: ast.AST) -> bool:
  return isinstance(node, ast.Constant) and node.value is None


# ------------------------------------------------------------------ uses


def _uses(scope: ast.AST, nodes: list[ast.AST], bound: Bound, file: _File) -> Iterator[Use]:
  """Yields the longest chains of attributes that begin with a bound name."""
  value_of = {id(node): values.of(node, bound, file.files) for node in nodes}
  inner = {
    id(one)
    for node in nodes
    if value_of[id(node)] is not None and (one := values.before(node)) is not None
  }
  for node in nodes:
    # `tf.estimator.Estimator.hook = f` sets a name and reads none.
    if not isinstance(getattr(node, "ctx", ast.Load()), ast.Load) or id(node) in inner:
      continue
    value, parent = value_of[id(node)], file.parents.get(id(node))
    if value is None:
      value, is_lost = _lost(node, parent, bound, file), True
    else:
      is_lost = not _is_followed(node, value, parent, scope, bound)
    if value is not None and value[1] != FILE:
      name, api, of_plain = _resolved(value)
      call = parent if isinstance(parent, ast.Call) and parent.func is node else None
      if name or is_lost:
        yield Use(name, node.lineno, api, of_plain, *_call(call, bound, file.files), is_lost)


def _is_followed(
  node: ast.AST, value: Value, parent: ast.AST | None, scope: ast.AST, bound: Bound
) -> bool:
  """Returns whether the scan knows each place that a value goes to."""
  if isinstance(parent, ast.Assign):
    return all(bound.get(values.key_of(target)) == value for target in parent.targets)
  if isinstance(parent, ast.Return):
    results = f"{scope.name}()", f"self.{scope.name}()"
    return any(bound.get(result) == value for result in results)
  if isinstance(parent, ast.Call) and parent.func is not node:
    name = getattr(parent.func, "attr", getattr(parent.func, "id", ""))
    is_clear = all(isinstance(one, ast.Constant) for one in parent.args[1:2])
    return parent.args[:1] == [node] and (name in _READING or (name in _ASKING and is_clear))
  if isinstance(parent, ast.IfExp | ast.If | ast.While):
    return parent.test is node
  return isinstance(
    parent, ast.Expr | ast.Compare | ast.Assert | ast.arguments | ast.Call | ast.Delete
  )


def _lost(node: ast.AST, parent: ast.AST | None, bound: Bound, file: _File) -> Value | None:
  """Returns the value behind a node that the scan cannot resolve, but that may be TensorFlow's."""
  if isinstance(node, ast.Attribute) and node.attr in file.loose:
    return file.loose[node.attr]  # `model.layers`, where some class has `self.layers = tf.layers`
  if isinstance(node, ast.Name | ast.Attribute):
    result = f"{values.key_of(node)}()"
    is_called = isinstance(parent, ast.Call) and parent.func is node
    return None if is_called else bound.get(result)  # a function that goes somewhere
  if isinstance(node, ast.Import | ast.ImportFrom):  # of an executed text
    is_tensorflow = isinstance(parent, ast.Call) and "tensorflow" in ast.unparse(node)
    return ("", PLAIN) if is_tensorflow else None
  is_dynamic = isinstance(node, ast.Subscript) and values.is_namespace(node.value)
  if (is_dynamic and isinstance(parent, ast.Attribute)) or is_unread(node):
    return next((one for one in bound.values() if one[1] != FILE and not one[0]), None)
  return None


def _resolved(value: Value) -> tuple[str, str, bool]:
  """Returns (name, api, of_plain) of a value, see Use."""
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
    _resolved(value)[0]
    for keyword in node.keywords
    if (keyword.arg or "").endswith("optimizer")
    for inside in ast.walk(keyword.value)
    if (value := values.of(inside, bound, files)) is not None and value[1] != FILE
  }
  starred = any(isinstance(one, ast.Starred) for one in node.args)
  keywords = tuple(sorted(k.arg for k in node.keywords if k.arg))
  return -1 if starred else len(node.args), keywords, tuple(sorted(optimizers - {""}))
