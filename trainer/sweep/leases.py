"""Leases on trials: they say which process works on which trial.

    leases = Leases(engine, "digits")
    if leases.claim(3):         # nobody has trial 3, or its holder is dead
      ...
      leases.beat()            # from time to time, or others will take the trial
    leases.release(3)

The leases are a table in Optuna's database. If several processes claim a trial, on whatever
machines, one gets it: it inserts a row, or changes a row that no process has changed since the
read.

A holder on this machine is dead if its process no longer exists. A holder on another machine is
dead if it has not beaten for `seconds`, measured by this process's clock. Octet never compares the
clocks of different machines.
"""

import dataclasses
import os
import time
import uuid
from collections.abc import Callable
from typing import Any

from trainer.cli import processes


@dataclasses.dataclass(frozen=True)
class Holder:
  """A holder of leases: a process.

  Attributes:
    host: see processes.host_name.
    pid: process ID.
    started: see processes.start_time; "" if the system does not tell.
    owner: a name of its own among all processes.
  """

  host: str
  pid: int
  started: str
  owner: str


def this_process() -> Holder:
  """Makes a Holder for this process."""
  return Holder(
    processes.host_name(), os.getpid(), processes.start_time(os.getpid()) or "", uuid.uuid4().hex
  )


@dataclasses.dataclass
class Leases:
  """The leases of one study.

  Attributes:
    engine: a sqlalchemy Engine. The constructor creates the table if it does not exist.
    study: name of the study.
    seconds: after this time without a beat, a process on another machine counts as dead.
    holder: claims the trials; by default this process.
    clock: returns seconds.
    started: returns the start time of a process ID, see processes.start_time.
  """

  engine: Any
  study: str
  seconds: float = 60.0
  holder: Holder = dataclasses.field(default_factory=this_process)
  clock: Callable[[], float] = time.monotonic
  started: Callable[[int], str | None] = processes.start_time

  def __post_init__(self) -> None:
    import sqlalchemy

    self._sql = sqlalchemy
    # Trial number → ((owner, beat), when this process first saw that pair).
    self._seen: dict[int, tuple[tuple[str, int], float]] = {}
    self._table = sqlalchemy.Table(
      "octet_leases",
      sqlalchemy.MetaData(),
      sqlalchemy.Column("study", sqlalchemy.String(512), primary_key=True),
      sqlalchemy.Column("trial", sqlalchemy.Integer, primary_key=True, autoincrement=False),
      *(sqlalchemy.Column(name, sqlalchemy.String(256)) for name in ("owner", "host", "started")),
      *(sqlalchemy.Column(name, sqlalchemy.Integer) for name in ("pid", "beat")),
    )
    try:
      self._table.create(self.engine, checkfirst=True)
    except sqlalchemy.exc.DBAPIError:  # Another process created it after the check.
      self._table.create(self.engine, checkfirst=True)

  def claim(self, number: int) -> bool:
    """Tries to take a trial; returns whether this process holds it now."""
    row = self._row(number)
    mine = dataclasses.asdict(self.holder)
    if row is None:
      try:
        with self.engine.begin() as connection:
          connection.execute(
            self._table.insert().values(study=self.study, trial=number, beat=0, **mine)
          )
        return True
      except self._sql.exc.IntegrityError:  # Another process inserted its row first.
        return False
    if not self.is_dead(row):
      return False
    # The UPDATE names the old owner and beat, so it changes the row only if no process changed it
    # since the read. So of several processes that find the holder dead, one gets the trial; and
    # none does if the holder has beaten meanwhile.
    unchanged = (
      self._where(number),
      self._table.c.owner == row.owner,
      self._table.c.beat == row.beat,
    )
    with self.engine.begin() as connection:
      return (
        connection.execute(
          self._table.update().where(*unchanged).values(beat=row.beat + 1, **mine)
        ).rowcount
        == 1
      )

  def beat(self) -> set[int]:
    """Renews the leases of this process; returns the numbers of the trials that it still holds."""
    own = (self._table.c.study == self.study, self._table.c.owner == self.holder.owner)
    with self.engine.begin() as connection:
      connection.execute(self._table.update().where(*own).values(beat=self._table.c.beat + 1))
      return set(connection.execute(self._sql.select(self._table.c.trial).where(*own)).scalars())

  def release(self, number: int) -> None:
    """Releases a trial if this process holds it."""
    with self.engine.begin() as connection:
      connection.execute(
        self._table.delete().where(self._where(number), self._table.c.owner == self.holder.owner)
      )

  def other_pids(self) -> list[int]:
    """Returns the IDs of other live processes on this machine that hold a trial."""
    live = [row for row in self._rows() if not self.is_dead(row)]
    return sorted(
      {row.pid for row in live if row.host == self.holder.host and row.owner != self.holder.owner}
    )

  def held(self) -> set[int]:
    """Returns the numbers of the trials that live processes hold, this one among them."""
    return {row.trial for row in self._rows() if not self.is_dead(row)}

  def is_dead(self, row: Any) -> bool:
    """Whether the holder in a row of the table is dead; see the module."""
    # The system reuses process IDs, so the start time must be the same as well.
    if row.host == self.holder.host and row.started:
      return self.started(row.pid) != row.started
    state = row.owner, row.beat
    # The clock of the other machine may differ: measure how long this process sees the same beat.
    if self._seen.get(row.trial, (None,))[0] != state:
      self._seen[row.trial] = state, self.clock()
    return self.clock() - self._seen[row.trial][1] >= self.seconds

  def _rows(self, *where):
    chosen = self._sql.select(self._table).where(self._table.c.study == self.study, *where)
    with self.engine.connect() as connection:
      return connection.execute(chosen).all()

  def _row(self, number):
    return next(iter(self._rows(self._where(number))), None)

  def _where(self, number):
    return self._sql.and_(self._table.c.study == self.study, self._table.c.trial == number)
