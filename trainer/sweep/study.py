"""The trials of a sweep in a database: makes them, hands them out, records their results.

    study = Study.open("sqlite:///out/sweep/sweep.db", "sweep", settings, definition)
    study.make_trials(40)
    trial = study.claim(40)                   # an optuna.Trial that nobody else works on, or None
    study.settings.space.suggest(trial)
    study.finish(trial, "complete", [0.98])

The first process makes all trials at the beginning. Processes then claim them: new trials, and
likewise trials of a killed process. A trial keeps its number and its chosen parameters when a
second process claims it. Its remaining parameters get the values of an undisturbed trial.
"""

import functools
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer import errors
from trainer.sweep import leases, optuna_parts
from trainer.sweep import trial as trial_lib

if TYPE_CHECKING:
  from trainer.sweep import settings as settings_lib

_DEFINITION = "octet"

# The trial number of the lease that a process holds while it makes trials.
_MAKER = -1


def url_for(sweep_dir: str, storage: str = "") -> str:
  """Returns the address of the database: --storage, or a file in the sweep's folder."""
  path = os.path.join(os.path.abspath(sweep_dir), "sweep.db")
  # In an address, "?" begins its options, and "%3D" is "=".
  return storage or "sqlite:///" + path.replace("%", "%25").replace("?", "%3F")


