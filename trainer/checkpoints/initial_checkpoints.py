"""Initial values from checkpoints: what `tf.compat.v1.train.init_from_checkpoint` asks for.

In a graph it changes the operations that initialize variables, which run once, when a training
begins. Called in a model_fn or in its scaffold_fn it is noted here, and done when a training
begins: no file is looked at where a checkpoint of the run itself is continued, evaluated or
exported.

    noted = CheckpointInitializer("bert/bert_model.ckpt", {"bert/": "encoder/"}, variables)
    apply([noted], variables)
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.checkpoints import reader, warm_start
from trainer.internals import patches, tensorflow_internals
from trainer.tracing import variable_store

_SHOWN = 10  # names in a message


class CheckpointInitializer:
  """One call of init_from_checkpoint.

  Args:
    path: a checkpoint, or a folder, whose newest is meant.
    assignment_map: dict, or list of pairs. From a name in the checkpoint to a variable, to the name
      of one, or to a list of one of these; or from a scope there to a scope in the model, both with
      a slash at the end.
    present: dict of name → tf.Variable, those that the model has at the time of the call.

  Raises:
    ModelFnError: the map has something else in it.
  """

  def __init__(self, path: Any, assignment_map: Any, present: Mapping[str, tf.Variable]):
    self.path = str(path)
    pairs = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    self.pairs = tuple(sorted((str(there), _target(wanted, present)) for there, wanted in pairs))
    self.names = tuple(present)

  def _key(self):
    return self.path, self.pairs, self.names

  def __eq__(self, other):
    return isinstance(other, CheckpointInitializer) and self._key() == other._key()

  def __hash__(self):
    return hash(self._key())

  def resolve(self, own: Iterable[str], stored: Mapping[str, Any]) -> dict[str, str]:
    """dict of variable's name → name in the checkpoint.

    Args:
      own: names of the variables that a scope means: the model's, not an optimizer's.
      stored: what is in the checkpoint, by name.

    Raises:
      CheckpointError: something that is asked for is not there.
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
          f"init_from_checkpoint: {self.path} has no {there}, from which {name} is to start."
          f"{_like(there, stored)}"
        )
    return found

  def _resolve_scope(self, there, target, own):
    """As TensorFlow has it: "/" is the root on either side; a target's last slash ends the
    scope.
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
  """Gives variables their values, those of later calls over those of earlier ones.

  Args:
    initializers: what was noted.
    model: dict of name → tf.Variable.

  Returns:
    The names of the variables that were given a value.

  Raises:
    CheckpointError: what is asked for is not there, or has another shape; no variable was changed.
    CheckpointNotFoundError: there is no checkpoint.
  """
  own = warm_start.model_names(model)
  values = {}
  for initializer in initializers:
    path = _newest(initializer.path)
    stored = reader.shapes(path)
    resolved = initializer.resolve(own, stored)
    for name, there in resolved.items():
      _check_fits(path, name, model[name], there, *stored[there])
    found = reader.read(path, sorted(set(resolved.values())))
    values |= {name: found[there] for name, there in resolved.items()}
    more = ", ..." if len(resolved) > _SHOWN else ""
    names = ", ".join(list(resolved)[:_SHOWN])
    logging.info("%d variables start from %s: %s%s", len(resolved), path, names, more)
  for name, value in values.items():
    model[name].assign(np.asarray(value).astype(model[name].dtype.base_dtype.as_numpy_dtype))
  return set(values)


def name_of(variable: Any, present: Mapping[str, tf.Variable]) -> str | None:
  """The name of a variable, of Keras or of TensorFlow, among those that are present, or None."""
  variable = variable.value if isinstance(variable, keras.Variable) else variable
  return next((name for name, other in present.items() if other is variable), None)


@patches.replaces(*tensorflow_internals.INIT_FROM_CHECKPOINT)
def _init_from_checkpoint(original, ckpt_dir_or_file, assignment_map):
  if not variable_store.is_traced_here():
    return original(ckpt_dir_or_file, assignment_map)
  store = variable_store.current()
  return store.note_initializer(
    CheckpointInitializer(ckpt_dir_or_file, assignment_map, store.present())
  )


def _target(wanted, present):
  """The name of a variable or of a scope, of what an assignment_map has."""
  if isinstance(wanted, list | tuple) and len(wanted) == 1:
    wanted = wanted[0]
  if isinstance(wanted, str):
    return wanted
  name = name_of(wanted, present)
  if name is None:
    raise errors.ModelFnError(
      f"init_from_checkpoint: the assignment_map has {wanted!r}; expected a name, a scope, or a "
      "variable that the model_fn made (a partitioned one cannot be taken)."
    )
  return name


def _newest(path):
  newest = tf.train.latest_checkpoint(path) if tf.io.gfile.isdir(path) else path
  if newest is None or not tf.io.gfile.exists(f"{newest}.index"):
    raise errors.CheckpointNotFoundError(f"init_from_checkpoint: there is no checkpoint at {path}.")
  return newest


def _check_fits(path, name, variable, there, shape, dtype):
  kinds = [kind.is_floating for kind in (dtype, variable.dtype)]
  if tuple(variable.shape.as_list()) != tuple(shape) or kinds[0] != kinds[1]:
    raise errors.CheckpointError(
      f"init_from_checkpoint: {there} in {path} is {dtype.name}{list(shape)}, and the variable "
      f"{name} "
      f"is {variable.dtype.base_dtype.name}{variable.shape.as_list()}."
    )


def _like(name, names):
  close = difflib.get_close_matches(name, [*names], 3, 0.5) or sorted(names)[:3]
  return f" There are: {', '.join(close)}."
