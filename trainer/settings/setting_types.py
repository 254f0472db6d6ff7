"""Checks the settings of a class or a function against its annotations, at each call.

    @gin.configurable
    @trainer.check_settings
    def input_fn(params: dict[str, Any], training: bool = False, batches: Count = 4): ...

    input_fn({}, training="x")
    # SettingError: my_data.input_fn.training is 'x'; expected True or False.

The check understands classes, unions, Literal, Callable, Any and collections with the types of
their elements. Annotated adds a `Rule` that the value must keep to, and a text that ends the
message, such as "(--seed)". It ignores other annotations, and arguments without one.
"""

import dataclasses
import difflib
import enum
import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from trainer import errors

# TensorFlow counts steps in an int64, and a loop counts on from such a step.
MOST_STEPS = 2**62

_LONGEST_SHOWN = 200

_ANNOTATIONS = "octet_annotations"  # An attribute, because functools.wraps hands it on.

_Made = TypeVar("_Made")


@dataclasses.dataclass(frozen=True)
class Rule:
  """A condition for a value beside its type.

  Attributes:
    words: the allowed values, instead of the type's words in messages.
    holds: whether a value of the type meets the condition.
  """

  words: str
  holds: Callable[[Any], bool]


def one_of(*values: str) -> Rule:
  """Returns the rule that a value is one of these."""
  return Rule(_choice(values), values.__contains__)


def _choice(values):
  *most, last = map(_shown, values)
  return f"{', '.join(most)} or {last}" if most else last


def _shown(value):
  return str(value) if isinstance(value, enum.Enum) else repr(value)


def _is_inner_path(path):
  parts = path.replace(os.sep, "/").split("/")
  return not (".." in parts or os.path.isabs(path) or "://" in path or "\0" in path)


# With `x >= 0`, not with `not x < 0`: NaN is neither.
Count = Annotated[int, Rule("an int greater than 0", lambda value: 0 < value < MOST_STEPS)]
Natural = Annotated[int, Rule("an int of at least 0", lambda value: 0 <= value < MOST_STEPS)]
Positive = Annotated[float, Rule("a number greater than 0", lambda value: value > 0)]
NotNegative = Annotated[float, Rule("a number of at least 0", lambda value: value >= 0)]
MinOrMax = Annotated[str, one_of("min", "max")]
InnerPath = Annotated[
  str, Rule("a name, or a relative path that stays in its folder", _is_inner_path)
]
# Path in an export's assets.extra → the file to copy there.
Assets = Mapping[InnerPath, str | os.PathLike]


def check_settings(made: _Made, name: str = "") -> _Made:
  """Decorates a class or a function: it raises SettingError where an argument does not fit.

  Args:
    made: a class, to change its `__init__`, or a function.
    name: its name in messages and gin files; default: the class's name, or module.function.
  """
  if isinstance(made, type):
    cls: Any = made
    cls.__init__ = _checked(cls.__init__, name or cls.__name__)
    return made
  function: Any = made
  return _checked(function, name or f"{function.__module__.rpartition('.')[2]}.{function.__name__}")


def check(value: Any, annotation: Any, name: str) -> None:
  """Raises SettingError unless a value fits an annotation; `name` is the setting's gin name."""
  if not fits(value, annotation):
    shown = _shown(value)
    if len(shown) > _LONGEST_SHOWN:
      shown = f"{shown[:_LONGEST_SHOWN]}..."
    is_large = isinstance(value, int) and value >= MOST_STEPS
    expected = f"less than 2**62 = {MOST_STEPS}" if is_large else words(annotation)
    hint = f" (in gin, brackets call it: @{value.__name__}())" if isinstance(value, type) else ""
    raise errors.SettingError(f"{name} is {shown}; expected {expected}{hint}.")


def annotations_of(made: Any) -> Mapping[str, Any]:
  """Returns setting → annotation of an object with `check_settings`; nothing for others."""
  function = vars(made).get("__init__") if isinstance(made, type) else made
  return getattr(function, _ANNOTATIONS, dict)()


