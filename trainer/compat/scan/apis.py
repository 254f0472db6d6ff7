"""Finds whether a program means names of TensorFlow 1 or 2 by a plain `tensorflow`.

A program is the files that import each other. The evidence: names that only one version has
(`tf.placeholder`, `tf.random.set_seed`), arguments that only one version has
(`tf.nn.dropout(x, keep_prob=0.9)`), and `tf.compat.v1.NAME`, which a program of TensorFlow 1 has no
need to write.
"""

import dataclasses
import functools
import importlib
import inspect
import types
from collections.abc import Sequence
from typing import Any

from trainer.compat.scan import modules, verdicts
from trainer.compat.scan import source as source_lib
from trainer.compat.scan.source import PLAIN, V1, V2

# Names of both versions that compute different results without further arguments. An entry covers
# all names below it.
_CANNED = tuple(
  f"estimator.{kind}{what}"
  for kind in ("DNN", "DNNLinearCombined", "Linear")
  for what in ("Classifier", "Estimator", "Regressor")
)
_MEAN_OTHERWISE = (
  *_CANNED,
  *("image.extract_glimpse", "image.resize", "image.resize_with_pad", "losses", "metrics"),
  *("nn.ctc_beam_search_decoder", "nn.ctc_loss", "nn.dropout"),
  *("nn.softmax_cross_entropy_with_logits", "saved_model.load", "saved_model.save"),
  *("strings.split", "summary.histogram", "summary.image", "summary.scalar", "summary.text"),
)


@dataclasses.dataclass(frozen=True)
class Evidence:
  """A line's evidence about the program.

  Attributes:
    api: V1 or V2; PLAIN for a name that differs between the versions and proves neither.
    name: the name, `tf.placeholder`.
    place: `path:line`.
    why: the reason.
    is_weak: whether a program of TensorFlow 1 may have the line too.
  """

  api: str
  name: str
  place: str
  why: str
  is_weak: bool = False

  def __str__(self) -> str:
    return f"{self.name} ({self.place}) {self.why}"


@dataclasses.dataclass(frozen=True)
class Program:
  """Files that import each other, and the version that they mean.

  Attributes:
    sources: the files, with or without a plain `tensorflow`.
    api: V1 or V2; None if unknown.
    evidence: the evidence: for V1, for V2, and names that differ between the versions.
    is_given: whether the caller gave the api.
  """

  sources: tuple[source_lib.Source, ...]
  api: str | None
  evidence: tuple[Evidence, ...]
  is_given: bool = False

  def of(self, api: str) -> list[Evidence]:
    return [one for one in self.evidence if one.api == api]


def programs(sources: Sequence[source_lib.Source], given: str | None = None) -> list[Program]:
  """Returns the programs among files.

  Args:
    sources: all files.
    given: V1 or V2, for all programs; None to find out.
  """
  found = []
  for group in _groups(sources):
    evidence = tuple(one for source in group for one in _evidence(source))
    if any(one.api == V1 for one in evidence):
      evidence = tuple(one for one in evidence if not one.is_weak)
    found.append(Program(tuple(group), given or _api(evidence), evidence, given is not None))
  return found


def _api(evidence: Sequence[Evidence]) -> str | None:
  said = {one.api for one in evidence}
  if {V1, V2} <= said:
    return None
  if PLAIN in said and len(said) == 1:
    return None
  return V2 if V2 in said else V1  # without evidence, both versions mean the same


def _evidence(source: source_lib.Source) -> list[Evidence]:
  found = [
    Evidence(V1, one.module, f"{source.path}:{one.node.lineno}", "left with TensorFlow 1")
    for one in source.imports
    if one.module.startswith(("tensorflow.contrib", "tf_slim"))
    or (one.module, one.name) == ("tensorflow", "contrib")
  ]
  for use in source.uses:
    place = f"{source.path}:{use.line}"
    if use.of_plain:
      name = f"tf.compat.{use.api}.{use.name}"
      found.append(Evidence(V2, name, place, "stands beside plain names", is_weak=True))
    elif use.api == PLAIN and (said := _said_by(use)) is not None:
      api, why = said
      found.append(Evidence(api, f"tf.{use.name}", place, why))
  return found


