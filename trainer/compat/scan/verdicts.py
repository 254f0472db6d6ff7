"""Decides whether a name of TensorFlow works in trainer.compat, by asking the package itself."""

import dataclasses
import functools
import importlib
import operator
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


@functools.cache
def is_incomplete(name: str, api: str) -> bool:
  """Returns whether a name is a module that lacks names of TensorFlow 1.15 or 2.15.

  Args:
    api: see `of`; "" for a plain `tensorflow`.
  """
  from trainer.compat.names import absent_names

  package = "" if api == source.INSIDE else f"trainer.compat.{api or source.V1}"
  try:
    found: Any = importlib.import_module(package or name)
    for part in name.split(".") if package and name else ():
      found = getattr(found, part)
  except (AttributeError, ImportError):
    return False
  if not isinstance(found, types.ModuleType | types.SimpleNamespace):
    return False
  if not package or not name or name.split(".")[0] in ("contrib", "hub", "keras"):
    return True
  return any(one.startswith(f"{name}.") for one in absent_names.TABLE)


def _has(found: Any, parts: list[str]) -> bool:
  """Returns whether a class has an attribute; for anything else the answer is unknown."""
  return not (parts and isinstance(found, type)) or hasattr(found, parts[0])


# Modules that may have public forms of TensorFlow's private names, in the order for programs.
_PUBLIC = (
  *("", "nn", "nn.rnn_cell", "layers", "train", "keras.layers", "losses", "metrics", "summary"),
  *("estimator", "estimator.tpu", "estimator.export", "data", "data.experimental", "io", "math"),
  *("initializers", "keras.optimizers", "keras.regularizers", "keras.backend", "keras", "logging"),
  *("saved_model", "test", "feature_column", "config", "distribute", "image", "random", "sparse"),
  *("contrib.layers", "contrib.rnn", "contrib.tpu", "contrib.framework", "contrib.training"),
  *("distribute.cluster_resolver", "gfile", "graph_util", "tpu"),
)


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
  """Returns the public name that replaces an absent or private one; "" if unknown."""
  from trainer.compat.names import absent_names

  if absent_names.is_known(name.removeprefix("tensorflow.")):
    return f" Use {absent_names.reason_and_replacement(name.removeprefix('tensorflow.'))[1]}."
  modules = sorted(_PUBLIC, key=lambda module: ("keras" in name) != module.startswith("keras"))
  for module in modules:
    full = ".".join(filter(None, [module, name.rpartition(".")[2]]))
    if _is_there(full):
      return f" Use tf.{full}."
  return ""


@functools.cache
def _is_there(name: str) -> bool:
  """Returns whether a name of TensorFlow 1 is there and no module."""
  import trainer.compat.v1 as tf

  try:
    return not isinstance(operator.attrgetter(name)(tf), types.ModuleType)
  except AttributeError:
    return False
