"""Clusters by name: Slurm, Kubernetes and Compute Engine, by stand-ins for what each says."""

import datetime
import types
import urllib.error

import pytest

from trainer import errors
from trainer.devices import cluster, resolvers


@pytest.fixture(autouse=True)
def _an_environment_that_tells_of_nothing(monkeypatch):
  for name in ("TF_CONFIG", "JOB_NAME", "WORKERS", "JOB_COMPLETION_INDEX"):
    monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", ["mpi", "slurm:", "slurm:x", "slurm9", ":9", "TF_CONFIG"])
def test_names_that_there_are_not(name, monkeypatch):
  with pytest.raises(errors.SettingError, match=f"--cluster={name}: expected one of tf_config"):
    cluster.find(name)


def test_tf_config_by_name_must_be_there(monkeypatch):
  with pytest.raises(errors.SettingError, match="the environment has no TF_CONFIG"):
    cluster.find("tf_config")
  with pytest.raises(errors.SettingError, match="TF_CONFIG names the ports itself"):
    cluster.find("tf_config:9")


def in_slurm(monkeypatch, **variables):
  for name, value in variables.items():
    monkeypatch.setenv(name, str(value))


def test_slurm(monkeypatch):
  in_slurm(
    monkeypatch,
    SLURM_JOB_ID=1012,
    SLURM_PROCID=2,
    SLURM_STEP_NUM_TASKS=3,
    SLURM_STEP_NODELIST="gpu[01-02]",
    SLURM_STEP_TASKS_PER_NODE="2,1",
    SLURMD_NODENAME="gpu02",
    SLURM_LOCALID=0,
  )
  found = cluster.find("slurm")
  assert found.addresses == ("gpu01:20120", "gpu01:20121", "gpu02:20120")
  assert found.number == 2
  assert cluster.find("slurm:9000").addresses[0] == "gpu01:9000"


def test_slurm_s_order_of_nodes_is_not_that_of_their_names(monkeypatch):
  """TensorFlow's resolver has node10 before node9: task 0, which runs on node9, is its second."""
  in_slurm(
    monkeypatch,
    SLURM_JOB_ID=1,
    SLURM_PROCID=0,
    SLURM_STEP_NUM_TASKS=2,
    SLURM_STEP_NODELIST="node[9-10]",
    SLURM_STEP_TASKS_PER_NODE="1(x2)",
    SLURMD_NODENAME="node9",
    SLURM_LOCALID=0,
  )
  found = cluster.find("slurm")
  assert found.addresses[found.number] == "node9:20010"


def test_slurm_without_srun():
  with pytest.raises(errors.SettingError, match=r"SLURM_STEP_TASKS_PER_NODE: start .* with srun"):
    cluster.find("slurm")


def pod(index, ip, phase="Running", age=0, deleted=False):
  now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
  return types.SimpleNamespace(
    metadata=types.SimpleNamespace(
      name=f"train-{index}-{ip}",
      annotations={"batch.kubernetes.io/job-completion-index": str(index)},
      creation_timestamp=now - datetime.timedelta(seconds=age),
      deletion_timestamp=now if deleted else None,
    ),
    status=types.SimpleNamespace(phase=phase, pod_ip=ip, host_ip="192.168.0.1"),
  )


class FakeApi:
  """What is used of kubernetes.client.CoreV1Api: each call returns the next list of pods."""

  def __init__(self, *lists):
    self.lists, self.asked = list(lists), []

  def list_namespaced_pod(self, namespace, label_selector):
    self.asked.append((namespace, label_selector))
    return types.SimpleNamespace(items=self.lists.pop(0) if self.lists[1:] else self.lists[0])


def in_kubernetes(monkeypatch, api, count):
  for name, value in {"JOB_NAME": "train", "JOB_COMPLETION_INDEX": "1", "WORKERS": count}.items():
    monkeypatch.setenv(name, str(value))
  monkeypatch.setattr(resolvers, "_kubernetes_api", lambda: api)
  monkeypatch.setattr(resolvers, "_namespace", lambda: "mine")
  monkeypatch.setattr(resolvers, "_LOOK_SECONDS", 0)


