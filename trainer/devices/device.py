"""Where a run computes. Only this file knows CPUs, GPUs and TPUs apart.

    device = connect("cpu:8")
    with device.strategy.scope(): ...

| name     | strategy                                                                              |
|----------|---------------------------------------------------------------------------------------|
| cpu, gpu | OneDeviceStrategy                                                                     |
| cpu:N    | MirroredStrategy over N virtual cores: rehearses a TPU board on any CPU               |
| gpu:N    | MirroredStrategy, whose GPUs sum by NCCL                                              |
| tpu      | TPUStrategy; the TPU is given by `tpu`, by the environment, or is the machine's own   |
| auto     | a TPU, else a GPU, else the CPU                                                       |

If the environment variable TF_CONFIG describes several workers, cpu and gpu become a
MultiWorkerMirroredStrategy over all workers. A task "evaluator" is not one of the workers.
"""

import dataclasses
import functools
import glob
import json
import os
import re
import threading

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.devices import early_tensors, gpu_config, gpus, tensorflow_package

_NAME = re.compile(r"(auto|cpu|gpu|tpu)(?::(\d+))?")

# Colab sets the first one, to an address. Cloud TPU VMs and Kaggle set the second one, to a name or
# an address.
_TPU_VARIABLES = ("COLAB_TPU_ADDR", "TPU_NAME")

# The chips of a TPU VM: up to v4, and from v5e on.
_TPU_CHIPS = ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*")

# Each virtual core traces the model for itself, in the one process.
_MOST_VIRTUAL_CORES = 1024

_lock = threading.Lock()
_process: int | None = None  # the process that connected first


@dataclasses.dataclass(frozen=True)
class Device:
  """A device that is ready to use.

  Attributes:
    kind: "cpu", "gpu" or "tpu".
    strategy: the tf.distribute.Strategy over its cores.
    address: the address of a TPU; "" for other devices.
    hosts: the number of machines that read input.
    host: the index of this machine. Host 0 writes the files of a run.
    role: "chief", "worker" or "evaluator", from TF_CONFIG. An evaluator works alone.
    has_evaluator: whether the cluster of TF_CONFIG has an evaluator.
  """

  kind: str
  strategy: tf.distribute.Strategy
  address: str = ""
  hosts: int = 1
  host: int = 0
  role: str = "chief"
  has_evaluator: bool = False

  @property
  def replicas(self) -> int:
    """The number of cores; each one gets a batch of its own."""
    return self.strategy.num_replicas_in_sync

  @property
  def local_replicas(self) -> int:
    """The number of cores that this process feeds."""
    # One process feeds all hosts of a TPU. Each worker of TF_CONFIG feeds its own cores.
    return self.replicas // self.hosts if self.is_multi_worker else self.replicas

  @property
  def resembles_tpu(self) -> bool:
    """Whether this is a TPU or its rehearsal on virtual cores, so that advice on TPUs is useful."""
    return self.kind == "tpu" or (self.kind == "cpu" and self.local_replicas > 1)

  def uses_cpu_kernels(self, setting: bool | None) -> bool:
    """Returns whether Keras's layers and optimizers use `trainer.tracing.cpu_kernels` here.

    Args:
      setting: RunConfig.cpu_kernels. None means: yes on a CPU as one core; no on virtual cores,
        which rehearse a TPU's arithmetic with Keras's own operations.
    """
    if self.kind != "cpu":
      return False
    return not self.resembles_tpu if setting is None else setting

  @property
  def is_multi_worker(self) -> bool:
    """Whether other processes train the same model together with this one."""
    return isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy) and self.hosts > 1

  @property
  def is_chief(self) -> bool:
    """Whether this process writes the files of the run."""
    return self.host == 0

  def __str__(self) -> str:
    parts = [
      self.kind + (f" at {self.address}" if self.address else ""),
      f"{self.replicas} core{'s' * (self.replicas > 1)}",
    ]
    if self.is_multi_worker:
      parts.append(f"worker {self.host} of {self.hosts}")
    return ", ".join(parts)


