"""Clusters by name: who trains together, or one sentence on what cannot be right."""

import json

import pytest

from trainer import errors
from trainer.devices import cluster


@pytest.fixture(autouse=True)
def _an_environment_that_tells_of_nothing(monkeypatch):
  for name in ("TF_CONFIG", "JOB_NAME", "WORKERS", "JOB_COMPLETION_INDEX"):
    monkeypatch.delenv(name, raising=False)


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
  assert found.describe(1) == "worker 1 (b:2)"


def test_workers_are_counted_chief_first():
  jobs = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"], "evaluator": ["e:1"]}
  assert of(jobs, type="chief", index=0).number == 0
  found = of(jobs, type="worker", index=1)
  assert (found.number, found.role, found.has_evaluator) == (2, "worker", True)
  assert found.addresses == ("a:1", "b:1", "c:1")
  assert found.jobs == (("chief", ("a:1",)), ("worker", ("b:1", "c:1")))


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


# -------------------------------------------------------------- Slurm


# -------------------------------------------------------------- Kubernetes


# -------------------------------------------------------------- Google Compute Engine
