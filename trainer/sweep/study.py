"""The trials of a sweep, in a database: which there are, whose turn it is, what came of them.

    study = Study.open("sqlite:///out/sweep/sweep.db", "sweep", settings, definition)
    study.make_trials(40)
    trial = study.claim(40)                   # an optuna.Trial that nobody else works on, or None
    study.settings.space.suggest(trial)
    study.finish(trial, "complete", [0.98])

Trials are made at once, as many as are wanted, and are then taken: new ones, and those whose
process was killed, by the same way. A trial that is taken up again keeps its number, and its
parameters as far as they were chosen; the others are chosen as they would have been.
"""

import functools
import json
import os

from trainer import errors
from trainer.sweep import leases, optuna_parts

_DEFINITION = "octet"

# The number under which whoever makes trials holds a lease.
_MAKER = -1


def url_for(sweep_dir, storage=""):
  """The address of the database: --storage, or a file in the sweep's folder."""
  return storage or f"sqlite:///{os.path.join(os.path.abspath(sweep_dir), 'sweep.db')}"


class Study:
  """The trials of a sweep; see `open` and `read`.

  Args:
    storage: an optuna RDBStorage.
    name: the study's.
    settings: a settings.Settings, or None for a reader.
  """

  def __init__(self, storage, name, settings=None, lease_seconds=60.0):
    self._optuna = optuna_parts.library()
    self._storage = storage
    self.name = name
    self.settings = settings
    self.leases = leases.Leases(storage.engine, name, lease_seconds) if settings else None

  @classmethod
  def open(cls, url, name, settings, definition, join=False, lease_seconds=60.0):
    """The study of this name, made if it is not there.

    Args:
      url: of the database.
      name: the study's.
      settings: a settings.Settings.
      definition: dict, what must be the same each time, as JSON can hold it.
      join: whether it must be there.
      lease_seconds: see leases.Leases.

    Raises:
      SettingError: the database cannot be reached; the study is not there, or is another one.
    """
    optuna = optuna_parts.library()
    if join:
      _require_file(url)
    storage = _storage(url)
    names = [
      summary.study_name
      for summary in optuna.get_all_study_summaries(storage, include_best_trial=False)
    ]
    if join and name not in names:
      raise errors.SettingError(
        f"--join: there is no sweep {name!r} in {shown(url)}; there are: "
        f"{', '.join(names) or 'none'}. Start one without --join, or check "
        "--storage and --study."
      )
    directions = ["maximize" if mode == "max" else "minimize" for mode in settings.modes]
    try:
      made = optuna.create_study(
        storage=storage, study_name=name, directions=directions, load_if_exists=True
      )
    except ValueError:  # of other directions
      made = optuna.load_study(storage=storage, study_name=name)
    plain = json.loads(json.dumps(definition))
    before = made.user_attrs.get(_DEFINITION)
    if before is None:
      made.set_user_attr(_DEFINITION, plain)
    elif before != plain:
      changed = sorted(
        key for key in plain.keys() | before.keys() if plain.get(key) != before.get(key)
      )
      raise errors.SettingError(
        f"The sweep {name!r} in {shown(url)} was begun with another {', '.join(changed)}. A "
        "sweep that goes on must be the same; for another one, "
        "give another --sweep_dir (or --study, with --storage)."
      )
    return cls(storage, name, settings, lease_seconds)

  @classmethod
  def read(cls, url, name):
    """(the study for reading, its definition); SettingError if it is not there."""
    optuna = optuna_parts.library()
    _require_file(url)
    storage = _storage(url, read=True)
    try:
      definition = optuna.load_study(storage=storage, study_name=name).user_attrs[_DEFINITION]
    except KeyError:
      names = [
        summary.study_name
        for summary in optuna.get_all_study_summaries(storage, include_best_trial=False)
      ]
      raise errors.SettingError(
        f"There is no sweep {name!r} in {shown(url)}; there are: "
        f"{', '.join(names) or 'none'} (--study)."
      ) from None
    return cls(storage, name), definition

  def optuna_study(self, number=0):
    """The optuna.Study, as trial `number` sees it: with a sampler of its own, and knowing all
    that the database knows by now.
    """
    if not self.settings:
      return self._optuna.load_study(storage=self._storage, study_name=self.name)
    s = self.settings
    return self._optuna.load_study(
      storage=self._storage,
      study_name=self.name,
      sampler=optuna_parts.sampler(
        s.sampler, s.sampler_options, s.seed, number, s.space.fixed(number)
      ),
      pruner=optuna_parts.pruner(s.pruner, s.pruner_options),
    )

  def trials(self):
    """All optuna.FrozenTrials, by number."""
    return self.optuna_study().get_trials(deepcopy=False)

  def make_trials(self, count):
    """Makes those that `count` wants; returns whether they are there.

    If not, another process is at it.
    """
    if len(self.trials()) >= count:
      return True
    if not self.leases.claim(_MAKER):
      return False
    study = self.optuna_study()
    for _ in range(count - len(self.trials())):
      study.add_trial(self._optuna.trial.create_trial(state=self._optuna.trial.TrialState.WAITING))
    self.leases.release(_MAKER)
    return True

  def claim(self, count):
    """An optuna.Trial that nobody works on, of the first `count` that are not finished; None if
    there is none now.
    """
    for found in self.trials()[:count]:
      if found.state.is_finished() or not self.leases.claim(found.number):
        continue
      state = self._storage.get_trial(found._trial_id).state
      if state.is_finished():  # in between
        self.leases.release(found.number)
        continue
      if state == self._optuna.trial.TrialState.WAITING:
        self._storage.set_trial_state_values(found._trial_id, self._optuna.trial.TrialState.RUNNING)
      study = self.optuna_study(found.number)
      study.get_trials(deepcopy=False)  # Optuna's cache writes to trials only that it has read
      return self._optuna.trial.Trial(study, found._trial_id)
    return None

  def unfinished(self, count):
    """How many of the first `count` trials are not finished."""
    return sum(not trial.state.is_finished() for trial in self.trials()[:count])

  def finish(self, trial, state, values=None):
    """Writes down what came of an optuna.Trial: "complete" with its values, "pruned", or "fail"."""
    trial.study.tell(trial, values, state=self._optuna.trial.TrialState[state.upper()])
    self.leases.release(trial.number)


