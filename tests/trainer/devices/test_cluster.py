"""Clusters by name: who trains together, or one sentence on what cannot be right."""

import json
import os
import sys
import types

import pytest

from trainer import errors
from trainer.devices import cluster


@pytest.fixture(autouse=True)
def _an_environment_that_tells_of_nothing(monkeypatch):
  for name in os.environ:
    if name.startswith(("TF_CONFIG", "SLURM", "KUBERNETES", "JOB_", "TPU_", "MEGASCALE")):
      monkeypatch.delenv(name)


def of(jobs, **task):
  return cluster.from_tf_config(json.dumps({"cluster": jobs, "task": task}))


def test_no_name_and_no_tf_config_is_no_cluster():
  assert cluster.find() is None


@pytest.mark.parametrize("name", ["", "tf_config"])
def test_tf_config(name, monkeypatch):
  config = {"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
  monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  found = cluster.find(name)
  assert (found.addresses, found.number, found.has_others) == (("a:1", "b:2"), 1, True)


def test_workers_are_counted_chief_first():
  jobs = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]}
  assert of(jobs, type="chief", index=0).number == 0
  found = of(jobs, type="worker", index=1)
  assert (found.number, found.role, found.has_evaluator) == (2, "worker", True)
  assert found.addresses == ("a:1", "b:1", "c:1")


def test_a_chief_by_its_older_name():
  found = of({"master": ["a:1"], "worker": ["b:1"]}, type="master", index=0)
  assert (found.role, found.number, found.addresses) == ("chief", 0, ("a:1", "b:1"))


def test_an_evaluator_works_alone():
  found = of({"worker": ["b:1", "c:1"]}, type="evaluator", index=0)
  assert (found.role, found.has_others, found.has_evaluator) == ("evaluator", False, True)


@pytest.mark.parametrize(
  ("jobs", "task", "sentence"),
  [
    (
      {"worker": ["a:1", "a:1"]},
      {"type": "worker"},
      "worker 0 and worker 1 have the same address a:1",
    ),
    (
      {"chief": ["a:1"], "worker": ["b:1", "a:1"]},
      {"type": "chief"},
      "chief 0 and worker 1 have the same address a:1",
    ),
    ({"worker": ["a:1", ""]}, {"type": "worker"}, "the address of worker 1 is missing"),
    (
      {"worker": {"0": "a:1", "2": "c:1"}},
      {"type": "worker"},
      "the address of worker 1 is missing",
    ),
    ({"worker": ["a:1", "b"]}, {"type": "worker"}, "the address of worker 1 is 'b'"),
    ({"chief": ["a:1", "b:1"]}, {"type": "chief"}, "TF_CONFIG has 2 chiefs; expected one"),
    ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": 2}, "the task is worker 2, and the"),
    ({"worker": ["a:1", "b:1"]}, {"type": "worker", "index": -1}, "the task is worker -1, and the"),
    ({"chief": ["a:1"], "ps": ["b:1"]}, {"type": "ps"}, "Octet has none: each worker holds"),
    ({"worker": ["a:1"]}, {"type": "boss"}, "the task type 'boss'; expected 'chief', 'worker' or"),
    ({}, {"type": "wrker"}, "the task type 'wrker'"),
    ({"worker": ["a:1", "b:1"]}, {}, "but not which of them this process is"),
  ],
)
def test_a_cluster_that_contradicts_itself_is_one_sentence(jobs, task, sentence):
  with pytest.raises(errors.SettingError, match=sentence):
    of(jobs, **task)


@pytest.mark.parametrize(
  "text", ["{", "[]", '"cluster"', '{"cluster": {"worker": 3}}', '{"task": {"index": "first"}}']
)
def test_a_tf_config_that_cannot_be_read(text):
  with pytest.raises(errors.SettingError, match="Cannot read the environment variable TF_CONFIG"):
    cluster.from_tf_config(text)


@pytest.mark.parametrize("name", ["mpi", "gce", "slurm:", "slurm:x", "slurm9", ":9", "TF_CONFIG"])
def test_names_that_there_are_not(name):
  expected = f"--cluster={name}: expected one of tf_config, slurm, kubernetes, tpu, each with :PORT"
  with pytest.raises(errors.SettingError, match=expected):
    cluster.find(name)


def test_tf_config_by_name_must_be_there():
  with pytest.raises(errors.SettingError, match="the environment has no TF_CONFIG"):
    cluster.find("tf_config")
  with pytest.raises(errors.SettingError, match="TF_CONFIG names the ports itself"):
    cluster.find("tf_config:9")


