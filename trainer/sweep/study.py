"""The trials of a sweep in a database: makes them, hands them out, records their results.

    study = Study.open("sqlite:///out/sweep/sweep.db", "sweep", settings, definition)
    study.make_trials(40)
    trial = study.claim(40)                   # an optuna.Trial that nobody else works on, or None
    study.settings.space.suggest(trial)
    study.finish(trial, "complete", [0.98])

The first process makes all trials at the beginning. Processes then claim them: new trials, and
likewise trials of a killed process. A trial keeps its number and its chosen parameters when a
second process claims it. Its remaining parameters get the values of an undisturbed trial.

A trial's user attribute "worker" names the process that works on it. A process claims a trial by
one UPDATE that names the earlier worker: of several processes, on whatever machines, one gets it.
A worker is dead if its process is gone from this machine, or if it gave the trial no heartbeat for
`lease_seconds`: Optuna's heartbeats, by the database's clock. Optuna's own retry of such a trial
would give it another number, another folder and, in a grid, another point.
"""

import functools
import json
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer import errors
from trainer.cli import processes
from trainer.sweep import optuna_parts
from trainer.sweep import trial as trial_lib

if TYPE_CHECKING:
  from trainer.sweep import settings as settings_lib

_DEFINITION = "octet"

# The user attribute of a trial with its worker: host, process ID, its start time, an ID of its own;
# [] if no process works on the trial.
_WORKER = "worker"

