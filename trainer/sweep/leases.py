"""Who works on which trial: a table beside Optuna's, in the same database.

    leases = Leases(engine, "digits")
    if leases.claim(3):         # nobody else has trial 3, or whoever had it is dead
      ...
      leases.beat()            # now and then, or others will take it
    leases.release(3)

Of several processes that claim a trial, on whatever machines, one gets it: a row is inserted, or
changed only if nobody changed it in between. A holder is dead if it is of this machine and its
process is gone, or if it is of another one and has not beaten for `seconds` while this process
looked on (the clocks of the machines are not compared).
"""

import dataclasses
import os
import time
import uuid

from trainer import processes


@dataclasses.dataclass(frozen=True)
class Holder:
  """A process.

  Attributes:
    host: of the machine, see processes.host_name.
    pid, started: of the process, see processes.start_time.
    name: unlike that of any other.
  """

  host: str
  pid: int
  started: str
  name: str


def this_process():
  """The Holder that this process is."""
  return Holder(
    processes.host_name(), os.getpid(), processes.start_time(os.getpid()) or "", uuid.uuid4().hex
  )


class Leases:
  """The leases of one study.

  Args:
    engine: a sqlalchemy Engine. The table is made if it is not there.
    study: the study's name.
    seconds: how long another machine's process may be silent.
    holder: the Holder that claims.
    clock: seconds.
    started: function of a pid, see processes.start_time.
  """

  def __init__(
    self,
    engine,
    study,
    seconds=60.0,
    holder=None,
    clock=time.monotonic,
    started=processes.start_time,
  ):
    import sqlalchemy

    self._sql = sqlalchemy
    self._engine = engine
    self._study = study
    self._seconds = seconds
    self.holder = holder or this_process()
    self._clock = clock
    self._started = started
    self._seen = {}  # number: ((owner, beat), when it was first seen so)
    columns = [sqlalchemy.Column("study", sqlalchemy.String(512), primary_key=True)]
    columns += [
      sqlalchemy.Column("trial", sqlalchemy.Integer, primary_key=True, autoincrement=False)
    ]
    columns += [
      sqlalchemy.Column(name, sqlalchemy.String(256)) for name in ("owner", "host", "started")
    ]
    columns += [sqlalchemy.Column(name, sqlalchemy.Integer) for name in ("pid", "beat")]
    self._table = sqlalchemy.Table("octet_leases", sqlalchemy.MetaData(), *columns)
    try:
      self._table.create(engine, checkfirst=True)
    except sqlalchemy.exc.DBAPIError:  # another process makes it at the same time
      self._table.create(engine, checkfirst=True)

  def claim(self, number):
    """Whether this process has the trial of this number from now on."""
    row = self._row(number)
    mine = {
      "owner": self.holder.name,
      "host": self.holder.host,
      "pid": self.holder.pid,
      "started": self.holder.started,
    }
    if row is None:
      try:
        with self._engine.begin() as connection:
          connection.execute(
            self._table.insert().values(study=self._study, trial=number, beat=0, **mine)
          )
        return True
      except self._sql.exc.IntegrityError:
        return False
    if not self.is_dead(row):
      return False
    unchanged = (
      self._where(number),
      self._table.c.owner == row.owner,
      self._table.c.beat == row.beat,
    )
    with self._engine.begin() as connection:
      return (
        connection.execute(
          self._table.update().where(*unchanged).values(beat=row.beat + 1, **mine)
        ).rowcount
        == 1
      )

  def beat(self):
    """Tells that this process is alive; returns the set of numbers that it still has."""
    own = (self._table.c.study == self._study, self._table.c.owner == self.holder.name)
    with self._engine.begin() as connection:
      connection.execute(self._table.update().where(*own).values(beat=self._table.c.beat + 1))
      return set(connection.execute(self._sql.select(self._table.c.trial).where(*own)).scalars())

  def release(self, number):
    """Gives the trial back, if this process has it."""
    with self._engine.begin() as connection:
      connection.execute(
        self._table.delete().where(self._where(number), self._table.c.owner == self.holder.name)
      )

  def others(self):
    """The processes of this machine that are alive and have a trial, as list of pids."""
    with self._engine.connect() as connection:
      rows = connection.execute(
        self._sql.select(self._table).where(self._table.c.study == self._study)
      ).all()
    here = [row for row in rows if row.host == self.holder.host and row.owner != self.holder.name]
    return sorted({row.pid for row in here if not self.is_dead(row)})

  def is_dead(self, row):
    """Whether the holder of a row of the table is gone."""
    if row.host == self.holder.host and row.started:
      return self._started(row.pid) != row.started
    state = row.owner, row.beat
    if self._seen.get(row.trial, (None,))[0] != state:
      self._seen[row.trial] = state, self._clock()
    return self._clock() - self._seen[row.trial][1] >= self._seconds

  def _row(self, number):
    with self._engine.connect() as connection:
      return connection.execute(self._sql.select(self._table).where(self._where(number))).first()

  def _where(self, number):
    return self._sql.and_(self._table.c.study == self._study, self._table.c.trial == number)
