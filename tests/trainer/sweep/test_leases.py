"""A trial has one worker, and one that died does not keep it."""

import dataclasses

import pytest
import sqlalchemy

from trainer.sweep import leases


class Machines:
  """Processes on some machines, whose clock the test turns."""

  def __init__(self, path):
    self.time = 0.0
    self.alive = {}
    self._engine = sqlalchemy.create_engine(f"sqlite:///{path}")

  def process(self, host, pid, study="s"):
    """The Leases of a new process."""
    holder = leases.Holder(host, pid, started=f"{host} {pid}", owner=f"{host}/{pid}/{study}")
    self.alive[pid] = holder.started
    return leases.Leases(
      self._engine,
      study,
      seconds=10,
      holder=holder,
      clock=lambda: self.time,
      started=self.alive.get,
    )


@pytest.fixture
def machines(tmp_path):
  return Machines(tmp_path / "a.db")


def test_one_of_several_gets_a_trial(machines):
  one, two = machines.process("a", 1), machines.process("a", 2)
  assert one.claim(0)
  assert not two.claim(0)
  assert two.claim(1)
  assert (one.beat(), two.beat()) == ({0}, {1})
  assert machines.process("a", 3, study="another").claim(0)


def test_what_was_given_back_is_free(machines):
  one, two = machines.process("a", 1), machines.process("b", 2)
  assert one.claim(0)
  two.release(0)  # it is not theirs to give back
  assert one.beat() == {0}
  one.release(0)
  assert two.claim(0)


def test_a_dead_process_of_this_machine_loses_its_trial_at_once(machines):
  one, two = machines.process("a", 1), machines.process("a", 2)
  assert one.claim(0)
  assert two.other_pids() == [1]
  del machines.alive[1]
  assert two.other_pids() == []
  assert two.claim(0)
  assert not machines.process("a", 3).claim(0)


def test_reused_process_number_does_not_keep_a_lease(machines):
  one, two = machines.process("a", 1), machines.process("a", 2)
  assert one.claim(0)
  machines.alive[1] = "started later"
  assert two.claim(0)


def test_silent_process_of_another_machine_loses_its_trial(machines):
  one, two = machines.process("a", 1), machines.process("b", 2)
  assert one.claim(0)
  assert not two.claim(0)
  machines.time = 9
  assert not two.claim(0)
  one.beat()
  machines.time = 18
  assert not two.claim(0)  # it was heard of in between
  machines.time = 28
  assert two.claim(0)
  assert one.beat() == set()  # so it knows


def test_only_one_of_two_processes_gets_a_dead_ones_trial(machines):
  one, two, three = (machines.process("a", pid) for pid in (1, 2, 3))
  assert one.claim(0)
  del machines.alive[1]
  # Both have looked before either acts.
  row = two._row(0)
  two._row = three._row = lambda number: row
  assert [two.claim(0), three.claim(0)] == [True, False]


def test_the_holder_is_this_process():
  here = leases.this_process()
  assert leases.processes.start_time(here.pid) == here.started
  assert leases.this_process().owner != here.owner
  assert leases.processes.start_time(2**22 + 1) is None
  assert dataclasses.replace(here, pid=1) != here
