"""Finds names of TensorFlow in a syntax tree: `tf.layers.dense`, behind an import or an alias.

It follows no values: a module that a program puts into a dict or gives to a function is not seen.
"""

import ast
import dataclasses
from collections.abc import Iterable, Iterator

# The package of trainer.compat with a name: TensorFlow 1's, TensorFlow 2's, or the package that the
# program means by a plain `tensorflow`.
V1, V2, PLAIN = "v1", "v2", ""

# A private name of TensorFlow that an import keeps: `tensorflow.python.framework.ops`.
INSIDE = "tensorflow"

# (The name in trainer.compat or in TensorFlow; its package.)
Value = tuple[str, str]

# Name in a file → its Value.
Bound = dict[str, Value]


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


def found(tree: ast.Module, bound: Bound, own: Iterable[Use]) -> list[Use]:
  """Returns the uses of a file in order.

  Args:
    bound: the imports' bindings.
    own: uses by the import statements themselves.
  """
  uses = {*own, *_uses(tree, _with_aliases(tree, bound))}
  return sorted(uses, key=lambda use: (use.line, use.name))


def value_of(node: ast.AST, bound: Bound) -> Value | None:
  """Returns the Value of a chain of attributes; None outside of TensorFlow."""
  parts: list[str] = []
  while isinstance(node, ast.Attribute):
    parts.append(node.attr)
    node = node.value
  if not isinstance(node, ast.Name) or node.id not in bound:
    return None
  target, api = bound[node.id]
  return ".".join(filter(None, [target, *reversed(parts)])), api


def _with_aliases(tree: ast.Module, bound: Bound) -> Bound:
  """Returns the imports' bindings, and those of assignments: `layers = tf.layers`.

  A name with another meaning anywhere in the file is left out. TensorFlow itself stays: callers
  pass it as an argument `tf`.
  """
  given: dict[str, set[Value | None]] = {}
  assigned = set()
  for node in ast.walk(tree):
    if isinstance(node, ast.Assign):
      value = value_of(node.value, bound)
      for target in node.targets:
        if isinstance(target, ast.Name) and (value is not None or _is_none(node.value)):
          assigned.add(id(target))
          given.setdefault(target.id, set()).update([value] if value else [])
  for node in ast.walk(tree):
    name = node.arg if isinstance(node, ast.arg) else getattr(node, "id", None)
    is_bound = isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store)
    if name and is_bound and id(node) not in assigned:
      given.setdefault(name, set()).add(None)
  found = bound.copy()
  for name, meanings in given.items():
    meanings |= {bound[name]} if name in bound else set()
    if len(meanings) == 1 and None not in meanings:
      found[name] = next(iter(meanings))
    elif name in found and found[name][0]:
      del found[name]
  return found


def _is_none(node: ast.AST) -> bool:
  return isinstance(node, ast.Constant) and node.value is None


def _uses(tree: ast.Module, bound: Bound) -> Iterator[Use]:
  """Yields the longest chains of attributes that begin with a bound name."""
  nodes = [*ast.walk(tree)]
  inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
  calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
  for node in nodes:
    # `tf.estimator.Estimator.hook = f` sets a name and reads none.
    if isinstance(getattr(node, "ctx", None), ast.Load) and id(node) not in inner:
      value = value_of(node, bound)
      name, api, of_plain = _resolved(value) if value else ("", PLAIN, False)
      if name:
        yield Use(name, node.lineno, api, of_plain, *_call(calls.get(id(node)), bound))


def _resolved(value: Value) -> tuple[str, str, bool]:
  """Returns (name, api, of_plain) of a value, see Use."""
  target, api = value
  parts = target.split(".")
  if parts[:1] == ["compat"] and parts[1:2] in ([V1], [V2]):
    return ".".join(parts[2:]), parts[1], api == PLAIN
  return target, api, False


def _call(node: ast.Call | None, bound: Bound) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
  """Returns (positional, keywords, optimizers) of a call, see Use."""
  if node is None:
    return -1, (), ()
  optimizers = {
    _resolved(value)[0]
    for keyword in node.keywords
    if (keyword.arg or "").endswith("optimizer")
    for inside in ast.walk(keyword.value)
    if (value := value_of(inside, bound)) is not None
  }
  starred = any(isinstance(one, ast.Starred) for one in node.args)
  keywords = tuple(sorted(k.arg for k in node.keywords if k.arg))
  return -1 if starred else len(node.args), keywords, tuple(sorted(optimizers - {""}))
