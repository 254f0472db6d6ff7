"""Which values a model's variables have: those of a checkpoint, of a warm start, or of the training
that goes on.

    values = ModelValues(store, checkpoint_directory, warm_start_settings)
    values.load(values.source())              # to train on from there
    with values.use(values.source()): ...  # to evaluate or predict: with the moving averages of
                                              # the weights, where the training keeps them

A source is the path of a checkpoint, or WARM_START where model_dir has none yet.
"""

import contextlib
import os

from trainer import errors, optimizers
from trainer.checkpoints import directory, initial_checkpoints, moving_averages, reader, warm_start

# The source of a model that begins: its initial values, and over these what a warm start brings.
WARM_START = "warm start"


class ModelValues:
  """Gives variables their values, and remembers which they have, so that nothing is read twice.

  Args:
    store: the variables.VariableStore; its "global_step" is one of them.
    checkpoints: the checkpoint.CheckpointDirectory of the run.
    settings: WarmStartSettings or None.
    averages: whether `use` gives moving averages.
  """

  def __init__(self, store, checkpoints, settings=None, averages=True):
    self._store = store
    self._checkpoints = checkpoints
    self._settings = settings
    self._use_averages = averages
    # Those of a checkpoint: its path; dict of variable → its moving average.
    self._found_averages = None, {}
    self.invalidate()

  def source(self, path=None):
    """What to evaluate, predict with or export: this checkpoint, else the newest that is not
    damaged, else the warm start.

    Raises:
      CheckpointNotFoundError: there is none of them.
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

  def latest(self):
    """The newest checkpoint of the run that is not damaged, or None."""
    return self._checkpoints.latest_whole()

  def is_own(self, source):
    """Whether it is one of the run's own checkpoints."""
    return source != WARM_START and os.path.normpath(os.path.dirname(source)) == os.path.normpath(
      self._checkpoints.directory
    )

  def invalidate(self):
    """A step of training has changed the variables: they are those of no source."""
    self._held, self._names, self._restored_as = None, frozenset(), {}

  def mark_saved(self, path, names):
    """The variables of these names are now those of a checkpoint."""
    self._held, self._names, self._restored_as = path, frozenset(names), {}
    self._found_averages = path, _averages(names) if self._use_averages else {}

  def load(self, source):
    """Gives the variables the values of a source as the training had them; those of WARM_START
    also where no warm start is set.
    """
    if not self._has(source, {}):
      self._load(source, {})

  @contextlib.contextmanager
  def use(self, source, training=False, names=None):
    """Inside, the variables have the values of a source that are evaluated.

    Args:
      source: see above.
      training: whether a training goes on, whose values must not be lost.
      names: dict of variable → its name in checkpoints, as a Saver of the model_fn says; None where
        there is none. It takes the place of `averages`.

    Raises:
      SettingError: it does, and has gone on from the source.
    """
    wanted = self._wanted(source, names, self._store.variables)
    if self._has(source, wanted):
      yield
    elif self._has(source, {}):
      with self._swap(source, wanted):
        yield
    elif training:
      raise errors.SettingError(
        f"A hook asks for {source} while the training goes on with other "
        "values: use another Estimator for that."
      )
    else:
      self._load(source, wanted)
      yield

  def assign_to(self, source, store, names=None):
    """Gives the values of a source that are evaluated to the variables of an exported model's
    store; names as for `use`.
    """
    variables = store.variables
    if source == WARM_START:
      self._begin(store)
    else:
      stored_as = {name: name for name in variables} | self._wanted(source, names, variables)
      values = reader.read(source, list(stored_as.values()))
      for name, variable in variables.items():
        variable.assign(values[stored_as[name]])

  def _wanted(self, source, names, variables):
    """dict of variable → its name in a source, of those that are evaluated with what has
    another name there.
    """
    if source == WARM_START:
      return {}
    if names is None:
      names = self._averages_in(source)
    return {name: there for name, there in names.items() if there != name and name in variables}

  def _averages_in(self, path):
    """dict of variable → its moving average in a checkpoint."""
    if not self._use_averages:
      return {}
    if self._found_averages[0] != path:
      self._found_averages = path, _averages(reader.shapes(path))
    return self._found_averages[1]

  def _has(self, source, wanted):
    """Whether the variables have the values of a source, those of `wanted` from other names
    there.
    """
    return (
      self._held == source
      and self._names >= self._store.variables.keys()
      and self._restored_as == wanted
    )

  def _load(self, source, wanted):
    if source == WARM_START:
      self._begin(self._store)
    else:
      reader.restore(source, self._store.variables, wanted)
    self._held, self._names, self._restored_as = (
      source,
      frozenset(self._store.variables),
      dict(wanted),
    )

  def _begin(self, store):
    """The values of a model that begins.

    The order is important: each goes over what was before it.
    """
    # 1. Initial values.
    store.reset()
    store.variables["global_step"].assign(0)
    # 2. What the model_fn or its scaffold_fn takes from checkpoints.
    given = initial_checkpoints.apply(store.initializers, store.variables)
    # 3. A warm start, as TPUEstimator has it: after the model_fn.
    if self._settings is not None:
      given |= set(warm_start.apply(self._settings, store.variables).loaded)
    # 4. Moving averages, of what their variables have by now.
    moving_averages.begin(store, given)

  @contextlib.contextmanager
  def _swap(self, source, wanted):
    """Inside, the variables have the values of `wanted`; they have those that the training goes
    on with again after.
    """
    variables = self._store.variables
    elsewhere = [there for there in wanted.values() if there not in variables]
    read = reader.read(source, elsewhere) if elsewhere else {}
    kept = {name: variables[name].read_value() for name in wanted}
    try:
      for name, there in wanted.items():
        variables[name].assign(variables[there].read_value() if there in variables else read[there])
      yield
    finally:
      for name, value in kept.items():
        variables[name].assign(value)


def _averages(names):
  """dict of variable → the name of its moving average, of those that have one among names."""
  prefix = optimizers.ema_name("")
  return {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}
