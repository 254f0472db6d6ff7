"""Asks Slurm, Kubernetes or Google Compute Engine for the processes of a cluster.

`--cluster` names one of these functions. For Slurm and Compute Engine it uses TensorFlow's
resolver, and adds values that the system sets and the resolver does not read.
"""

import dataclasses
import os
import pathlib
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import installation

# The port on Kubernetes and Compute Engine without a given port, as in TensorFlow's resolvers.
PORT = 8470

_SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
_METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/"

_LOOK_SECONDS = 2.0
_TELL_SECONDS = 15.0


@dataclasses.dataclass(frozen=True)
class Resolved:
  """The addresses of all workers, "host:port", and the place of this process among them."""

  addresses: tuple[str, ...]
  index: int


def slurm(port: int | None, timeout: float) -> Resolved:
  """Finds the tasks of this Slurm step, from the variables that srun sets.

  Args:
    port: of the first task on each node; None to derive it from the job's number, so that two jobs
      on a node do not collide.
    timeout: unused: Slurm starts a step when all its nodes are ready.

  Raises:
    SettingError: srun did not start this process.
  """
  del timeout
  environment = os.environ
  if port is None:
    port = 20000 + int(environment.get("SLURM_JOB_ID", "0")) % 1000 * 10
  try:
    most = max(
      int(number)
      for number in re.findall(r"(?:^|,)(\d+)", environment["SLURM_STEP_TASKS_PER_NODE"])
    )
    # The resolver would call nvidia-smi for the GPUs, which a node without GPUs lacks, and set the
    # visible ones, which srun has done. It only needs a GPU per task for its count.
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
      port_base=port, gpus_per_node=most, gpus_per_task=1, auto_set_gpu=False
    )
    addresses = resolver.cluster_spec().as_dict()["worker"]
    index = int(environment["SLURM_PROCID"])
  except (KeyError, RuntimeError, ValueError) as error:
    raise errors.SettingError(
      f"--cluster=slurm: {str(error).strip(chr(39))}: start the command with srun. It sets "
      "SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE."
    ) from error
  # The resolver sorts the nodes as text (node10 before node9) and assumes that Slurm numbers tasks
  # node by node. Slurm may number differently, so find this task by its node and its number there.
  node, local = environment.get("SLURMD_NODENAME"), environment.get("SLURM_LOCALID")
  if node and local and f"{node}:{port + int(local)}" in addresses:
    index = addresses.index(f"{node}:{port + int(local)}")
  return Resolved(tuple(addresses), index)


def kubernetes(port: int | None, timeout: float) -> Resolved:
  """Finds the pods of this pod's Indexed Job.

  The pod's template must set JOB_NAME, from the label that the Job controller gives its pods, and
  WORKERS, the number of pods; Kubernetes sets JOB_COMPLETION_INDEX. The pod's service account needs
  permission to list pods. deploy/kubernetes/train.yaml sets all of this.

  Raises:
    SettingError: a variable is missing, or the Kubernetes client.
    WorkerLostError: the pods were not running in time.
  """
  job, index, count = _variables("kubernetes", "JOB_NAME", "JOB_COMPLETION_INDEX", "WORKERS")
  api, namespace = _kubernetes_api(), _namespace()

  def look():
    pods = api.list_namespaced_pod(namespace, label_selector=f"job-name={job}").items
    running = _newest_running(pods)
    missing = sorted(set(range(int(count))) - set(running))
    addresses = [f"{running[number].status.pod_ip}:{port or PORT}" for number in sorted(running)]
    return None if missing else addresses, f"pods {missing} of the job {job}"

  return Resolved(tuple(_wait_for("kubernetes", look, timeout)), int(index))


