"""Where a run computes: the only place that knows CPUs, GPUs and TPUs apart.

    device = connect("cpu:8")
    with device.strategy.scope(): ...

| name       | strategy                                                                                                            |
|------------|---------------------------------------------------------------------------------------------------------------------|
| cpu, gpu   | OneDeviceStrategy                                                                                                     |
| cpu:N      | MirroredStrategy over N virtual cores: what a TPU board does, on any laptop, at a laptop's speed                        |
| gpu:N      | MirroredStrategy                                                                                                      |
| tpu        | TPUStrategy; the TPU is that of `tpu`, or what the environment tells of, or the machine's own chips                     |
| auto       | a TPU, else a GPU, else the CPU                                                                                         |

Where the environment variable TF_CONFIG tells of several workers, cpu and gpu become a
MultiWorkerMirroredStrategy over them; its task "evaluator" is none of them.
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
from trainer.devices import tensorflow_package

_NAME = re.compile(r"(auto|cpu|gpu|tpu)(?::(\d+))?")

# What tells of a TPU: the address that Colab sets, and the name or address that Cloud TPU and
# Kaggle machines set.
_TPU_VARIABLES = ("COLAB_TPU_ADDR", "TPU_NAME")

# A TPU VM's own chips: up to v4, and from v5e on.
_TPU_CHIPS = ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*")

_lock = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Device:
  """A device that is ready.

  Attributes:
    kind: "cpu", "gpu" or "tpu".
    strategy: the tf.distribute.Strategy over its cores.
    address: of a TPU; "" otherwise.
    hosts: number of machines that read input.
    host: which of them this is, from 0; it writes if it is 0.
    role: "chief", "worker" or "evaluator", as TF_CONFIG says; an evaluator works by itself.
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
  def replicas(self):
    """Number of cores that take part, each with a batch of its own."""
    return self.strategy.num_replicas_in_sync

  @property
  def local_replicas(self):
    """Number of those that this process feeds."""
    # A TPU's hosts are fed from one process; several workers feed themselves.
    return self.replicas // self.hosts if self.is_multi_worker else self.replicas

  @property
  def resembles_tpu(self):
    """Whether it is a TPU, or rehearses one on virtual cores: what a TPU pads or cannot do is
    worth saying.
    """
    return self.kind == "tpu" or (self.kind == "cpu" and self.local_replicas > 1)

  @property
  def is_multi_worker(self):
    """Whether there are other processes that do the same."""
    return isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy) and self.hosts > 1

  @property
  def is_chief(self):
    """Whether this process writes."""
    return self.host == 0

  def __str__(self):
    parts = [
      self.kind + (f" at {self.address}" if self.address else ""),
      f"{self.replicas} core{'s' * (self.replicas > 1)}",
    ]
    return ", ".join(
      [*parts, f"worker {self.host} of {self.hosts}"] if self.is_multi_worker else parts
    )


def connect(name="auto", tpu=""):
  """Makes the device ready; the second call with the same arguments gives the same device.

  Args:
    name: see the table above.
    tpu: the name or address of a TPU, for "tpu" and "auto"; "" to find it.

  Raises:
    SettingError: no such name, or no such device here: a device that was named is never replaced by
      another.
  """
  match = _NAME.fullmatch(name)
  if not match or match[2] == "0" or (match[1] in ("auto", "tpu") and match[2]):
    raise errors.SettingError(f"--device={name}: expected auto, cpu, cpu:8, gpu, gpu:N or tpu.")
  if tpu and match[1] not in ("auto", "tpu"):
    raise errors.SettingError(
      f"--tpu={tpu} and --device={name} contradict each other: use --device=tpu."
    )
  kind, count = match[1], int(match[2] or 1)
  if kind == "auto":
    kind, reason = choose(tpu)
    logging.info("--device=auto: %s (%s)", kind, reason)
  with _lock:  # functools.cache would let a second thread make the same device again
    return _connect(kind, count, tpu, os.environ.get("TF_CONFIG", ""))


