"""What is in deploy/: manifests that parse, scripts that bash takes, commands that there are."""

import os
import pathlib
import subprocess
import sys

import pytest
import yaml

from tests import declared
from tests.slow import docker_image

ROOT = pathlib.Path(__file__).parents[1]
MANIFESTS = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
SCRIPTS = sorted((ROOT / "deploy/slurm").glob("*.sbatch"))

# What runs the tasks of a step side by side, as srun does, and ends all when one fails.
SRUN = f"""#!{sys.executable}
import os, subprocess, sys
words = sys.argv[1:]
while words[0].startswith("--"):
  words.pop(0)
count = int(os.environ["FAKE_TASKS"])
tasks = [
  subprocess.Popen(words, env=dict(
    os.environ, SLURM_PROCID=str(index), SLURM_LOCALID=str(index), SLURM_STEP_NUM_TASKS=str(count),
    SLURM_STEP_NODELIST="localhost", SLURM_STEP_TASKS_PER_NODE=str(count),
    SLURMD_NODENAME="localhost"))
  for index in range(count)
]
codes = [task.wait() for task in tasks]
sys.exit(max(code if code >= 0 else 128 - code for code in codes))
"""

# What takes the place of python: says what srun and the script have given it, and ends with a code.
PYTHON = """#!/bin/bash
echo "task $SLURM_PROCID of $SLURM_STEP_NUM_TASKS: $*" >> "$FAKE_LOG"
exit "$FAKE_CODE"
"""


def documents(path):
  return [each for each in yaml.safe_load_all(path.read_text()) if each is not None]


def containers(document):
  """All objects in a manifest that have a command."""
  if isinstance(document, dict):
    if "command" in document and "image" in document:
      yield document
    for value in document.values():
      yield from containers(value)
  elif isinstance(document, list):
    for value in document:
      yield from containers(value)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_run_commands_and_flags_that_there_are(path):
  checked = 0
  for container in containers(documents(path)):
    command = container["command"]
    if command[:2] != ["python", "-m"]:
      continue
    known = declared.flags_of(command[2])
    for argument in container["args"]:
      name, _, value = argument.removeprefix("--").partition("=")
      assert name in known, argument
      assert not value.startswith("gin_configs/") or (ROOT / value).exists(), argument
      checked += 1
  assert checked


def test_the_training_s_pods_get_what_the_cluster_needs():
  [jobset] = [each for each in documents(MANIFESTS[-1]) if each["kind"] == "JobSet"]
  job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
  [worker] = job["template"]["spec"]["containers"]
  assert job["completionMode"] == "Indexed"  # which sets JOB_COMPLETION_INDEX
  assert job["parallelism"] == job["completions"]  # jax takes the first for the number of workers
  assert f"--cluster=kubernetes:{worker['ports'][0]['containerPort']}" in worker["args"]
  [role] = [each for each in documents(MANIFESTS[-1]) if each["kind"] == "Role"]
  allowed = {
    (name, verb) for rule in role["rules"] for name in rule["resources"] for verb in rule["verbs"]
  }
  assert {("pods", "list"), ("services", "list"), ("jobs", "get")} <= allowed


@pytest.mark.long
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid(path):
  validate = pytest.importorskip("kubernetes_validate")
  for document in documents(path):
    if document["kind"] != "JobSet":  # which is none of Kubernetes' own
      validate.validate(document, "1.33", strict=True)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_bash_takes_the_scripts(path):
  subprocess.run(["bash", "-n", path], check=True)


@pytest.mark.parametrize(
  ("code", "restarts", "queued"),
  [(0, 0, False), (75, 0, True), (1, 0, False), (137, 0, True), (75, 20, False)],
)
def test_slurm_script_starts_tasks_and_requeues_resumable_jobs(tmp_path, code, restarts, queued):
  log = tmp_path / "log"
  for name, text in (
    ("srun", SRUN),
    ("python", PYTHON),
    ("scontrol", '#!/bin/bash\necho "scontrol $*" >> "$FAKE_LOG"\n'),
  ):
    (tmp_path / name).write_text(text)
    (tmp_path / name).chmod(0o755)
  environment = {
    "PATH": f"{tmp_path}:{os.environ['PATH']}",
    "FAKE_TASKS": "3",
    "FAKE_LOG": str(log),
    "FAKE_CODE": str(code),
    "SLURM_JOB_ID": "7",
    "SLURM_RESTART_COUNT": str(restarts),
  }
  script = ROOT / "deploy/slurm/train.sbatch"
  done = subprocess.run(["bash", script, "--gin_file=a b.gin"], env=environment, check=False)
  assert done.returncode == code
  lines = sorted(log.read_text().splitlines())
  assert ("scontrol requeue 7" in lines) == queued
  assert [line for line in lines if line.startswith("task")] == [
    f"task {index} of 3: -m trainer.main --cluster=slurm --gin_file=a b.gin" for index in range(3)
  ]


def test_the_image_has_what_the_manifests_need():
  steps = docker_image.instructions(docker_image.DOCKERFILE.read_text())
  values = dict(words.split("=", 1) for name, words in steps if name == "ARG")
  extras = set(values["EXTRAS"].split(","))
  assert extras <= set(declared.arguments()["extras_require"])
  assert {"cpu", "pjrt", "kubernetes", "sweep"} <= extras
  [user] = [words for name, words in steps if name == "USER"]
  assert user.isdigit()  # Kubernetes cannot tell of a name that it is not root's
  assert int(user) > 0
  for path in MANIFESTS:
    for pod in pods(documents(path)):
      images = [each["image"] for each in pod["containers"]]
      if "octet:latest" in images:
        assert pod["securityContext"] == {"runAsNonRoot": True, "fsGroup": int(user)}, path
  assert "-t octet:latest .\n" in docker_image.DOCKERFILE.read_text()


def test_the_image_has_no_more_of_the_clone_than_it_installs():
  names = {str(path) for path in docker_image.context_files()}
  assert {"setup.py", "trainer/main.py", "gin_configs/digits.gin"} <= names
  assert "octet_trainer/__init__.py" in names
  assert not [name for name in names if name.startswith(("tests/", "docs/", "out/", ".git"))]


def pods(document):
  """All objects in a manifest that have containers."""
  if isinstance(document, dict):
    if "containers" in document:
      yield document
    for value in document.values():
      yield from pods(value)
  elif isinstance(document, list):
    for value in document:
      yield from pods(value)
