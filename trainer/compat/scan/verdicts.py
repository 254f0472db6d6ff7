"""Decides whether a name of TensorFlow works in trainer.compat, by asking the package itself."""

import dataclasses
import functools
import importlib
import types
from typing import Any

from trainer.compat.scan import source

WORKS = "works"
SHIM = "shim"
ABSENT = "absent"

_SESSION = "a session runs in a tf.Graph of its own or a tf.test.TestCase, not beside a model_fn"

# Advice for names that TensorFlow still has and that need sessions.
_ADVICE = {
  "Session": _SESSION,
  "InteractiveSession": _SESSION,
  "placeholder": "computes in a serving_input_receiver_fn, a test or a tf.Graph of its own",
  "train.MonitoredTrainingSession": _SESSION,
  "train.Saver": "in a model_fn it sets the names under which variables are restored",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
  """The result for a name.

  Attributes:
    status: WORKS (TensorFlow's own), SHIM (this package's) or ABSENT.
    where: the module with the name, or "".
    advice: an advice, or "".
  """

  status: str
  where: str
  advice: str = ""


@functools.cache
def of(name: str, api: str = "v1") -> Verdict:
  """Returns the Verdict of a dotted name: of a module, of a name in it, or of a class's attribute.

  Args:
    api: the package of trainer.compat, "v1" or "v2"; source.INSIDE for a name of TensorFlow itself.
  """
  from trainer.compat.names import absent, absent_names

  if api == source.INSIDE:
    return _inside(name)
  advice = _ADVICE.get(name, "")
  home = f"trainer.compat.{api}"
  found: Any = importlib.import_module(home)
  parts = name.split(".")
  for at, part in enumerate(parts):
    try:
      found = getattr(found, part)
    except AttributeError as error:
      known = absent_names.reason_and_replacement(name, api == "v2")
      given = (
        (error.reason, error.replacement) if isinstance(error, absent.AbsentNameError) else known
      )
      reason, replacement = known if absent_names.is_known(name) else given
      # A missing package has a reason of its own, and needs no other name.
      advice = (
        f" Use {replacement}." if replacement else _public(name) if reason == known[0] else ""
      )
      return Verdict(ABSENT, "", reason + advice)
    if isinstance(found, types.ModuleType | types.SimpleNamespace):
      home = getattr(found, "__name__", home)
      continue
    home = getattr(found, "__module__", None) or ""  # constants do not record their module
    if not _has(found, parts[at + 1 :]):
      shown = ".".join(parts[: at + 1])
      return Verdict(ABSENT, "", f"the class tf.{shown} has no {parts[at + 1]!r}.")
    break
  is_own = home.startswith("trainer") or getattr(found, "__wrapped__", None) is not None
  return Verdict(SHIM if is_own and home.startswith("trainer") else WORKS, home, advice)


def _has(found: Any, parts: list[str]) -> bool:
  """Returns whether a class has an attribute; for anything else the answer is unknown."""
  return not (parts and isinstance(found, type)) or hasattr(found, parts[0])


def _inside(name: str) -> Verdict:
  """Returns the Verdict of a full name of TensorFlow itself, from the installed version."""
  parts = name.split(".")
  found, end = None, len(parts)
  while found is None:
    try:
      found = importlib.import_module(".".join(parts[:end]))
    except ImportError:
      end -= 1
  home = found.__name__
  for at, part in enumerate(parts[end:], end):
    if not isinstance(found, types.ModuleType | type):
      break
    if not hasattr(found, part):
      reason = f"the installed TensorFlow has no {'.'.join(parts[: at + 1])}."
      return Verdict(ABSENT, "", reason + _public(name))
    found = getattr(found, part)
  return Verdict(WORKS, home)


def _public(name: str) -> str:
  """Returns the known public name that replaces an absent or private one; "" if unknown."""
  from trainer.compat.names import absent_names

  known = name.removeprefix("tensorflow.")
  if not absent_names.is_known(known):
    return ""
  return f" Use {absent_names.reason_and_replacement(known)[1]}."
