"""The processes of a run on several machines: their addresses, and which one this process is.

    cluster = find("slurm")        # or "": TF_CONFIG, if set
    cluster.addresses              # ("node1:61440", "", ""), the coordinator's first
    cluster.number                 # 1

| name       | source                                                                            |
|------------|-----------------------------------------------------------------------------------|
| tf_config  | the environment variable TF_CONFIG; the default if it is set                       |
| slurm      | jax's detection: the variables of srun                                             |
| kubernetes | jax's detection: this pod's Indexed Job, in a JobSet or with a headless service     |
| tpu        | jax's detection: the hosts of this TPU slice, from their variables or metadata      |

A port may follow the name, as in `slurm:9000`; TF_CONFIG has its own.
"""

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainer import errors
from trainer.cli import installation
from trainer.pjrt import installed

# jax's names of its detections. The detection of Kubernetes has none, but its class has.
_DETECTIONS = {
  "slurm": ("SlurmCluster",),
  "kubernetes": ("K8sCluster",),
  "tpu": ("GkeTpuCluster", "GceTpuCluster"),
}
NAMES = ("tf_config", *_DETECTIONS)

_ADDRESS = re.compile(r".+:\d+")
_TASK = '"task": {"type": "worker", "index": 0}'


@dataclasses.dataclass(frozen=True)
class Cluster:
  """A consistent cluster.

  Attributes:
    source: the source, for messages: "TF_CONFIG" or "--cluster=slurm".
    addresses: "host:port" of the processes that train together, the coordinator's first; "" where
      only the process itself knows its address.
    number: the index of this process in `addresses`; 0 for an evaluator, which works alone.
    role: this process's job: "chief", "worker" or "evaluator".
    has_evaluator: whether the cluster has an evaluator, which is not a worker.
  """

  source: str
  addresses: tuple[str, ...] = ()
  number: int = 0
  role: str = "chief"
  has_evaluator: bool = False

  @property
  def has_others(self) -> bool:
    """Whether this process trains together with others."""
    return self.role != "evaluator" and len(self.addresses) > 1


def find(name: str = "", timeout: float = 600.0) -> Cluster | None:
  """Finds the cluster of this process.

  Args:
    name: see the table above; "" for TF_CONFIG, if set.
    timeout: seconds to wait for the name of the first host.

  Returns:
    The cluster; None if `name` is "" and there is no TF_CONFIG.

  Raises:
    SettingError: the name is unknown, or the description of the cluster is inconsistent.
    VersionError: jax is missing, which detects Slurm, Kubernetes and TPUs.
  """
  tf_config = os.environ.get("TF_CONFIG", "")
  if not name and not tf_config:
    return None
  kind, _, port = name.partition(":")
  if name and (kind not in NAMES or not re.fullmatch(r"(:\d{1,5})?", name[len(kind) :])):
    raise errors.SettingError(
      f"--cluster={name}: expected one of {', '.join(NAMES)}, each with :PORT for another port."
    )
  if kind in _DETECTIONS:
    return _detect(name, kind, port, timeout)
  if port or not tf_config:
    raise errors.SettingError(
      f"--cluster={name}: "
      + ("TF_CONFIG names the ports itself." if port else "the environment has no TF_CONFIG.")
    )
  return from_tf_config(tf_config)


def _detect(name, kind, port, timeout):
  """Returns the cluster that jax detects."""
  installed.require()
  from trainer.pjrt import jaxlib_internals  # This imports jax.

  try:
    found = jaxlib_internals.detect_hosts(_DETECTIONS[kind], port or None, int(timeout))
  except Exception as error:  # jax asks by packages that have errors of their own.
    raise errors.SettingError(f"--cluster={name}: {errors.first_line(error)}.") from error
  if found is None:
    raise errors.SettingError(
      f"--cluster={name}: jax finds none. Slurm: start the command with srun. Kubernetes: in a "
      f"pod, with {installation.command('kubernetes')}. TPU: on each host of the slice."
    )
  coordinator, count, number = found
  return Cluster(f"--cluster={name}", (coordinator, *[""] * (count - 1)), number, "worker")


def from_tf_config(text: str) -> Cluster:
  """Reads the value of TF_CONFIG.

  Raises:
    SettingError: the value is unreadable or inconsistent.
  """
  try:
    config = json.loads(text)
    cluster, task = config.get("cluster", {}), config.get("task", {})
    older = "master" if "master" in cluster else "chief"  # the older name of the chief
    jobs = {job: _tasks(cluster.get(job, ()), job) for job in (older, "worker", "evaluator")}
    role, index = task.get("type"), int(task.get("index", 0))
  except (ValueError, AttributeError, TypeError) as error:
    raise errors.SettingError(
      f"Cannot read the environment variable TF_CONFIG ({error}): {text}"
    ) from error
  chiefs, workers, evaluators = jobs.values()
  role = "chief" if role == "master" else role
  if role == "evaluator":
    return Cluster("TF_CONFIG", role=role, has_evaluator=True)
  if problem := _problem(chiefs, workers, role, index):
    raise errors.SettingError(f"TF_CONFIG {problem}.")
  if role is None or not (chiefs or workers):  # it trains alone
    return Cluster("TF_CONFIG", has_evaluator=bool(evaluators))
  number = index + len(chiefs) if role == "worker" else index
  return Cluster("TF_CONFIG", (*chiefs, *workers), number, role, bool(evaluators))


def _tasks(given: Any, job: str) -> list[Any]:
  """Returns the addresses of a job, given as a list or by index."""
  if isinstance(given, Mapping):
    by_index = {int(index): address for index, address in given.items()}
    given = [by_index.get(index) for index in range(max(by_index, default=-1) + 1)]
  if not isinstance(given, Sequence) or isinstance(given, str):
    raise ValueError(f"{job} is no list of addresses")
  return list(given)


def _problem(chiefs, workers, role, index):
  """Returns what is wrong with a task and its cluster, as the rest of a sentence; or ""."""
  if role == "ps":
    return (
      "makes this process a parameter server (ps); Octet has none: each worker holds all "
      "variables. Start the chief and the workers alone"
    )
  if role not in (None, "chief", "worker"):
    return f"has the task type {role!r}; expected 'chief', 'worker' or 'evaluator', as in {_TASK}"
  if role is None and len(chiefs) + len(workers) > 1:
    return f"describes several workers, but not which of them this process is: add {_TASK}"
  if len(chiefs) > 1:
    return f"has {len(chiefs)} chiefs; expected one"
  tasks = [f"chief {number}" for number in range(len(chiefs))]
  tasks += [f"worker {number}" for number in range(len(workers))]
  seen: dict[str, str] = {}
  for task, address in zip(tasks, chiefs + workers, strict=True):
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
      missing = "is missing" if address in (None, "") else f"is {address!r}"
      return f"is wrong: the address of {task} {missing}; expected host:port for each worker"
    if address in seen:
      return f"is wrong: {seen[address]} and {task} have the same address {address}"
    seen[address] = task
  count = len(chiefs if role == "chief" else workers)
  if role and seen and not 0 <= index < count:
    return f"is wrong: the task is {role} {index}, and the cluster has {count} of that type"
  return ""