def connect(name: str = "auto", tpu: str = "", gpu: gpu_config.GPUConfig | None = None) -> Device:
  """Makes a device ready. A second call with the same arguments returns the same device.

  Args:
    name: see the table above.
    tpu: the name or address of a TPU, for "tpu" and "auto"; "" to find it.
    gpu: how GPUs are used; None for the defaults of a GPUConfig.

  Raises:
    SettingError: there is no such name, or this machine has no such device. Octet never replaces a
      device that was named by another one.
  """
  match = _NAME.fullmatch(name)
  if not match or match[2] == "0" or (match[1] in ("auto", "tpu") and match[2]):
    raise errors.SettingError(f"--device={name}: expected auto, cpu, cpu:8, gpu, gpu:N or tpu.")
  if tpu and match[1] not in ("auto", "tpu"):
    raise errors.SettingError(
      f"--tpu={tpu} and --device={name} contradict each other: use --device=tpu."
    )
  kind, count = match[1], int(match[2] or 1)
  if kind == "cpu" and count > _MOST_VIRTUAL_CORES:
    raise errors.SettingError(
      f"--device={name}: a CPU rehearses at most {_MOST_VIRTUAL_CORES} virtual cores."
    )
  if kind == "auto":
    kind, reason = choose(tpu)
    logging.info("--device=auto: %s (%s)", kind, reason)
  _check_process()
  gpu = gpu or gpu_config.GPUConfig()
  if kind == "gpu":  # each time: the newest setting of a process holds
    gpus.require(count)
    gpus.set_arithmetic(gpu)
  with _lock:  # functools.cache would let a second thread make the same device again
    return _connect(kind, count, tpu, os.environ.get("TF_CONFIG", ""), gpu)


def _check_process():
  """Raises SettingError in a fork of a process that was connected: TensorFlow would hang in it."""
  global _process
  _process = _process or os.getpid()
  if _process != os.getpid():
    raise errors.SettingError(
      f"This process is a fork of process {_process}, in which TensorFlow was started, and it "
      "would hang in it. Start it with multiprocessing.get_context('spawn'), or fork before the "
      "first Estimator is made."
    )


def choose(tpu: str = "") -> tuple[str, str]:
  """Returns the kind of the best device that this machine seems to have, and the reason."""
  address, source = find_tpu(tpu)
  if address:
    return "tpu", source
  count = len(tf.config.list_physical_devices("GPU"))
  if count:
    return "gpu", f"{count} GPU{'s' * (count > 1)}; no sign of a TPU"
  if problem := gpus.problem():
    return "cpu", f"no sign of a TPU, no GPU that can be used: {problem}"
  return "cpu", "no sign of a TPU, no GPU"


def find_tpu(tpu: str = "") -> tuple[str, str]:
  """Finds a TPU.

  Args:
    tpu: a name or an address that was given, or "".

  Returns:
    The address ("local" for the chips of this machine) and where it comes from; ("", "") if there
    is no sign of a TPU.
  """
  if tpu:
    return tpu, "--tpu"
  for variable in _TPU_VARIABLES:
    value = os.environ.get(variable)
    if value and variable == "COLAB_TPU_ADDR" and "://" not in value:
      return f"grpc://{value}", variable
    if value:
      return value, variable
  chips = [chip for pattern in _TPU_CHIPS for chip in glob.glob(pattern)]
  if chips and tensorflow_package.installed().for_tpu:
    return "local", f"{len(chips)} chips in /dev"
  return "", ""


@functools.cache
def _connect(kind, count, tpu, tf_config, gpu):
  if kind == "tpu":
    return _connect_tpu(tpu)
  workers, worker, role, has_evaluator = _workers(tf_config)
  gpus.set_memory_growth(gpu)
  if kind == "cpu" and count > 1:
    _make_virtual_cores(count)
  if workers > 1:
    return Device(
      kind,
      _multi_worker_strategy(kind, gpu),
      hosts=workers,
      host=worker,
      role=role,
      has_evaluator=has_evaluator,
    )
  devices = [f"/{kind}:{index}" for index in range(count)]
  strategy = (
    tf.distribute.OneDeviceStrategy(devices[0]) if count == 1 else _mirrored(kind, devices, gpu)
  )
  return Device(kind, strategy, role=role, has_evaluator=has_evaluator)


