"""Whether a name of TensorFlow works in a package of trainer.compat, which is asked itself."""

import dataclasses
import functools
import importlib
import types
from typing import Any

WORKS = "works"
SHIM = "shim"
ABSENT = "absent"

_SESSION = "a session runs in a tf.Graph of its own or a tf.test.TestCase, not beside a model_fn"

# Names that TensorFlow still has and that lean on sessions: what to know of them.
_ADVICE = {
  "Session": _SESSION,
  "InteractiveSession": _SESSION,
  "placeholder": "computes in a serving_input_receiver_fn, a test or a tf.Graph of its own",
  "train.MonitoredTrainingSession": _SESSION,
  "train.Saver": "in a model_fn it says under which names variables are restored",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
  """What is known of a name.

  Attributes:
    status: WORKS (TensorFlow's own), SHIM (this package's) or ABSENT.
    where: the module that has it, or "".
    advice: what to know or to do, or "".
  """

  status: str
  where: str
  advice: str = ""


@functools.cache
def of(name: str, api: str = "v1") -> Verdict:
  """The Verdict of a dotted name. Attributes of what is no module are not looked at.

  Args:
    api: the package of trainer.compat, "v1" or "v2".
  """
  from trainer.compat.names import absent, absent_names

  advice = _ADVICE.get(name, "")
  home = f"trainer.compat.{api}"
  found: Any = importlib.import_module(home)
  for part in name.split("."):
    try:
      found = getattr(found, part)
    except AttributeError as error:
      if absent_names.is_known(name):
        reason, replacement = absent_names.reason_and_replacement(name, api == "v2")
      elif isinstance(error, absent.AbsentNameError):
        reason, replacement = error.reason, error.replacement
      else:
        reason, replacement = f"{home} has no {part!r}.", ""
      return Verdict(ABSENT, "", f"{reason} Use {replacement}." if replacement else reason)
    if isinstance(found, types.ModuleType | types.SimpleNamespace):
      home = getattr(found, "__name__", home)
      continue
    home = getattr(found, "__module__", None) or ""  # constants say nothing of where they are from
    break
  is_own = home.startswith("trainer") or getattr(found, "__wrapped__", None) is not None
  return Verdict(SHIM if is_own and home.startswith("trainer") else WORKS, home, advice)