def failures():
  """What is raised where a database is lost on the way, as a tuple of classes."""
  import sqlalchemy

  return optuna_parts.library().exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError


def shown(url):
  """The address without its password."""
  import sqlalchemy

  try:
    return sqlalchemy.engine.make_url(url).render_as_string(hide_password=True)
  except sqlalchemy.exc.ArgumentError:
    return url


def _require_file(url):
  """Raises SettingError where the database would be a file and is not there."""
  if url.startswith("sqlite:///") and not os.path.exists(url.removeprefix("sqlite:///")):
    raise errors.SettingError(f"There is no sweep in {shown(url)} (--sweep_dir, --storage).")


def _storage(url, read=False):
  """The optuna RDBStorage; SettingError if it cannot be reached.

  For reading alone, no table is made.
  """
  optuna = optuna_parts.library()
  import sqlalchemy

  try:
    parsed = sqlalchemy.engine.make_url(url)
    dialect = parsed.get_backend_name()
    options = {"pool_pre_ping": True}
    if dialect == "sqlite":
      folder = os.path.dirname(parsed.database or "")
      os.makedirs(folder or ".", exist_ok=True)
      options["connect_args"] = {"timeout": 60}
    if dialect == "postgresql":
      options["connect_args"] = {"connect_timeout": 10}
    make = functools.partial(
      optuna.storages.RDBStorage,
      url,
      engine_kwargs=options,
      skip_table_creation=read,
      skip_compatibility_check=read,
    )
    try:
      return make()
    except failures():  # two processes make the tables at a time, of which one is too late
      return make()
  except ImportError as error:
    raise errors.SettingError(
      f"--storage={shown(url)} needs a Python package that is not "
      f"installed: {error.__cause__ or error}."
    ) from error
  except (*failures(), OSError, RuntimeError, TypeError) as error:
    cause = error.__cause__ or error
    reason = str(getattr(cause, "orig", None) or cause).strip().splitlines()
    if read:
      raise errors.SettingError(
        f"There is no sweep in {shown(url)} yet, or it cannot be read: "
        f"{reason[0]} (--sweep_dir, --storage)."
      ) from error
    raise errors.SettingError(
      f"--storage={shown(url)} cannot be used: {reason[0] if reason else type(error).__name__}. "
      "Expected an address such as "
      "sqlite:///path/sweep.db or postgresql://user:password@host/database."
    ) from error