class Study:
  """The trials of a sweep; see `open` and `read`.

  Args:
    storage: an optuna RDBStorage.
    name: of the study.
    settings: of the sweep; None to only read the study.
    lease_seconds: see `leases.Leases`.
  """

  def __init__(
    self,
    storage: Any,
    name: str,
    settings: "settings_lib.Settings | None" = None,
    lease_seconds: float = 60.0,
  ) -> None:
    self._optuna = optuna_parts.library()
    self._storage = storage
    # Neither sampler nor pruner asks for other trials, so nothing needs to read them. Optuna wraps
    # a plain RDBStorage in a cache that reads all trials. The subclass avoids the cache.
    self._is_alone = settings is not None and optuna_parts.is_alone(
      settings.sampler, settings.pruner
    )
    self.name = name
    self.settings = settings
    self._made = 0  # Known trials.
    self.leases: Any = leases.Leases(storage.engine, name, lease_seconds) if settings else None

  @classmethod
  def open(
    cls,
    url: str,
    name: str,
    settings: "settings_lib.Settings",
    definition: Mapping[str, Any],
    join: bool = False,
    lease_seconds: float = 60.0,
  ) -> "Study":
    """Opens the study of this name, or creates it.

    Args:
      url: of the database.
      name: of the study.
      settings: of the sweep.
      definition: the settings that must not change in a resumed sweep, in a form that JSON can
        hold.
      join: whether the study must exist.
      lease_seconds: see `leases.Leases`.

    Raises:
      SettingError: it cannot reach the database, the study does not exist, or the study has another
        definition.
    """
    optuna = optuna_parts.library()
    if join:
      _require_file(url)
    storage = _storage(url)
    names = optuna.get_all_study_names(storage)
    if join and name not in names:
      raise errors.SettingError(
        f"--join: there is no sweep {name!r} in {without_password(url)}; there are: "
        f"{', '.join(names) or 'none'}. Start one without --join, or check "
        "--storage and --study."
      )
    try:
      made = optuna.create_study(
        storage=storage, study_name=name, directions=settings.directions, load_if_exists=True
      )
    except ValueError:
      # The study exists with other directions; the check of the definition below reports them.
      made = optuna.load_study(storage=storage, study_name=name)
    # JSON turns tuples into lists, so the comparison needs the same of the new definition.
    plain = json.loads(json.dumps(definition))
    before = made.user_attrs.get(_DEFINITION)
    if before is None:
      made.set_user_attr(trial_lib.SWEEP_ID, uuid.uuid4().hex)
      made.set_user_attr(_DEFINITION, plain)
    elif before != plain:
      changed = sorted(
        key for key in plain.keys() | before.keys() if plain.get(key) != before.get(key)
      )
      raise errors.SettingError(
        f"The sweep {name!r} in {without_password(url)} began with another {', '.join(changed)}:\n"
        f"{_difference(before, plain)}\n"
        "A resumed sweep must be the same; for another one, give another --sweep_dir (or --study, "
        "with --storage)."
      )
    return cls(storage, name, settings, lease_seconds)

  @classmethod
  def read(cls, url: str, name: str) -> "tuple[Study, dict[str, Any]]":
    """Opens a study for reading; returns it and its definition.

    Raises:
      SettingError: it cannot reach the database, or the study does not exist.
    """
    optuna = optuna_parts.library()
    _require_file(url)
    storage = _storage(url, read=True)
    try:
      definition = optuna.load_study(storage=storage, study_name=name).user_attrs[_DEFINITION]
    except KeyError:
      names = ", ".join(optuna.get_all_study_names(storage)) or "none"
      raise errors.SettingError(
        f"There is no sweep {name!r} in {without_password(url)}; there are: {names} (--study)."
      ) from None
    return cls(storage, name), definition

  def optuna_study(self, number: int = 0) -> Any:
    """Loads the optuna.Study in its current state, with the sampler of trial `number`."""
    if not self.settings:
      return self._optuna.load_study(storage=self._storage, study_name=self.name)
    s = self.settings
    return self._optuna.load_study(
      storage=_Uncached(self._storage) if self._is_alone else self._storage,
      study_name=self.name,
      sampler=s.make_sampler(number),
      pruner=optuna_parts.pruner(s.pruner, s.pruner_options),
    )

  def trials(self) -> list[Any]:
    """Returns all optuna.FrozenTrials, by number."""
    return self.optuna_study().get_trials(deepcopy=False)

  def make_trials(self, count: int) -> bool:
    """Makes trials until there are `count`; returns whether there are.

    Trials may be missing because another process is making them.
    """
    if self._made >= count:
      return True
    self._made = self._storage.get_n_trials(self._id)
    if self._made >= count:
      return True
    if not self.leases.claim(_MAKER):
      return False
    study = self.optuna_study()
    for _ in range(count - self._storage.get_n_trials(self._id)):
      study.add_trial(self._optuna.trial.create_trial(state=self._optuna.trial.TrialState.WAITING))
    self.leases.release(_MAKER)
    return True

  def claim(self, count: int) -> Any:
    """Claims one of the first `count` trials that is unfinished and has no live process.

    Returns:
      An optuna.Trial; None if there is no such trial now.
    """
    held = self.leases.held()
    for number, trial_id in self._unfinished(count):
      if number in held or not self.leases.claim(number):
        continue
      # Read again: another process may have finished and released the trial before this claim.
      state = self._storage.get_trial(trial_id).state
      if state.is_finished():
        self.leases.release(number)
        continue
      if state == self._optuna.trial.TrialState.WAITING:
        self._storage.set_trial_state_values(trial_id, self._optuna.trial.TrialState.RUNNING)
      study = self.optuna_study(number)
      if not self._is_alone:  # Optuna's cache accepts writes only to trials that it has read.
        study.get_trials(deepcopy=False)
      return self._optuna.trial.Trial(study, trial_id)
    return None

  def count_unfinished(self, count: int) -> int:
    """Returns how many of the first `count` trials are unfinished."""
    return len(self._unfinished(count))

  @functools.cached_property
  def _id(self):
    return self._storage.get_study_id_from_name(self.name)

  def _unfinished(self, count):
    """Returns (number, ID) of the unfinished trials among the first `count`.

    The query reads two columns of Optuna's table: Optuna itself would read each trial with all its
    values, at every claim.
    """
    import sqlalchemy

    table = sqlalchemy.table(
      "trials", *map(sqlalchemy.column, ("trial_id", "number", "study_id", "state"))
    )
    states = self._optuna.trial.TrialState
    chosen = (
      sqlalchemy.select(table.c.number, table.c.trial_id)
      .where(
        table.c.study_id == self._id,
        table.c.number < count,
        # PostgreSQL has a type of its own for an enumeration: the query compares its names as text.
        sqlalchemy.cast(table.c.state, sqlalchemy.String(16)).in_(
          [state.name for state in states if not state.is_finished()]
        ),
      )
      .order_by(table.c.number)
    )
    with self._storage.engine.connect() as connection:
      return [tuple(row) for row in connection.execute(chosen)]

  def finish(self, trial: Any, state: str, values: Sequence[float] | None = None) -> None:
    """Records the result of an optuna.Trial and releases it.

    Args:
      trial: from `claim`.
      state: "complete", "pruned" or "fail".
      values: the metrics of a complete trial.
    """
    # In this order: another process could claim a released trial without a result, and run it
    # again.
    trial.study.tell(trial, values, state=self._optuna.trial.TrialState[state.upper()])
    self.leases.release(trial.number)


