"""Runs a sweep on many machines: worker processes that share one PostgreSQL.

The trials take no time, so only the sweep's own cost remains.

    python -m tests.slow.sweep_cluster --workers=16 --trials=1000 --kills=4

The test kills some workers with SIGKILL and replaces them. In the end every trial is complete
exactly once. It prints a trial's overhead and the load of the database: connections, and queries as
SQLAlchemy sends them.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time

from tests.trainer.sweep import postgres, programs
from trainer.sweep import engine, study
from trainer.sweep import settings as settings_lib

_NAME = "cluster"


class _Starter(programs.Starter):
  """Also records starts and ends in a file that all workers append to."""

  def __init__(self, log):
    super().__init__()
    self._log = os.open(log, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    self.queries = self._noted = 0

  def count_query(self, *_):
    self.queries += 1

  def _note(self, what, name):
    line = f"{what} {name.split()[1]} {self.queries - self._noted} {time.time()}\n"
    os.write(self._log, line.encode())
    self._noted = self.queries

  def start(self, name, arguments, log, lock, slot):
    super().start(name, arguments, log, lock, slot)
    self._note("start", name)

  def wait(self, seconds):
    before = set(self.ended)
    super().wait(seconds)
    for name in set(self.ended) - before:
      self._note("end", name)


def _work(folder, url, count, join):
  """Runs a worker as `python -m trainer.sweep --workers=1`, with other trials."""
  import sqlalchemy

  settings = settings_lib.load(str(folder / "sweep.gin"))
  found = study.Study.open(url, _NAME, settings, settings.definition(), join=join)
  if not join:
    found.make_trials(count)
  starter = _Starter(folder / "log")
  sqlalchemy.event.listen(found._storage.engine, "before_cursor_execute", starter.count_query)
  start = time.time()
  engine.Engine(found, starter, [{}], str(folder), [], count).finish_trials()
  report = {"queries": starter.queries, "seconds": time.time() - start}
  (folder / f"worker-{os.getpid()}.json").write_text(json.dumps(report))


def _lines(folder, what):
  """Returns {trial: how often} of the log's lines with this beginning."""
  return collections.Counter(int(number) for kind, number, *_ in _rows(folder) if kind == what)


def _rows(folder):
  """Returns the log's lines: what, trial, queries of its worker since its last line, time."""
  path = folder / "log"
  return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def _growth(folder, trials):
  """Prints a trial's cost as their number grows: lines with the queries and the rate."""
  rows, ended, window = _rows(folder), 0, trials // 10
  queries, times = collections.Counter(), {}
  for kind, _, count, moment in rows:
    queries[min(ended // window, 9)] += int(count)
    ended += kind == "end"
    times[ended] = float(moment)
  told = []
  for first in (0, 4 * window, 9 * window):
    seconds = times[first + window] - times[first]
    told.append(
      f"  trials {first + 1} to {first + window}: {queries[first // window] / window:.0f} queries "
      f"a trial, {window / seconds:.1f} trials/s"
    )
  return "\n".join(told)


def _connections(url):
  """Returns the number of connections to the database, and of its transactions."""
  import psycopg

  with psycopg.connect(url) as connection:
    count = connection.execute(
      "select count(*) from pg_stat_activity where backend_type = 'client backend'"
    ).fetchone()[0]
    done = connection.execute(
      "select xact_commit + xact_rollback from pg_stat_database where datname = 'postgres'"
    ).fetchone()[0]
  return count - 1, done


def run(folder, url, workers, trials, kills, seed=0):
  """Runs the sweep; prints and checks the result."""
  randomness = random.Random(seed)
  fork = multiprocessing.get_context("fork")

  def begin(join):
    process = fork.Process(target=_work, args=(folder, url, trials, join))
    process.start()
    return process

  settings = programs.settings(folder)
  start = time.time()
  processes = [begin(False)]
  while not _lines(folder, "start") and processes[0].is_alive():  # it makes the trials
    time.sleep(0.1)
  made = time.time()
  _, transactions_before = _connections(url)
  processes += [begin(True) for _ in range(workers - 1)]
  most, killed = 0, 0
  while any(process.is_alive() for process in processes):
    ended = sum(_lines(folder, "end").values())
    if killed < kills and ended >= (killed + 1) * trials // (kills + 1):
      victim = randomness.choice([process for process in processes if process.is_alive()])
      os.kill(victim.pid, signal.SIGKILL)
      victim.join()
      processes[processes.index(victim)] = begin(True)
      killed += 1
    most = max(most, _connections(url)[0])
    time.sleep(0.5)
  seconds = time.time() - made
  _, transactions = _connections(url)
  codes = [process.exitcode for process in processes]
  assert codes == [0] * workers, codes

  found = study.Study.open(url, _NAME, settings, settings.definition(), join=True).trials()
  assert [trial.number for trial in found] == list(range(trials))
  assert {trial.state.name for trial in found} == {"COMPLETE"}
  starts, ends = _lines(folder, "start"), _lines(folder, "end")
  assert set(ends) == set(range(trials))
  doubled = sum(count - 1 for count in ends.values())
  again = sum(starts.values()) - sum(ends.values())
  assert doubled <= kills, ends  # killed between a trial's end and its record: runs again
  assert again <= kills, starts

  reports = [json.loads(path.read_text()) for path in folder.glob("worker-*.json")]
  queries = sum(report["queries"] for report in reports)
  busy = sum(report["seconds"] for report in reports)
  print(
    f"{trials} trials by {workers} processes, {killed} killed: all complete, each recorded once, "
    f"{again} begun again and {doubled} run again after a kill.\n"
    f"{made - start:.1f} s to make the trials, {seconds:.1f} s to run them: {trials / seconds:.1f} "
    f"trials/s, {1000 * busy / trials:.0f} ms of a worker's time for each.\n"
    f"The database: {most} connections at most, {queries / trials:.0f} queries a trial, "
    f"{queries / seconds:.0f} queries/s, {(transactions - transactions_before) / seconds:.0f} "
    "transactions/s (queries of killed workers not counted).\n"
    f"{_growth(folder, trials)}"
  )


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--workers", type=int, default=16)
  parser.add_argument("--trials", type=int, default=1000)
  parser.add_argument("--kills", type=int, default=4)
  arguments = parser.parse_args()
  # The database's user must be able to reach its folder.
  database = tempfile.mkdtemp(prefix="sweep_cluster", dir="/tmp")
  try:
    with postgres.server(database) as url, tempfile.TemporaryDirectory() as folder:
      run(pathlib.Path(folder), url, arguments.workers, arguments.trials, arguments.kills)
  finally:
    shutil.rmtree(database, ignore_errors=True)


if __name__ == "__main__":
  main()
