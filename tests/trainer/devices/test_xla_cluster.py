"""Workers that join a cluster of XLA devices: what they tell each other, and failures."""

import atexit
import os
import types

import pytest

from trainer import errors
from trainer.devices import rendezvous, xla_cluster
from trainer.pjrt import devices, installed


class Link:
  """A link to the other workers."""

  def __init__(self):
    self.left, self.is_lost = [], False
    self.exchange = object()

  def leave(self, why):
    self.left.append(why)

  def lost(self):
    return self.is_lost


@pytest.fixture
def joined(monkeypatch):
  """Returns (link, the calls) of a worker; connects to these devices."""
  link, calls = Link(), {}

  def gather(cluster, facts, timeout):
    calls.update(facts=facts, timeout=timeout)
    return link

  def connect(platform, count, hosts):
    calls.update(platform=platform, count=count, hosts=hosts)
    if isinstance(calls["found"], Exception):
      raise calls["found"]
    return types.SimpleNamespace(local=[0] * calls["found"][0], count=calls["found"][1])

  monkeypatch.setattr(installed, "require", lambda platform: {"jax": "0.9"})
  monkeypatch.setattr(rendezvous, "gather", gather)
  monkeypatch.setattr(devices, "connect", connect)
  monkeypatch.setattr(atexit, "register", lambda *call: calls.update(at_exit=call))
  return link, calls


CLUSTER = types.SimpleNamespace(addresses=["a:1", "b:1", "c:1"], number=1, source="TF_CONFIG")


def run(count=2):
  return xla_cluster.connect("cpu", count, CLUSTER, {"seed": "1"}, 9.0)


@pytest.mark.parametrize(("count", "text"), [(2, "2 of cpu"), (None, "all of cpu")])
def test_workers_compare_their_devices_and_versions(joined, count, text):
  link, calls = joined
  calls["found"] = (2, 6)
  connected, found = run(count)
  assert (connected.count, found) == (6, link)
  facts = {"seed": "1", "the XLA devices": text, "the version of jax": "0.9"}
  assert (calls["facts"], calls["timeout"]) == (facts, 9.0)
  hosts = calls["hosts"]
  assert (hosts.coordinator, hosts.count, hosts.number) == ("a:1", 3, 1)
  assert hosts.exchange is link.exchange


def test_a_worker_without_devices_tells_the_others(joined):
  link, calls = joined
  calls["found"] = errors.SettingError("no TPU here.\nMore")
  with pytest.raises(errors.SettingError, match="no TPU"):
    run()
  assert link.left == ["it could not connect: no TPU here"]


def test_all_workers_need_equally_many_devices(joined):
  _, calls = joined
  calls["found"] = (1, 6)
  with pytest.raises(errors.SettingError, match="TF_CONFIG: this worker has 1 of the 6 devices"):
    run()


def test_a_process_that_lost_another_ends_at_once(joined, monkeypatch):
  link, calls = joined
  calls["found"] = (2, 6)
  codes = []
  monkeypatch.setattr(os, "_exit", codes.append)
  run()
  function, *arguments = calls["at_exit"]
  function(*arguments)
  assert codes == []
  link.is_lost = True
  function(*arguments)
  assert codes == [errors.TRY_AGAIN]