def _checked(function, name):
  signature = inspect.signature(function)
  kinds = {key: parameter.kind for key, parameter in signature.parameters.items()}
  takes_any = inspect.Parameter.VAR_KEYWORD in kinds.values()

  @functools.cache
  def annotations():  # At the first call, when all names in the annotations exist.
    hints = typing.get_type_hints(function, include_extras=True)
    several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {key: hint for key, hint in hints.items() if kinds.get(key, several[0]) not in several}

  @functools.wraps(function)
  def call(*args, **kwargs):
    for key in kwargs:
      if key not in kinds and not takes_any:
        near = difflib.get_close_matches(key, kinds, n=3, cutoff=0.75)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise errors.SettingError(f"{name} has no setting {key!r}.{hint}")
    try:
      given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
      return function(*args, **kwargs)  # Its TypeError says the same in Python's words.
    for key, annotation in annotations().items():
      if key in given:
        check(given[key], annotation, f"{name}.{key}")
    return function(*args, **kwargs)

  # gin asks for the arguments with inspect.getfullargspec, and that does not follow __wrapped__.
  call.__signature__ = signature
  setattr(call, _ANNOTATIONS, annotations)
  return call


_PLAIN = {
  Any: "anything",
  bool: "True or False",
  bytes: "bytes",
  float: "a number",
  int: "an int",
  str: "a string",
  types.NoneType: "None",
}


def fits(value: Any, annotation: Any) -> bool:
  """Returns whether a value fits an annotation."""
  origin, of = typing.get_origin(annotation), typing.get_args(annotation)
  if origin is Annotated:
    rules = [each for each in of[1:] if isinstance(each, Rule)]
    return fits(value, of[0]) and all(rule.holds(value) for rule in rules)
  if annotation is Any:
    return True
  if origin in (typing.Union, types.UnionType):
    return any(fits(value, each) for each in of)
  if origin is Literal:  # There, True is not 1.
    return any(type(value) is type(each) and value == each for each in of)
  if annotation in (int, float):  # numbers has NumPy's types, too.
    kind = numbers.Integral if annotation is int else numbers.Real
    return isinstance(value, kind) and not isinstance(value, bool)
  kind = origin or annotation
  if kind is Callable:
    return callable(value)
  if not isinstance(kind, type):
    return True
  if not isinstance(value, kind) or (kind is Sequence and isinstance(value, str | bytes)):
    return False
  entries: Any = value
  if issubclass(kind, Mapping):
    return not of or all(fits(k, of[0]) and fits(v, of[1]) for k, v in entries.items())
  if kind is tuple and of and of[-1] is not Ellipsis:
    return len(entries) == len(of) and all(map(fits, entries, of))
  return not (of and issubclass(kind, Collection)) or all(fits(each, of[0]) for each in entries)


def words(annotation: Any) -> str:
  """Returns the values that an annotation allows, for "expected ..."."""
  origin, of = typing.get_origin(annotation), typing.get_args(annotation)
  if origin is Annotated:
    rules = [each.words for each in of[1:] if isinstance(each, Rule)]
    hints = [each for each in of[1:] if isinstance(each, str)]
    return " ".join([*(rules or [words(of[0])]), *hints])
  if origin in (typing.Union, types.UnionType):
    *most, last = [words(each) for each in of]
    return f"{', '.join(most)}, or {last}"
  if origin is Literal:
    return _choice(of)
  kind = origin or annotation
  if kind in _PLAIN:
    return _PLAIN[kind]
  if kind is Callable:
    return "a function"
  if kind is os.PathLike:
    return "a path"
  if issubclass(kind, Mapping):
    return "a dict" + (f" ({words(of[0])}: {words(of[1])})" if of else "")
  if issubclass(kind, Collection):
    each = [words(each) for each in of if each is not Ellipsis]
    return "a list" + (f" (each: {', '.join(each)})" if each and of[0] is not Any else "")
  return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
