"""Supports `tf.compat.v1.train.init_from_checkpoint`: initial values from a checkpoint.

In TF1 the function changes the variables' initializers, and they run once, when a training begins.
Octet notes a call in a model_fn or scaffold_fn, and assigns the values when a training begins. A
run that continues, evaluates or exports its own checkpoint never opens the file.

    noted = CheckpointInitializer.of("bert/bert_model.ckpt", {"bert/": "encoder/"}, variables)
    apply([noted], variables)
"""

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import own_names, reader, weight_sources
from trainer.internals import patches, tensorflow_internals
from trainer.tracing import variable_store

_SHOWN = 10  # Most names in a message.


@dataclasses.dataclass(frozen=True)
class CheckpointInitializer:
  """A call of init_from_checkpoint. Equal calls are one: every trace repeats them.

  Attributes:
    path: a checkpoint, or a folder (for its newest checkpoint).
    pairs: (name or scope in the checkpoint, name or scope in the model), sorted.
    names: the names of the model's variables at the time of the call.
  """

  path: str
  pairs: tuple[tuple[str, str], ...]
  names: tuple[str, ...]

  @classmethod
  def of(cls, path: Any, assignment_map: Any, present: Mapping[str, tf.Variable]) -> Self:
    """Makes it from a call's arguments.

    Args:
      path: the checkpoint or folder.
      assignment_map: a dict or a list of pairs. It maps a name in the checkpoint to a variable, to
        a variable's name, or to a list of variables or names; or a scope in the checkpoint to a
        scope in the model, both with a slash at the end.
      present: name → variable, the model's variables at the time of the call.

    Raises:
      ModelFnError: the map contains something else.
    """
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    named = sorted((str(there), _target(wanted, present)) for there, wanted in pairs)
    return cls(str(path), tuple(named), tuple(present))

  def resolve(self, own: Iterable[str], stored: Mapping[str, Any]) -> dict[str, str]:
    """Finds the name in the checkpoint for each variable.

    Args:
      own: names of the variables that a scope can contain: the model's, without an optimizer's.
      stored: the checkpoint's contents by name.

    Returns:
      Name of a variable → name in the checkpoint.

    Raises:
      CheckpointError: the model has no such variable or scope, or the checkpoint no such name.
    """
    found = {}
    for there, target in self.pairs:
      if target in self.names:
        found[target] = there
      elif there.endswith("/"):
        found |= self._resolve_scope(there, target, own)
      else:
        raise errors.CheckpointError(
          f"init_from_checkpoint({self.path!r}): the model has no variable {target!r}"
          f"{_like(target, self.names)} (A scope and a scope both end in a slash.)"
        )
    for name, there in found.items():
      if there not in stored:
        raise errors.CheckpointError(
          f"init_from_checkpoint: {self.path} has no {there} for {name}.{_like(there, stored)}"
        )
    return found

  def _resolve_scope(self, there, target, own):
    """Resolves a scope by TensorFlow's rules.

    "/" is the root, on either side. The part of the target after its last slash does not count.
    """
    scope = target[: target.rindex("/") + 1].lstrip("/") if "/" in target else ""
    root = "" if there == "/" else there
    found = {
      name: root + name.removeprefix(scope)
      for name in self.names
      if name in own and name.startswith(scope)
    }
    if not found:
      raise errors.CheckpointError(
        f"init_from_checkpoint({self.path!r}): no variable of the model is in the scope {target!r}."
        f"{_like(target, self.names)}"
      )
    return found


def apply(
  initializers: Iterable[CheckpointInitializer], model: Mapping[str, tf.Variable]
) -> set[str]:
  """Assigns the values of the noted calls, in order: later calls overwrite earlier ones.

  Returns:
    The names of the variables that got a value.

  Raises:
    CheckpointError: a value is missing or has another shape or dtype. No variable has changed.
    CheckpointNotFoundError: there is no checkpoint.
  """
  own = own_names.model_names(model)
  values: dict[str, Any] = {}
  for initializer in initializers:
    load = functools.partial(_read, initializer, model, own)
    try:
      values |= weight_sources.read(initializer.path, load)
    except errors.CheckpointNotFoundError as error:
      raise errors.CheckpointNotFoundError(f"init_from_checkpoint: {error}") from error
  for name, value in values.items():
    model[name].assign(np.asarray(value).astype(model[name].dtype.base_dtype.as_numpy_dtype))
  return set(values)


def _read(initializer, model, own, source):
  """Reads the values of a noted call from a checkpoint; returns them by the variables' names."""
  path = source.path
  keys = source.names_of_keys
  resolved = {
    name: keys.get(there, there)
    for name, there in initializer.resolve(own, {**source.shapes, **keys}).items()
  }
  for name, there in resolved.items():
    _check_fits(path, name, model[name], there, *source.shapes[there])
  found = source.read(sorted(set(resolved.values())))
  more = ", ..." if len(resolved) > _SHOWN else ""
  names = ", ".join(list(resolved)[:_SHOWN])
  logging.info("%d variables start from %s: %s%s", len(resolved), path, names, more)
  return {name: found[there] for name, there in resolved.items()}


def name_of(variable: Any, present: Mapping[str, tf.Variable]) -> str | None:
  """Returns the name in `present` of a keras.Variable or tf.Variable, or None."""
  variable = variable.value if isinstance(variable, keras.Variable) else variable
  # By identity: == of two variables compares their values in TensorFlow 2.
  return next((name for name, other in present.items() if other is variable), None)


@patches.replaces(*tensorflow_internals.INIT_FROM_CHECKPOINT)
def _init_from_checkpoint(original, ckpt_dir_or_file, assignment_map):
  if not variable_store.is_traced_here():
    return original(ckpt_dir_or_file, assignment_map)
  store = variable_store.current()
  return store.note_initializer(
    CheckpointInitializer.of(ckpt_dir_or_file, assignment_map, store.present())
  )


def _target(wanted, present):
  """Returns the name of the variable or scope that a value of an assignment_map means."""
  if isinstance(wanted, list | tuple) and len(wanted) == 1:
    wanted = wanted[0]
  if isinstance(wanted, str):
    return wanted
  name = name_of(wanted, present)
  if name is None:
    raise errors.ModelFnError(
      f"init_from_checkpoint: the assignment_map has {wanted!r}; expected a name, a scope, or a "
      "variable from the model_fn (not a partitioned one)."
    )
  return name


def _check_fits(path, name, variable, there, shape, dtype):
  if not reader.fits(variable, shape, dtype):
    raise errors.CheckpointError(
      f"init_from_checkpoint: {there} in {path} is {dtype}{list(shape)}, and the variable "
      f"{name} is {variable.dtype.base_dtype.name}{variable.shape.as_list()}."
    )


def _like(name, names):
  return f" There are: {own_names.similar(name, names)}."