# -------------------------------------------------------------- by jax's detection


def set_variables(monkeypatch, **variables):
  pytest.importorskip("jax")
  for name, value in variables.items():
    monkeypatch.setenv(name, str(value))


SLURM = dict(SLURM_NTASKS=3, SLURM_STEP_NODELIST="gpu[01-02]", SLURM_PROCID=2, SLURM_LOCALID=0)


def test_slurm(monkeypatch):
  set_variables(monkeypatch, SLURM_JOB_ID=1012, **SLURM)
  found = cluster.find("slurm")
  assert (found.addresses, found.number) == (("gpu01:62452", "", ""), 2)
  assert (found.source, found.role, found.has_others) == ("--cluster=slurm", "worker", True)
  assert cluster.find("slurm:9000").addresses[0] == "gpu01:9000"


def test_slurm_without_srun():
  pytest.importorskip("jax")
  with pytest.raises(errors.SettingError, match="--cluster=slurm: jax finds none.* with srun"):
    cluster.find("slurm")


class ConfigError(Exception):
  """Stands in for kubernetes.config.ConfigException."""


@pytest.fixture
def pods(monkeypatch):
  """A JobSet's second pod of four; a stand-in for the Kubernetes client."""
  clusters = pytest.importorskip("jax._src.clusters")
  monkeypatch.setattr(clusters.K8sCluster, "_namespace", classmethod(lambda cls: "mine"))
  names = types.SimpleNamespace
  job = names(
    metadata=names(name="train-workers-0", labels={"jobset.sigs.k8s.io/jobset-name": "train"}),
    spec=names(parallelism=4),
  )
  owner = names(controller=True, kind="Job")
  pod = names(
    metadata=names(labels={"job-name": job.metadata.name}, owner_references=[owner]),
    spec=names(subdomain="train"),
  )
  core = names(list_namespaced_pod=lambda namespace, field_selector: names(items=[pod]))
  batch = names(read_namespaced_job=lambda name, namespace: job)
  client = names(
    CoreV1Api=lambda: core, BatchV1Api=lambda: batch, exceptions=names(ApiException=ConfigError)
  )
  package = names(client=client, config=names(load_incluster_config=lambda: None))
  monkeypatch.setitem(sys.modules, "kubernetes", package)
  for name in ("_pod", "_job", "_controller"):  # jax keeps what it has found
    getattr(clusters.K8sCluster, name).__func__.cache_clear()
  variables = dict(KUBERNETES_SERVICE_HOST="10.0.0.1", HOSTNAME="localhost", JOB_COMPLETION_INDEX=1)
  set_variables(monkeypatch, **variables)
  yield package
  for name in ("_pod", "_job", "_controller"):
    getattr(clusters.K8sCluster, name).__func__.cache_clear()


def test_kubernetes(pods):
  found = cluster.find("kubernetes")
  assert (found.addresses, found.number) == (("train-workers-0-0.train:55527", "", "", ""), 1)
  assert cluster.find("kubernetes:8470").addresses[0] == "train-workers-0-0.train:8470"


def test_kubernetes_needs_an_indexed_job(pods, monkeypatch):
  monkeypatch.delenv("JOB_COMPLETION_INDEX")
  with pytest.raises(errors.SettingError, match="--cluster=kubernetes: To enable automatic boot"):
    cluster.find("kubernetes")


def test_kubernetes_outside_of_a_pod(pods, monkeypatch):
  def refuse():
    raise ConfigError("Service host/port is not set.")

  pods.config.load_incluster_config = refuse
  with pytest.raises(errors.SettingError, match="--cluster=kubernetes: Service host/port"):
    cluster.find("kubernetes")
  monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
  with pytest.raises(errors.SettingError, match="--cluster=kubernetes: jax finds none"):
    cluster.find("kubernetes")


def test_tpu_slice(monkeypatch):
  set_variables(monkeypatch, TPU_WORKER_HOSTNAMES="localhost,127.0.0.2", TPU_WORKER_ID=1)
  module = pytest.importorskip("jax._src.clusters.cloud_tpu_cluster")
  monkeypatch.setattr(module, "running_in_cloud_tpu_vm", True)
  monkeypatch.setattr(module, "get_tpu_env_value", os.environ.get)
  found = cluster.find("tpu")
  assert (found.addresses, found.number) == (("localhost:8482", ""), 1)
