"""Supports the scaffold_fn of an EstimatorSpec, as far as possible without a session.

A `tf.compat.v1.train.Scaffold` tells a session how to initialize variables, and their names in a
checkpoint. Octet has no session. It supports two parts of a Scaffold:

- init_from_checkpoint, called in the scaffold_fn. See `trainer.checkpoints.initial_checkpoints`.
- `saver = Saver({name: variable})`: evaluation, prediction and export restore the variables from
  these names, such as the names of moving averages.

Anything else in a Scaffold is an error that names it.
"""

import dataclasses
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from trainer import errors, run_config, spec
from trainer.checkpoints import initial_checkpoints
from trainer.internals import patches, tensorflow_internals
from trainer.tracing import graph_collections, user_frames, variable_store

v1 = tf.compat.v1

# Fields that a session runs only without a checkpoint, and fields that it always runs.
_AT_THE_BEGINNING = ("init_op", "init_feed_dict", "init_fn")
_ALWAYS = (
  "ready_op",
  "ready_for_local_init_op",
  "local_init_op",
  "local_init_feed_dict",
  "summary_op",
)


@dataclasses.dataclass
class ScaffoldFn:
  """A scaffold_fn that a model_fn returned. Octet calls it at most once.

  Attributes:
    fn: the scaffold_fn; None after the call.
    mode: the mode of the EstimatorSpec.
    model_fn_name: the model_fn's name, for messages.
    collections: the collections of the replica that returned it, key → list; None after the call.
  """

  fn: Callable | None
  mode: str
  model_fn_name: str
  collections: dict[Any, list] | None
  _names: dict[str, str] | None = None

  def call_once(
    self, store: variable_store.VariableStore, config: run_config.RunConfig
  ) -> dict[str, str] | None:
    """Calls the scaffold_fn, once, and returns the names that its Saver gives to variables.

    Args:
      store: the model's variables. The store notes each init_from_checkpoint of the scaffold_fn.
      config: the run's configuration.

    Returns:
      Name of a variable → its name in checkpoints; None without a Saver.

    Raises:
      ModelFnError: the scaffold_fn raised an error.
      SpecError: it returned no Scaffold.
      SettingError: the Scaffold asks for something that Octet does not support.
    """
    if self.fn is not None:
      scaffold = self._call(store)
      self._check(scaffold)
      saver = scaffold.saver
      if saver is not None:
        self._names = self._saved_names(saver, store.variables)
        if self.mode == spec.ModeKeys.TRAIN:
          self._check_saver(saver, config)
      self.fn = self.collections = None  # They would keep the graph of the trace in memory.
    return self._names

  def _call(self, store):
    graph = tensorflow_internals.scratch_graph()  # The scaffold_fn's operations never run.
    # tf.compat.v1 looks variables up in the collections of the default graph.
    tensorflow_internals.swap_collections(graph, self.collections)
    try:
      with graph.as_default(), store.strategy.scope(), tf.variable_creator_scope(_make_none):
        with store.as_current():
          return self.fn()
    except errors.OctetError:
      raise
    except Exception as error:
      frames = traceback.extract_tb(error.__traceback__)
      where = user_frames.where([(frame.filename, frame.lineno) for frame in frames])
      raise errors.ModelFnError(f"{self} failed{where}: {type(error).__name__}: {error}") from error

  def _check(self, scaffold):
    if not isinstance(scaffold, v1.train.Scaffold):
      raise errors.SpecError(
        f"{self} must return a tf.compat.v1.train.Scaffold; it returned {scaffold!r}."[:500]
      )
    training = self.mode == spec.ModeKeys.TRAIN
    looked_at = (*_AT_THE_BEGINNING, *_ALWAYS) if training else _ALWAYS
    given = [name for name in looked_at if getattr(scaffold, name) is not None]
    if type(scaffold).finalize is not v1.train.Scaffold.finalize:
      given.append("finalize")
    if given:
      raise errors.SettingError(
        f"{self} returns a Scaffold with {', '.join(given)}, and Octet has no session: take that "
        "out. Variables start from their initializers, from "
        "tf.compat.v1.train.init_from_checkpoint in the scaffold_fn, or from "
        "Estimator(warm_start_from=...); lookup tables initialize themselves; scalars for "
        "summaries go to tf.summary.scalar."
      )

  def _saved_names(self, saver, model):
    wanted = tensorflow_internals.saved_by(saver)
    if wanted is None:
      return {}
    is_named = isinstance(wanted, Mapping)
    names = {}
    for there, variable in wanted.items() if is_named else ((None, v) for v in wanted):
      name = initial_checkpoints.name_of(variable, model)
      if name is None:
        raise errors.SettingError(
          f"{self} returns a Saver of {there or variable!r}; expected an unpartitioned variable "
          "from the model_fn: leave it out."
        )
      names[name] = there or name
    return names

  def _check_saver(self, saver, config):
    """Raises SettingError if a training's Saver renames variables or keeps other checkpoints."""
    renamed = [f"{name} as {there}" for name, there in self._names.items() if name != there]
    if renamed:
      raise errors.SettingError(
        f"{self} returns a Saver that saves {renamed[0]}: a training saves each variable under its "
        "own name. Return a Saver of other names for evaluation and prediction alone."
      )
    with tensorflow_internals.scratch_graph().as_default():
      usual = tensorflow_internals.kept_by(v1.train.Saver(defer_build=True))
    newest, hours = given = tensorflow_internals.kept_by(saver)
    if config.retention is None and given not in (usual, (config.keep_checkpoint_max, usual[1])):
      raise errors.SettingError(
        f"{self} returns a Saver with max_to_keep={newest} and keep_checkpoint_every_n_hours="
        f"{hours:g}, and Octet keeps checkpoints by RunConfig: give it "
        f"keep_checkpoint_max={newest or 0}, or retention=Retention(every_n_hours={hours:g})."
      )

  def __str__(self) -> str:
    return f"The scaffold_fn of model_fn {self.model_fn_name}, mode {self.mode!r},"


def scaffold_fn_of(result: spec.EstimatorSpec, model_fn_name: str) -> ScaffoldFn | None:
  """Returns the scaffold_fn of an EstimatorSpec. Call it on the replica, after the model_fn.

  Args:
    result: the EstimatorSpec.
    model_fn_name: the model_fn's name, for messages.

  Returns:
    The scaffold_fn with the replica's collections, or None if there is none.
  """
  if result.scaffold_fn is None:
    return None
  collections = graph_collections.copy_of_replica()
  return ScaffoldFn(result.scaffold_fn, result.mode, model_fn_name, collections)


def _make_none(next_creator, **kwargs):
  del next_creator
  raise errors.ModelFnError(
    f"A scaffold_fn makes the variable {kwargs.get('name')}: make it in the model_fn."
  )


@patches.replaces(v1.train.Saver, "build")
def _build(original, saver):
  """Keeps a Saver in a model_fn from building its operations.

  In a tf.function they would run in every step, and write files.
  """
  return None if variable_store.is_traced_here() else original(saver)
