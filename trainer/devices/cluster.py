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
    cluster, task = dict(config.get("cluster", {})), config.get("task", {})
    if "master" in cluster:  # the older name of the chief
      cluster.setdefault("chief", cluster.pop("master"))
    jobs = {job: _tasks(cluster.get(job, ()), job) for job in ("chief", "worker", "evaluator")}
    role, index = task.get("type"), int(task.get("index", 0))
    role = "chief" if role == "master" else role
  except (ValueError, AttributeError, TypeError) as error:
    raise errors.SettingError(
      f"Cannot read the environment variable TF_CONFIG ({error}): {text}"
    ) from error
  has_evaluator = bool(jobs.pop("evaluator"))
  if role == "evaluator":
    return Cluster("TF_CONFIG", role=role, has_evaluator=True)
  if role == "ps":
    raise errors.SettingError(
      "TF_CONFIG makes this process a parameter server (ps); Octet has none: each worker holds all "
      "variables. Start the chief and the workers alone."
    )
  if role not in (None, "chief", "worker"):
    raise errors.SettingError(
      f"TF_CONFIG has the task type {role!r}; expected 'chief', 'worker' or 'evaluator', as in "
      '"task": {"type": "worker", "index": 0}.'
    )
  if role is None and sum(map(len, jobs.values())) > 1:
    raise errors.SettingError(
      'TF_CONFIG describes several workers, but not which of them this process is: add "task": '
      '{"type": "worker", "index": 0}.'
    )
  if role is None or not any(jobs.values()):  # it trains alone
    return Cluster("TF_CONFIG", has_evaluator=has_evaluator)
  _check(jobs, role, index)
  number = index + (len(jobs["chief"]) if role == "worker" else 0)
  return Cluster("TF_CONFIG", (*jobs["chief"], *jobs["worker"]), number, role, has_evaluator)


def _tasks(given: Any, job: str) -> list[Any]:
  """Returns the addresses of a job, given as a list or by index."""
  if isinstance(given, Mapping):
    by_index = {int(index): address for index, address in given.items()}
    given = [by_index.get(index) for index in range(max(by_index, default=-1) + 1)]
  if not isinstance(given, Sequence) or isinstance(given, str):
    raise ValueError(f"{job} is no list of addresses")
  return list(given)


def _check(jobs: Mapping[str, Sequence[Any]], role: str, index: int) -> None:
  """Raises SettingError if a worker is missing, or is there twice."""
  if len(jobs["chief"]) > 1:
    raise errors.SettingError(f"TF_CONFIG has {len(jobs['chief'])} chiefs; expected one.")
  seen: dict[str, str] = {}
  for job, addresses in jobs.items():
    for number, address in enumerate(addresses):
      task = f"{job} {number}"
      if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        missing = "is missing" if address in (None, "") else f"is {address!r}"
        raise errors.SettingError(
          f"TF_CONFIG: the address of {task} {missing}; expected host:port for each worker."
        )
      if address in seen:
        raise errors.SettingError(
          f"TF_CONFIG: {seen[address]} and {task} have the same address {address}; expected two."
        )
      seen[address] = task
  if not 0 <= index < len(jobs[role]):
    raise errors.SettingError(
      f"TF_CONFIG: the task is {role} {index}, and the cluster has {len(jobs[role])} of that type."
    )