# Seconds without a heartbeat after which a worker counts as dead.
LEASE_SECONDS = 60.0


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
  """

  def __init__(
    self, storage: Any, name: str, settings: "settings_lib.Settings | None" = None
  ) -> None:
    self._optuna = optuna_parts.library()
    self._storage = storage
    self.name = name
    self.settings = settings
    pid = os.getpid()
    started = processes.start_time(pid) or ""
    self.worker = [processes.host_name(), pid, started, uuid.uuid4().hex]

  @classmethod
  def open(
    cls,
    url: str,
    name: str,
    settings: "settings_lib.Settings",
    definition: Mapping[str, Any],
    join: bool = False,
    lease_seconds: float = LEASE_SECONDS,
  ) -> "Study":
    """Opens the study of this name, or creates it.

    Args:
      url: of the database.
      name: of the study.
      settings: of the sweep.
      definition: the settings that must not change in a resumed sweep, in a form that JSON can
        hold.
      join: whether the study must exist.
      lease_seconds: after so many seconds without a heartbeat, a worker counts as dead.

    Raises:
      SettingError: it cannot reach the database, the study does not exist, or the study has another
        definition.
    """
    optuna = optuna_parts.library()
    if join:
      _require_file(url)
    storage = _storage(url, lease_seconds)
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
    return cls(storage, name, settings)

  @classmethod
  def read(cls, url: str, name: str) -> "tuple[Study, dict[str, Any]]":
    """Opens a study for reading; returns it and its definition.

    Raises:
      SettingError: it cannot reach the database, or the study does not exist.
    """
    optuna = optuna_parts.library()
    _require_file(url)
    storage = _storage(url)
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
      storage=self._storage,
      study_name=self.name,
      sampler=s.make_sampler(number),
      pruner=optuna_parts.pruner(s.pruner, s.pruner_options),
    )

  def trials(self) -> list[Any]:
    """Returns all optuna.FrozenTrials, by number."""
    return self.optuna_study().get_trials(deepcopy=False)

  def make_trials(self, count: int) -> None:
    """Makes trials until there are `count`. One process does this: others join it."""
    study = self.optuna_study()
    for _ in range(count - self._storage.get_n_trials(self._id)):
      study.add_trial(
        self._optuna.trial.create_trial(
          state=self._optuna.trial.TrialState.WAITING, user_attrs={_WORKER: []}
        )
      )

  def claim(self, count: int) -> Any:
    """Claims one of the first `count` trials that is unfinished and has no live process.

    Returns:
      An optuna.Trial; None if there is no such trial now.
    """
    silent = self._storage._get_stale_trial_ids(self._id)
    for trial in self._unfinished(count):
      worker, trial_id = trial.user_attrs.get(_WORKER), trial._trial_id
      if worker and trial_id not in silent and not self.is_dead(worker):
        continue
      # Before the claim: a worker without a heartbeat would count as dead.
      self._storage.record_heartbeat(trial_id)
      if not self._change_worker(trial_id, worker, self.worker):
        continue
      # Read again: another process may have finished the trial before this claim.
      state = self._storage.get_trial(trial_id).state
      if state.is_finished():
        continue
      if state == self._optuna.trial.TrialState.WAITING:
        self._storage.set_trial_state_values(trial_id, self._optuna.trial.TrialState.RUNNING)
      study = self.optuna_study(trial.number)
      study.get_trials(deepcopy=False)  # Optuna's cache accepts writes only to trials that it read.
      return self._optuna.trial.Trial(study, trial_id)
    return None

  def keep(self, trial: Any) -> bool:
    """Gives an optuna.Trial a heartbeat; returns False if another process has claimed it."""
    is_mine = self._storage.get_trial_user_attrs(trial._trial_id).get(_WORKER) == self.worker
    if is_mine:
      self._storage.record_heartbeat(trial._trial_id)
    return is_mine

  def release(self, trial: Any) -> None:
    """Gives an optuna.Trial back, if this process works on it."""
    self._change_worker(trial._trial_id, self.worker, [])

  def other_pids(self) -> list[int]:
    """Returns the IDs of other live processes on this machine that work on a trial."""
    workers = [trial.user_attrs.get(_WORKER) for trial in self._unfinished(math.inf)]
    return sorted(
      {
        worker[1]
        for worker in workers
        if worker and worker[0] == self.worker[0] and worker != self.worker
        if not self.is_dead(worker)
      }
    )

  def is_dead(self, worker: Sequence[Any]) -> bool:
    """Whether the process of a worker is gone from this machine."""
    host, pid, started, _ = worker
    # The system reuses process IDs, so the start time must be the same as well.
    return host == processes.host_name() and bool(started) and processes.start_time(pid) != started

  def count_unfinished(self, count: int) -> int:
    """Returns how many of the first `count` trials are unfinished."""
    return len(self._unfinished(count))

  @functools.cached_property
  def _id(self):
    return self._storage.get_study_id_from_name(self.name)

  def _unfinished(self, count):
    """Returns the unfinished optuna.FrozenTrials among the first `count`, by number."""
    states = [state for state in self._optuna.trial.TrialState if not state.is_finished()]
    found = self._storage.get_all_trials(self._id, deepcopy=False, states=states)
    return sorted((trial for trial in found if trial.number < count), key=lambda one: one.number)

  def _change_worker(self, trial_id, before, now):
    """Changes the worker of a trial if it still is `before`; returns whether it did."""
    import sqlalchemy

    names = ("trial_id", "key", "value_json")
    table = sqlalchemy.table("trial_user_attributes", *map(sqlalchemy.column, names))
    with self._storage.engine.begin() as connection:
      if before is None:  # A trial of version 0.1.0.
        new = {"trial_id": trial_id, "key": _WORKER, "value_json": json.dumps(now)}
        try:
          connection.execute(table.insert().values(**new))
        except sqlalchemy.exc.IntegrityError:
          return False
        return True
      unchanged = (
        table.c.trial_id == trial_id,
        table.c.key == _WORKER,
        table.c.value_json == json.dumps(before),
      )
      change = table.update().where(*unchanged).values(value_json=json.dumps(now))
      return connection.execute(change).rowcount == 1

  def finish(self, trial: Any, state: str, values: Sequence[float] | None = None) -> None:
    """Records the result of an optuna.Trial.

    Args:
      trial: from `claim`.
      state: "complete", "pruned" or "fail".
      values: the metrics of a complete trial.
    """
    trial.study.tell(trial, values, state=self._optuna.trial.TrialState[state.upper()])


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


def _storage(url, lease_seconds=None):
  """Makes the optuna RDBStorage; SettingError if it cannot reach the database.

  Without `lease_seconds` it is for a reader, which creates no table.
  """
  read = lease_seconds is None
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
      **({} if read else {"heartbeat_interval": 1, "grace_period": math.ceil(lease_seconds)}),
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
