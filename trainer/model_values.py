"""Which values a model's variables have: those of a checkpoint, of a warm start, or of the training that goes on.

    values = ModelValues(store, checkpoint_directory, warm_start_settings)
    values.load(values.source())              # to train on from there
    with values.in_use(values.source()): ...  # to evaluate or predict: with the moving averages of the weights, where the training keeps them

A source is the path of a checkpoint, or WARM_START where model_dir has none yet.
"""

import contextlib
import os

from trainer import checkpoint, errors, optimizers, warm_start

# The source of a model that begins: its initial values, and over these what a warm start brings.
WARM_START = "warm start"


class ModelValues:
  """Gives variables their values, and remembers which they have, so that nothing is read twice.

  Args:
    store: the variables.VariableStore; its "global_step" is one of them.
    checkpoints: the checkpoint.CheckpointDirectory of the run.
    settings: WarmStartSettings or None.
    averages: whether `in_use` gives moving averages.
  """

  def __init__(self, store, checkpoints, settings=None, averages=True):
    self._store = store
    self._checkpoints = checkpoints
    self._settings = settings
    self._use_averages = averages
    self.has_changed()

  def source(self, path=None):
    """What to evaluate, predict with or export: this checkpoint, else the newest that is not damaged, else the warm start.

    Raises:
      CheckpointNotFoundError: there is none of them.
    """
    if path is not None:
      return checkpoint.resolve(os.fspath(path))
    latest = self.latest()
    if latest is None and self._settings is None:
      raise errors.CheckpointNotFoundError(
          f"There is no checkpoint in {self._checkpoints.directory} (--model_dir): train first, or give checkpoint_path or warm_start_from.")
    return latest or WARM_START

  def latest(self):
    """The newest checkpoint of the run that is not damaged, or None."""
    return self._checkpoints.latest_whole()

  def is_own(self, source):
    """Whether it is one of the run's own checkpoints."""
    return source != WARM_START and os.path.normpath(os.path.dirname(source)) == os.path.normpath(self._checkpoints.directory)

  def has_changed(self):
    """A step of training has changed the variables: they are those of no source."""
    self._held, self._names, self._averaged = None, frozenset(), None

  def was_saved(self, path, names):
    """The variables of these names are now those of a checkpoint."""
    self._held, self._names, self._averaged = path, frozenset(names), False if self._live_averages() else None

  def load(self, source):
    """Gives the variables the values of a source as the training had them; those of WARM_START also where no warm start is set."""
    if not self._has(source, averaged=False):
      self._load(source, averaged=False)

  @contextlib.contextmanager
  def in_use(self, source, training=False):
    """Inside, the variables have the values of a source that are evaluated.

    Args:
      source: see above.
      training: whether a training goes on, whose values must not be lost.

    Raises:
      SettingError: it does, and has gone on from the source.
    """
    if self._has(source, averaged=True):
      yield
    elif self._has(source, averaged=False):
      with self._swapped():
        yield
    elif training:
      raise errors.SettingError(f"A hook asks for {source} while the training goes on with other values: use another Estimator for that.")
    else:
      self._load(source, averaged=True)
      yield

  def give(self, source, variables):
    """Gives the values of a source that are evaluated to the variables (dict of name → tf.Variable) of an exported model."""
    if source == WARM_START:
      warm_start.apply(self._settings, variables)
    else:
      stored_as = {name: name for name in variables} | self._stored_as(source, variables)
      values = checkpoint.read(source, list(stored_as.values()))
      for name, variable in variables.items():
        variable.assign(values[stored_as[name]])

  def _has(self, source, averaged):
    """Whether the variables have the values of a source. `_averaged` is None where there are no averages, so that both kinds are one."""
    return self._held == source and self._names >= self._store.variables.keys() and self._averaged in (None, averaged)

  def _load(self, source, averaged):
    variables = self._store.variables
    stored_as = {}
    if source == WARM_START:
      self._store.reset()
      variables["global_step"].assign(0)
      if self._settings is not None:
        warm_start.apply(self._settings, variables)
    else:
      stored_as = self._stored_as(source, variables)
      checkpoint.restore(source, variables, stored_as if averaged else {})
    self._held, self._names, self._averaged = source, frozenset(variables), averaged if stored_as else None

  def _stored_as(self, path, variables):
    """dict of variable → its moving average in a checkpoint."""
    if not self._use_averages:
      return {}
    found = checkpoint.shapes(path)
    return {name: optimizers.ema_name(name) for name in variables if optimizers.ema_name(name) in found}

  def _live_averages(self):
    """dict of variable → the variable that is its moving average."""
    variables = self._store.variables
    averages = {name: variables.get(optimizers.ema_name(name)) for name in variables} if self._use_averages else {}
    return {name: average for name, average in averages.items() if average is not None}

  @contextlib.contextmanager
  def _swapped(self):
    variables = self._store.variables
    averages = self._live_averages()
    kept = {name: variables[name].read_value() for name in averages}
    try:
      for name, average in averages.items():
        variables[name].assign(average.read_value())
      yield
    finally:
      for name, value in kept.items():
        variables[name].assign(value)