def test_kubernetes_waits_for_the_pods_of_its_job(monkeypatch, caplog):
  twelve = [pod(index, f"10.0.0.{index}") for index in (10, 11, *range(10))]
  before = [pod(0, "10.0.1.0", age=60, deleted=True), pod(3, "10.0.1.3", phase="Failed", age=60)]
  api = FakeApi(twelve[:5], [*before, *twelve])
  in_kubernetes(monkeypatch, api, 12)
  with caplog.at_level("INFO", logger="absl"):
    found = cluster.find("kubernetes")
  assert found.addresses == tuple(f"10.0.0.{index}:8470" for index in range(12))
  assert found.number == 1
  assert api.asked == [("mine", "job-name=train")] * 2
  assert "waiting for pods [3, 4, 5, 6, 7, 8, 9] of the job train" in caplog.text


def test_kubernetes_does_not_wait_for_ever(monkeypatch):
  in_kubernetes(monkeypatch, FakeApi([pod(0, "10.0.0.1"), pod(1, None, phase="Pending")]), 2)
  with pytest.raises(errors.WorkerLostError, match=r"pods \[1\] of the job train were not running"):
    cluster.find("kubernetes", timeout=0)


def test_kubernetes_needs_what_the_manifest_sets(monkeypatch):
  monkeypatch.setenv("JOB_NAME", "train")
  with pytest.raises(errors.SettingError, match="no JOB_COMPLETION_INDEX and no WORKERS; deploy"):
    cluster.find("kubernetes")


class FakeCompute:
  """What is used of the Compute API's client."""

  def __init__(self, size, *ips):
    self.size, self.ips = size, ips

  def answer(self, value):
    return types.SimpleNamespace(execute=lambda: value)

  def instanceGroupManagers(self):
    assert_called = lambda project, zone, instanceGroupManager: self.answer(
      {"targetSize": self.size}
    )
    return types.SimpleNamespace(get=assert_called)

  def instanceGroups(self):
    names = {"items": [{"instance": f"zones/z/instances/{ip}"} for ip in self.ips]}
    return types.SimpleNamespace(
      listInstances=lambda **_: self.answer(names), listInstances_next=lambda **_: None
    )

  def instances(self):
    return types.SimpleNamespace(
      get=lambda project, zone, instance: self.answer(
        {"networkInterfaces": [{"networkIP": instance}]}
      )
    )


def on_compute_engine(monkeypatch, service, own="10.0.0.2", group="projects/1/zones/z/iGM/train"):
  values = {"network-interfaces/0/ip": own, "attributes/created-by": group}
  monkeypatch.setattr(resolvers, "_metadata", values.__getitem__)
  monkeypatch.setattr(resolvers, "_compute_service", lambda: service)


def test_compute_engine(monkeypatch):
  on_compute_engine(monkeypatch, FakeCompute(3, "10.0.0.3", "10.0.0.1", "10.0.0.2"))
  found = cluster.find("gce")
  assert found.addresses == ("10.0.0.1:8470", "10.0.0.2:8470", "10.0.0.3:8470")
  assert found.number == 1


def test_compute_engine_with_machines_that_are_not_there(monkeypatch):
  on_compute_engine(monkeypatch, FakeCompute(3, "10.0.0.2"))
  with pytest.raises(errors.WorkerLostError, match="2 of the 3 machines of train were not running"):
    cluster.find("gce", timeout=0)
  on_compute_engine(monkeypatch, FakeCompute(1, "10.0.0.9"))
  with pytest.raises(errors.SettingError, match=r"does not have this machine \(10.0.0.2\)"):
    cluster.find("gce")
  on_compute_engine(monkeypatch, FakeCompute(1), group="somebody")
  with pytest.raises(errors.SettingError, match="belongs to no managed instance group"):
    cluster.find("gce")


def test_elsewhere_than_on_compute_engine(monkeypatch):
  def refuse(*_, **__):
    raise urllib.error.URLError("no such host")

  monkeypatch.setattr(resolvers.urllib.request, "urlopen", refuse)
  with pytest.raises(errors.SettingError, match="this is no machine of Google Compute Engine"):
    cluster.find("gce")
