"""Loads values into a model's variables, and remembers their source.

    values = ModelValues(store, checkpoint_directory, warm_start_settings)
    values.load(values.source())     # to continue the training from there
    with values.load_for_inference() as source:
      ...                            # to evaluate or predict with the newest checkpoint: with the
                                     # moving averages of the weights, if the training keeps them

A source is the path of a checkpoint, or WARM_START while model_dir has no checkpoint.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Collection, Iterator, Mapping

from trainer import errors, run_config
from trainer.checkpoints import (
  directory,
  former_names,
  initial_checkpoints,
  leases,
  moving_averages,
  reader,
  warm_start,
)
from trainer.optimization import averages
from trainer.tracing import variable_store

# The source of a new model: its initial values, then a warm start's.
WARM_START = "warm start"


@dataclasses.dataclass(frozen=True)
class _Held:
  """The source that the variables match.

  Attributes:
    source: the source of the values.
    names: the variables with its values.
    restored_as: variables with the value of another name in the source → that name.
    sessions: how many sessions had run; a later one may have assigned variables.
  """

  source: str
  names: frozenset[str]
  restored_as: Mapping[str, str]
  sessions: int


class ModelValues:
  """Loads values into the variables of a store, and never reads a source twice in a row.

  Args:
    store: the model's variables; "global_step" is among them.
    checkpoints: the run's checkpoints.
    settings: the warm start, or None.
    averages: whether `load_for_inference` takes the moving averages of the weights.
  """

  def __init__(
    self,
    store: variable_store.VariableStore,
    checkpoints: directory.CheckpointDirectory,
    settings: warm_start.WarmStartSettings | None = None,
    averages: bool = True,
  ) -> None:
    self._store = store
    self._checkpoints = checkpoints
    self._settings = settings
    self._use_averages = averages
    self._is_training = False
    # (path of a checkpoint, its moving averages: name of a variable → name of its average).
    self._found_averages: tuple[str | None, dict[str, str]] = None, {}
    self._held: _Held | None = None

  def source(self, path: str | os.PathLike | None = None) -> str:
    """Chooses the source to evaluate, predict with or export.

    Args:
      path: a checkpoint, or a folder (for its newest checkpoint). None for the run's newest
        undamaged checkpoint or, without one, the warm start.

    Returns:
      The source.

    Raises:
      CheckpointNotFoundError: there is no such checkpoint, or neither a checkpoint nor a warm
        start.
    """
    if path is not None:
      return directory.resolve(os.fspath(path))
    latest = self.latest()
    if latest is None and self._settings is None:
      raise errors.CheckpointNotFoundError(
        f"There is no checkpoint in {self._checkpoints.directory} (--model_dir): train first, or "
        "give checkpoint_path or warm_start_from."
      )
    return latest or WARM_START

  def latest(self) -> str | None:
    """Returns the path of the run's newest undamaged checkpoint, or None."""
    return self._checkpoints.latest_valid()

  def is_own(self, source: str) -> bool:
    """Returns whether a source is a checkpoint of this run."""
    return source != WARM_START and run_config.absolute_dir(
      os.path.dirname(source)
    ) == run_config.absolute_dir(self._checkpoints.directory)

  def invalidate(self) -> None:
    """Forgets the source of the variables' values. Call it when a training step changes them."""
    self._held = None

  def mark_saved(self, path: str, names: Collection[str]) -> None:
    """Notes that the variables match a checkpoint. Call it after a save.

    Args:
      path: the checkpoint.
      names: the names of the variables in it.
    """
    self._held = _Held(path, frozenset(names), {}, self._store.sessions)
    self._found_averages = path, _averages(names) if self._use_averages else {}

  def keep_assigned(self) -> None:
    """Makes what a prediction's hooks have just assigned part of the values to predict with."""
    if self._held is not None:
      self._held = dataclasses.replace(self._held, sessions=self._store.sessions)

  def load(self, source: str) -> None:
    """Loads a source to train from: the weights themselves, not their moving averages.

    Args:
      source: the source. WARM_START without warm start settings means the initial values.
    """
    if not self._has(source, {}):
      self._load(source, {})

  @contextlib.contextmanager
  def protect_training(self) -> Iterator[None]:
    """Protects the values of a training inside a `with` block.

    `load_for_inference` restores them at its end, or refuses a source that would replace them.
    """
    self._is_training = True
    try:
      yield
    finally:
      self._is_training = False

  @contextlib.contextmanager
  def load_for_inference(
    self, path: str | os.PathLike | None = None, names: Mapping[str, str] | None = None
  ) -> Iterator[str]:
    """Loads a source for evaluation while the context is open.

    Args:
      path: see `source`.
      names: name of a variable → its name in checkpoints, from the model_fn's Saver. None without a
        Saver: then `averages` decides about moving averages.

    Yields:
      The source.

    Raises:
      SettingError: a training is in progress, and its values differ from the source's.
      CheckpointNotFoundError: see `source`.
    """
    with contextlib.ExitStack() as in_use:

      def load(source):
        in_use.enter_context(self.reload_for_inference(source, names))
        return source

      yield leases.read(functools.partial(self.source, path), load)

  @contextlib.contextmanager
  def reload_for_inference(
    self, source: str, names: Mapping[str, str] | None = None
  ) -> Iterator[None]:
    """Loads the source of `load_for_inference` again, unless the variables have its values."""
    wanted = self._wanted(source, names, self._store.variables)
    if self._has(source, wanted):
      yield
    elif self._has(source, {}):
      # The variables have the weights that a training continues with. Only the variables in
      # `wanted` change, and they get their values back afterwards, so the training need not read
      # them again.
      with self._swap(source, wanted):
        yield
    elif self._is_training:
      raise errors.SettingError(
        f"A hook asks for {source} while the training goes on with other "
        "values: use another Estimator for that."
      )
    else:
      self._load(source, wanted)
      yield

  def assign_to(
    self,
    store: variable_store.VariableStore,
    path: str | os.PathLike | None = None,
    names: Mapping[str, str] | None = None,
  ) -> tuple[str, int]:
    """Loads a source as `load_for_inference` does, into the variables of another store: an export.

    Args:
      store: the variables of the exported model.
      path: see `source`.
      names: see `load_for_inference`.

    Returns:
      (source, step): the source and its global step.
    """
    variables = store.variables

    def load(source):
      if source == WARM_START:
        self._begin(store)
        return source, 0
      earlier = former_names.stored_as(variables, reader.shapes(source), store.former_names)
      stored_as = {name: name for name in variables} | earlier
      stored_as |= self._wanted(source, names, variables)
      values = reader.read(source, list(stored_as.values()))
      step = reader.read_step(source)
      for name, variable in variables.items():
        variable.assign(values[stored_as[name]])
      return source, step

    return leases.read(functools.partial(self.source, path), load)

  def _wanted(self, source, names, variables):
    """Maps each variable that takes the value of another name in the source to that name."""
    if source == WARM_START:
      return {}
    if names is None:
      names = self._averages_in(source)
    return {name: there for name, there in names.items() if there != name and name in variables}

  def _averages_in(self, path):
    """Maps each variable to the name of its moving average in a checkpoint."""
    if not self._use_averages:
      return {}
    if self._found_averages[0] != path:
      self._found_averages = path, _averages(reader.shapes(path))
    return self._found_averages[1]

  def _has(self, source, wanted):
    """Whether all variables have the values of a source, those in `wanted` from other names."""
    if self._held is None or not self._held.names >= self._store.variables.keys():
      return False
    return self._held == _Held(source, self._held.names, wanted, self._store.sessions)

  def _load(self, source, wanted):
    if source == WARM_START:
      self._begin(self._store)
    else:
      reader.restore(source, self._store.variables, wanted, self._store.former_names)
    self._store.mark_assigned()
    self._held = _Held(source, frozenset(self._store.variables), dict(wanted), self._store.sessions)

  def _begin(self, store):
    """Assigns the values of a new model. The order is important: later steps overwrite earlier."""
    # 1. The initial values.
    store.reset()
    store.variables["global_step"].assign(0)
    # 2. init_from_checkpoint in the model_fn or its scaffold_fn.
    given = initial_checkpoints.apply(store.initializers, store.variables)
    # 3. The warm start, after the model_fn as in TPUEstimator.
    if self._settings is not None:
      given |= set(warm_start.apply(self._settings, store.variables).loaded)
    # 4. Moving averages without a value of their own start from their variables.
    moving_averages.initialize(store, given)

  @contextlib.contextmanager
  def _swap(self, source, wanted):
    """Assigns the values of `wanted` while the context is open; restores the training's values."""
    variables = self._store.variables
    elsewhere = [there for there in wanted.values() if there not in variables]
    read = reader.read(source, elsewhere) if elsewhere else {}
    kept = {name: variables[name].read_value() for name in wanted}
    try:
      for name, there in wanted.items():
        variables[name].assign(variables[there].read_value() if there in variables else read[there])
      self._store.mark_assigned()
      yield
    finally:
      for name, value in kept.items():
        variables[name].assign(value)
      self._store.mark_assigned()


def _averages(names):
  """Maps each variable with a moving average among the names to the name of the average."""
  prefix = averages.ema_name("")
  return {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}