def _said_by(use: source_lib.Use) -> tuple[str, str] | None:
  """Returns (api, reason) for a plain name; None without evidence."""
  if use.name.split(".")[0] == "keras":  # the same in both versions
    return None
  in_v1, in_v2 = has(use.name, V1), has(use.name, V2)
  if use.name.split(".")[0] == "contrib" or (in_v1 and not in_v2):
    return V1, "is a name of TensorFlow 1"
  if in_v2 and not in_v1:
    return V2, "is a name of TensorFlow 2"
  if not in_v1:
    return None
  if use.name in _CANNED and any("keras.optimizers" in one for one in use.optimizers):
    return V2, "takes an optimizer of Keras in TensorFlow 2 alone"
  of_v1, of_v2 = (_arguments(use.name, api) for api in (V1, V2))
  if use.positional >= 0 and of_v1 is not None and of_v2 is not None:
    for word in use.keywords:
      if (word in of_v1) != (word in of_v2):
        api = V1 if word in of_v1 else V2
        return api, f"takes {word}= in TensorFlow {api[1]} alone"
  if _means_otherwise(use):
    return PLAIN, "means otherwise in each"
  return None


def _means_otherwise(use: source_lib.Use) -> bool:
  parts = use.name.split(".")
  if not any(".".join(parts[:end]) in _MEAN_OTHERWISE for end in range(1, len(parts) + 1)):
    return False
  # Arguments that both versions name alike mean the same in both.
  return not (use.name == "nn.dropout" and use.positional in (0, 1) and "rate" in use.keywords)


@functools.cache
def has(name: str, api: str) -> bool:
  """Returns whether TensorFlow 1 or 2, as in 2.15, has a name."""
  if api == V2:
    return verdicts.of(name, V2).status != verdicts.ABSENT
  import tensorflow as tf

  # trainer.compat.v1 also has names of TensorFlow 2, with lower priority than its own. TensorFlow
  # has no estimator: all names below it are trainer.compat's own.
  own = verdicts.of(name, V1)
  is_own = own.status == verdicts.SHIM or name.startswith("estimator.")
  return own.status != verdicts.ABSENT and (is_own or _found(tf.compat.v1, name) is not _MISSING)


_MISSING = object()


def _found(module: Any, name: str) -> Any:
  """Returns the object of a dotted name, or _MISSING. Does not search attributes of classes."""
  for part in name.split("."):
    try:
      module = getattr(module, part)
    except (AttributeError, ImportError):
      return _MISSING
    if not isinstance(module, types.ModuleType | types.SimpleNamespace):
      break
  return module


@functools.cache
def _arguments(name: str, api: str) -> frozenset[str] | None:
  """Returns the names of a function's or class's arguments; None for any arguments, or none."""
  found = _found(importlib.import_module(f"trainer.compat.{api}"), name)
  try:
    parameters = inspect.signature(found).parameters.values()
  except (TypeError, ValueError):
    return None
  if any(one.kind is one.VAR_KEYWORD for one in parameters):
    return None
  return frozenset(one.name for one in parameters)


# ------------------------------------------------------------------ files that import each other


def _groups(sources: Sequence[source_lib.Source]) -> list[list[source_lib.Source]]:
  """Returns the files in groups, each in order."""
  by_path = {source.path.resolve(): source for source in sources}
  group_of = {path: {path} for path in by_path}
  for path, source in by_path.items():
    for other in {found for one in source.taken for found in modules.files_of(path, one, by_path)}:
      if group_of[other] is not group_of[path]:
        group_of[path] |= group_of[other]
        for each in group_of[other]:
          group_of[each] = group_of[path]
  groups = {id(group): group for group in group_of.values()}.values()
  return [[by_path[path] for path in by_path if path in group] for group in groups]