def _connect_tpu(tpu):
  # The order is important: resolver → connect → initialize → strategy. A strategy that is made
  # before the system is initialized sees no cores.
  package = tensorflow_package.installed()
  address, source = find_tpu(tpu)
  if not address:
    raise errors.SettingError(
      "--device=tpu: no TPU was found. Give --tpu=NAME or an address; or, on a TPU VM, install "
      f"octet[tpu] (installed: {package}). On Colab and Kaggle, choose a TPU as the notebook's "
      "accelerator. --device=cpu:8 rehearses one on the CPU."
    )
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(address)
    if address != "local":
      tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    strategy = tf.distribute.TPUStrategy(resolver)
  except (tf.errors.OpError, ValueError, RuntimeError) as error:
    raise errors.SettingError(
      f"--device=tpu ({address}, from {source}): {_tpu_problem(error, package)}"
    ) from error
  return Device("tpu", strategy, address, hosts=strategy.extended.num_hosts)


def _tpu_problem(error, package):
  text = str(error)
  if isinstance(error, tf.errors.NotFoundError) and "ConfigureDistributedTPU" in text:
    return (
      f"this TensorFlow cannot drive a TPU ({package}): pip install 'octet[tpu]' in an environment "
      "of its own."
    )
  if "already in use" in text or "libtpu lockfile" in text:
    return "the TPU is in use by another process: end that one first."
  if isinstance(error, tf.errors.UnavailableError | tf.errors.DeadlineExceededError):
    return (
      "the TPU does not answer: is it running, and may this machine reach it? "
      f"({text.splitlines()[0]})"
    )
  return text.splitlines()[0] if text else repr(error)


def _workers(tf_config):
  """Reads TF_CONFIG: (number of workers, index of this one, its role, is there an evaluator)."""
  if not tf_config:
    return 1, 0, "chief", False
  try:
    config = json.loads(tf_config)
    cluster, task = config.get("cluster", {}), config.get("task", {})
    sizes = {role: len(cluster.get(role, ())) for role in ("chief", "worker")}
    role, index = task.get("type", "chief"), int(task.get("index", 0))
  except (ValueError, AttributeError, TypeError) as error:
    raise errors.SettingError(
      f"The environment variable TF_CONFIG cannot be read ({error}): {tf_config}"
    ) from error
  has_evaluator = bool(cluster.get("evaluator"))
  if role == "evaluator":
    return 1, 0, role, True
  if role not in sizes or not sum(sizes.values()):
    return 1, 0, "chief", has_evaluator
  if index >= sizes[role]:
    raise errors.SettingError(
      f"TF_CONFIG: the task is {role} {index}, and the cluster has {sizes[role]} of that type."
    )
  return (
    sum(sizes.values()),
    index + (sizes["chief"] if role == "worker" else 0),
    role,
    has_evaluator,
  )


def _multi_worker_strategy(kind, gpu):
  options = gpus.communication(gpu) if kind == "gpu" else None
  try:
    return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
  except (tf.errors.OpError, RuntimeError, ValueError) as error:
    raise errors.SettingError(
      f"The workers of TF_CONFIG cannot be reached: {str(error).splitlines()[0]}"
    ) from error


def _mirrored(kind, devices, gpu):
  # Virtual cores share the threads of one CPU. Collective operations wait for each other and can
  # starve there; a sum on one core cannot. It also leaves no collective group behind, which a later
  # strategy over another number of cores would fail to join.
  reduction = tf.distribute.ReductionToOneDevice() if kind == "cpu" else gpus.all_reduce(gpu)
  return tf.distribute.MirroredStrategy(devices, cross_device_ops=reduction)


def _make_virtual_cores(count):
  cpu = tf.config.list_physical_devices("CPU")[0]
  made = tf.config.get_logical_device_configuration(cpu)
  if made is None or len(made) < count:
    try:
      tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * count
      )
    except RuntimeError as error:
      found = early_tensors.places()
      started = f" Made before: {', '.join(found[:3])}." if found else ""
      raise errors.SettingError(
        f"--device=cpu:{count}: TensorFlow has already started in this process with fewer virtual "
        f"cores.{started} Make tensors, variables and layers inside the model_fn, or call "
        f'trainer.connect("cpu:{count}") before the first one is made (in a notebook: after a '
        "restart)."
      ) from error