class _Uncached:
  """An RDBStorage that Optuna does not wrap in its cache."""

  def __init__(self, storage: Any) -> None:
    self._storage = storage

  def __getattr__(self, name: str) -> Any:
    return getattr(self._storage, name)


def database_errors() -> tuple[type[Exception], ...]:
  """Returns the exception classes that a lost connection to the database raises."""
  import sqlalchemy

  return optuna_parts.library().exceptions.StorageInternalError, sqlalchemy.exc.SQLAlchemyError


def without_password(url: str) -> str:
  """Returns the address of a database without its password, for messages."""
  import sqlalchemy

  try:
    parsed = sqlalchemy.engine.make_url(url)
  except sqlalchemy.exc.ArgumentError:
    return url
  # Rendered anew, an address has %C3%BC for each ü of a folder.
  return url if parsed.password is None else parsed.render_as_string(hide_password=True)


def _difference(before, now, name=""):
  """Returns a line for each value that differs between two nested dicts, with both values."""
  if isinstance(before, dict) and isinstance(now, dict):
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return "\n".join(
      _difference(before.get(key), now.get(key), f"{name}.{key}".lstrip(".")) for key in keys
    )
  return f"  {name}: was {json.dumps(before)}, is {json.dumps(now)}"


def _require_file(url):
  """Raises SettingError if the database is a missing file; opening would create it."""
  import sqlalchemy

  if not url.startswith("sqlite:///"):
    return
  if not os.path.exists(sqlalchemy.engine.make_url(url).database or ""):
    raise errors.SettingError(
      f"There is no sweep in {without_password(url)} (--sweep_dir, --storage)."
    )


def _storage(url, read=False):
  """Makes the optuna RDBStorage; SettingError if it cannot reach the database.

  A reader creates no table.
  """
  optuna = optuna_parts.library()
  import sqlalchemy

  try:
    parsed = sqlalchemy.engine.make_url(url)
    dialect = parsed.get_backend_name()
    options: dict[str, Any] = {"pool_pre_ping": True}
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
    except database_errors():  # Another process has just created the tables.
      return make()
  except ImportError as error:
    raise errors.SettingError(
      f"--storage={without_password(url)} needs a missing Python package: "
      f"{error.__cause__ or error}."
    ) from error
  except (*database_errors(), OSError, RuntimeError, TypeError) as error:
    cause = error.__cause__ or error
    reason = str(getattr(cause, "orig", None) or cause).strip().splitlines()
    if read:
      raise errors.SettingError(
        f"There is no sweep in {without_password(url)} yet, or no readable one: {reason[0]} "
        "(--sweep_dir, --storage)."
      ) from error
    raise errors.SettingError(
      f"--storage={without_password(url)}: cannot use it: "
      f"{reason[0] if reason else type(error).__name__}. Expected an address such as "
      "sqlite:///path/sweep.db or postgresql://user:password@host/database; or without --storage, "
      "a --sweep_dir that Octet can write."
    ) from error