def choose(tpu=""):
  """(kind, reason) of the best device that there are signs of."""
  address, source = find_tpu(tpu)
  if address:
    return "tpu", source
  gpus = len(tf.config.list_physical_devices("GPU"))
  if gpus:
    return "gpu", f"{gpus} GPU{'s' * (gpus > 1)}; no sign of a TPU"
  return "cpu", "no sign of a TPU, no GPU"


def find_tpu(tpu=""):
  """(address, where it is from) of a TPU: as given, of the environment, or "local" for this
  machine's chips; two empty strings if none is there.
  """
  if tpu:
    return tpu, "--tpu"
  for variable in _TPU_VARIABLES:
    value = os.environ.get(variable)
    if value:
      return (
        "grpc://" + value if variable == "COLAB_TPU_ADDR" and "://" not in value else value
      ), variable
  chips = [chip for pattern in _TPU_CHIPS for chip in glob.glob(pattern)]
  if chips and tensorflow_package.installed().for_tpu:
    return "local", f"{len(chips)} chips in /dev"
  return "", ""


@functools.cache
def _connect(kind, count, tpu, tf_config):
  if kind == "tpu":
    return _connect_tpu(tpu)
  workers, worker, role, has_evaluator = _workers(tf_config)
  if kind == "gpu":
    found = len(tf.config.list_physical_devices("GPU"))
    if count > found:
      raise errors.SettingError(
        f"--device=gpu{f':{count}' * (count > 1)}: {found} GPUs were found by "
        f"{tensorflow_package.installed()}; octet[gpu] brings a TensorFlow "
        "that sees them."
      )
  elif count > 1:
    _make_virtual_cores(count)
  if workers > 1:
    return Device(
      kind,
      _multi_worker_strategy(),
      hosts=workers,
      host=worker,
      role=role,
      has_evaluator=has_evaluator,
    )
  devices = [f"/{kind}:{index}" for index in range(count)]
  strategy = tf.distribute.OneDeviceStrategy(devices[0]) if count == 1 else _mirrored(kind, devices)
  return Device(kind, strategy, role=role, has_evaluator=has_evaluator)


def _connect_tpu(tpu):
  """The order is important: resolver → connect → initialize → strategy."""
  package = tensorflow_package.installed()
  address, source = find_tpu(tpu)
  if not address:
    raise errors.SettingError(
      "--device=tpu: no TPU was found. Give --tpu=NAME or an address; or, on a TPU VM, install "
      f"octet[tpu] (installed: {package}). On Colab and "
      "Kaggle, choose a TPU as the notebook's accelerator. --device=cpu:8 rehearses one on the "
      "CPU."
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
    return f"this TensorFlow cannot drive a TPU ({package}): pip install 'octet[tpu]' in an environment of its own."
  if "already in use" in text or "libtpu lockfile" in text:
    return "the TPU is in use by another process: end that one first."
  if isinstance(error, tf.errors.UnavailableError | tf.errors.DeadlineExceededError):
    return f"the TPU does not answer: is it running, and may this machine reach it? ({text.splitlines()[0]})"
  return text.splitlines()[0] if text else repr(error)


def _workers(tf_config):
  """(number of workers, which one this is, its role, whether there is an evaluator) of
  TF_CONFIG.
  """
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


def _multi_worker_strategy():
  try:
    return tf.distribute.MultiWorkerMirroredStrategy()
  except (tf.errors.OpError, RuntimeError, ValueError) as error:
    raise errors.SettingError(
      f"The workers of TF_CONFIG cannot be reached: {str(error).splitlines()[0]}"
    ) from error


def _mirrored(kind, devices):
  """Virtual cores share one CPU's threads, where collective operations, which wait for each other,
  could starve; adding on one core cannot. It also leaves no group behind that a strategy over
  another number of cores would have to join.
  """
  reduction = tf.distribute.ReductionToOneDevice() if kind == "cpu" else None
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
      raise errors.SettingError(
        f"--device=cpu:{count}: TensorFlow has already started in this process with fewer "
        "virtual cores; connect to the device first."
      ) from error