def gce(port: int | None, timeout: float) -> Resolved:
  """Finds the machines of this machine's managed instance group, of the group's target size.

  Raises:
    SettingError: this is no machine of a managed instance group, or Google's client is missing.
    WorkerLostError: the machines were not running in time.
  """
  own = _metadata("network-interfaces/0/ip")
  try:
    # projects/123/zones/us-central1-a/instanceGroupManagers/train
    parts = _metadata("attributes/created-by").split("/")
    project, zone, group = parts[1], parts[3], parts[5]
  except (IndexError, urllib.error.HTTPError) as error:
    raise errors.SettingError(
      "--cluster=gce: this machine belongs to no managed instance group of one zone."
    ) from error
  service = _compute_service()
  manager = service.instanceGroupManagers().get(
    project=project, zone=zone, instanceGroupManager=group
  )
  count = manager.execute()["targetSize"]
  resolver = tf.distribute.cluster_resolver.GCEClusterResolver(
    project, zone, group, port or PORT, service=service
  )

  def look():
    addresses = resolver.cluster_spec().as_dict().get("worker", [])
    left = count - len(addresses)
    return None if left > 0 else addresses, f"{left} of the {count} machines of {group}"

  addresses = _wait_for("gce", look, timeout)
  if f"{own}:{port or PORT}" not in addresses:
    raise errors.SettingError(
      f"--cluster=gce: the instance group {group} does not have this machine ({own}), but "
      f"{', '.join(addresses)}."
    )
  return Resolved(tuple(addresses), addresses.index(f"{own}:{port or PORT}"))


RESOLVERS: dict[str, Callable[[int | None, float], Resolved]] = {
  "slurm": slurm,
  "kubernetes": kubernetes,
  "gce": gce,
}


def _variables(name, *variables):
  missing = [variable for variable in variables if not os.environ.get(variable)]
  if missing:
    raise errors.SettingError(
      f"--cluster={name}: the environment has no {' and no '.join(missing)}; "
      f"deploy/{name}/train.yaml shows how to set it."
    )
  return [os.environ[variable] for variable in variables]


def _wait_for(name, look, timeout, clock=time.monotonic, sleep=time.sleep):
  """Calls look() until it returns a result; WorkerLostError after `timeout` seconds."""
  start, told = clock(), float("-inf")
  while True:
    found, missing = look()
    if found is not None:
      return found
    if clock() - start > timeout:
      raise errors.WorkerLostError(
        f"--cluster={name}: {missing} were not running within {timeout:g} s "
        "(RunConfig.cluster_timeout_secs). Start them again."
      )
    if clock() - told > _TELL_SECONDS:
      told = clock()
      logging.info("--cluster=%s: waiting for %s.", name, missing)
    sleep(_LOOK_SECONDS)


# TensorFlow's Kubernetes resolver lists pods of all namespaces, fails for a pod that does not run
# yet, sorts them by name (pod 10 before pod 2) and uses the address of the node.
def _newest_running(pods):
  """Returns completion index → the newest pod that runs and is not about to end."""
  return {
    int(pod.metadata.annotations["batch.kubernetes.io/job-completion-index"]): pod
    for pod in sorted(pods, key=lambda pod: pod.metadata.creation_timestamp)
    if pod.status.phase == "Running" and pod.status.pod_ip and not pod.metadata.deletion_timestamp
  }


def _kubernetes_api():
  try:
    import kubernetes as client_package
  except ImportError as error:
    raise errors.SettingError(
      f"--cluster=kubernetes needs the Kubernetes client: {installation.command('kubernetes')}."
    ) from error
  try:
    client_package.config.load_incluster_config()
  except client_package.config.ConfigException as error:
    raise errors.SettingError(
      f"--cluster=kubernetes: this process runs in no pod ({error})."
    ) from error
  return client_package.client.CoreV1Api()


def _namespace():
  return (_SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()


def _metadata(path):
  """Returns a value of this machine's metadata; SettingError if it is none of Compute Engine's."""
  request = urllib.request.Request(_METADATA + path, headers={"Metadata-Flavor": "Google"})
  try:
    with urllib.request.urlopen(request, timeout=5) as answer:
      return answer.read().decode()
  except urllib.error.HTTPError:
    raise
  except OSError as error:
    raise errors.SettingError(
      f"--cluster=gce: this is no machine of Google Compute Engine ({error})."
    ) from error


def _compute_service():
  try:
    from googleapiclient import discovery
  except ImportError as error:
    raise errors.SettingError(
      f"--cluster=gce needs Google's client: {installation.command('gce')}."
    ) from error
  return discovery.build("compute", "v1")
