"""The processes of a run on several machines: their addresses, and which one this process is.

    cluster = find("slurm")        # or "": TF_CONFIG, if set
    cluster.addresses              # ("node1:20120", "node2:20120"), the chief's first
    cluster.number                 # 1

| name       | source                                                                   |
|------------|--------------------------------------------------------------------------|
| tf_config  | the environment variable TF_CONFIG; the default if it is set              |
| slurm      | the variables of srun                                                     |
| kubernetes | the pods of this pod's Indexed Job, or of its JobSet's job                |
| gce        | the running machines of this machine's managed instance group             |

A port may follow the name, as in `slurm:9000`; TF_CONFIG has its own. See
`trainer.devices.resolvers`.
"""

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainer import errors
from trainer.devices import resolvers

NAMES = ("tf_config", "slurm", "kubernetes", "gce")

_ADDRESS = re.compile(r".+:\d+")


@dataclasses.dataclass(frozen=True)
class Cluster:
  """A consistent cluster.

  Attributes:
    source: the source, for messages: "TF_CONFIG" or "--cluster=slurm".
    jobs: job ("chief", "worker") → the addresses of its tasks, "host:port". Pairs, because they
      must be hashable.
    role: this process's job: "chief", "worker" or "evaluator".
    index: the number of this process in its job.
    has_evaluator: whether the cluster has an evaluator, which is not a worker.
  """

  source: str
  jobs: tuple[tuple[str, tuple[str, ...]], ...] = ()
  role: str = "chief"
  index: int = 0
  has_evaluator: bool = False

  @property
  def addresses(self) -> tuple[str, ...]:
    """The addresses of the processes that train together, the chief's first."""
    return tuple(address for _, addresses in self.jobs for address in addresses)

  @property
  def number(self) -> int:
    """The index of this process in `addresses`; 0 for an evaluator, which works alone."""
    chiefs = len(dict(self.jobs).get("chief", ()))
    return self.index + (chiefs if self.role == "worker" else 0)

  @property
  def has_others(self) -> bool:
    """Whether this process trains together with others."""
    return self.role != "evaluator" and len(self.addresses) > 1

  def describe(self, number: int) -> str:
    """Returns "worker 2 (c:2222)"."""
    return f"worker {number} ({self.addresses[number]})"


def find(name: str = "", timeout: float = 600.0) -> Cluster | None:
  """Finds the cluster of this process.

  Args:
    name: see the table above; "" for TF_CONFIG, if set.
    timeout: seconds to wait for missing machines.

  Returns:
    The cluster; None if `name` is "" and there is no TF_CONFIG.

  Raises:
    SettingError: the name is unknown, or the description of the cluster is inconsistent.
    WorkerLostError: machines were missing after the timeout.
  """
  tf_config = os.environ.get("TF_CONFIG", "")
  if not name and not tf_config:
    return None
  kind, _, port = name.partition(":")
  if name and (kind not in NAMES or not re.fullmatch(r"(:\d{1,5})?", name[len(kind) :])):
    raise errors.SettingError(
      f"--cluster={name}: expected one of {', '.join(NAMES)}, each with :PORT for another port."
    )
  if kind in ("", "tf_config"):
    if port or not tf_config:
      raise errors.SettingError(
        f"--cluster={name}: "
        + ("TF_CONFIG names the ports itself." if port else "the environment has no TF_CONFIG.")
      )
    return from_tf_config(tf_config)
  resolved = resolvers.RESOLVERS[kind](int(port) if port else None, timeout)
  return _checked(f"--cluster={name}", {"worker": resolved.addresses}, "worker", resolved.index)


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
    jobs = {
      job: _tasks(cluster[job], job) for job in ("chief", "worker", "evaluator") if job in cluster
    }
    role, index = task.get("type"), int(task.get("index", 0))
    role = "chief" if role == "master" else role
  except (ValueError, AttributeError, TypeError) as error:
    if isinstance(error, errors.OctetError):
      raise
    raise errors.SettingError(
      f"Cannot read the environment variable TF_CONFIG ({error}): {text}"
    ) from error
  has_evaluator = bool(jobs.pop("evaluator", ()))
  if role == "evaluator":
    return Cluster("TF_CONFIG", (), role, 0, has_evaluator=True)
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
  return _checked("TF_CONFIG", jobs, role, index, has_evaluator)


def _tasks(given: Any, job: str) -> list[str]:
  """Returns the addresses of a job, given as a list or by index."""
  if isinstance(given, Mapping):
    by_index = {int(index): address for index, address in given.items()}
    given = [by_index.get(index) for index in range(max(by_index, default=-1) + 1)]
  if not isinstance(given, Sequence) or isinstance(given, str):
    raise ValueError(f"{job} is no list of addresses")
  return list(given)


def _checked(
  source: str, jobs: Mapping[str, Sequence[Any]], role: str, index: int, has_evaluator: bool = False
) -> Cluster:
  """The Cluster; SettingError if a worker is missing in it, or is there twice."""
  if len(jobs.get("chief", ())) > 1:
    raise errors.SettingError(f"{source} has {len(jobs['chief'])} chiefs; expected one.")
  seen: dict[str, str] = {}
  for job in ("chief", "worker"):
    for number, address in enumerate(jobs.get(job, ())):
      task = f"{job} {number}"
      if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        missing = "is missing" if address in (None, "") else f"is {address!r}"
        raise errors.SettingError(
          f"{source}: the address of {task} {missing}; expected host:port for each worker."
        )
      if address in seen:
        raise errors.SettingError(
          f"{source}: {seen[address]} and {task} have the same address {address}; expected two."
        )
      seen[address] = task
  if not 0 <= index < len(jobs.get(role, ())):
    raise errors.SettingError(
      f"{source}: the task is {role} {index}, and the cluster has {len(jobs.get(role, ()))} of "
      "that type."
    )
  pairs = tuple((job, tuple(jobs[job])) for job in ("chief", "worker") if jobs.get(job))
  return Cluster(source, pairs, role, index, has_evaluator)
