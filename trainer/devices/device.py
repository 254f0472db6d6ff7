"""The device of a run. Only this file distinguishes CPUs, GPUs and TPUs.

    device = connect("cpu:8")
    with device.strategy.scope(): ...

| name     | strategy                                                                              |
|----------|---------------------------------------------------------------------------------------|
| cpu, gpu | OneDeviceStrategy                                                                     |
| cpu:N    | MirroredStrategy over N virtual cores of the CPU                                      |
| tpu      | replica.OneOfMany, and the TPU's XLA devices, driven by PJRT (`trainer.pjrt`)         |
| xla:N    | the same with N XLA devices of the CPU: rehearses a TPU board on any CPU              |
| xla:gpu  | the same with the GPUs of jax's CUDA plug-in; xla:gpu:N with the first N of them      |
| auto     | a TPU, else TensorFlow's GPU, else PJRT's GPUs, else the CPU                          |

In a cluster of several workers (see `trainer.devices.cluster`), tpu, xla:N and xla:gpu become the
XLA devices of all workers. cpu and gpu have no cluster. A task "evaluator" is not a worker.
"""

import dataclasses
import functools
import os
import re
import threading
from collections.abc import Callable, Mapping

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import processes
from trainer.devices import cluster as cluster_lib
from trainer.devices import gpu_config, gpus, replica
from trainer.pjrt import devices as pjrt_devices
from trainer.pjrt import hosts as hosts_lib
from trainer.pjrt import installed as pjrt_installed
from trainer.pjrt import tpu as pjrt_tpu

_NAME = re.compile(r"(auto|cpu|gpu|tpu|xla|xla:gpu)(?::(\d+))?")

# The platforms of the devices that PJRT drives.
_PLATFORMS = {"tpu": "tpu", "xla": "cpu", "xla:gpu": "gpu"}

# Each virtual core traces the model for itself, in the one process.
_MOST_VIRTUAL_CORES = 1024

_lock = threading.Lock()
_process: int | None = None  # the process that connected first


@dataclasses.dataclass(frozen=True)
class Device:
  """A connected device.

  Attributes:
    kind: "cpu", "gpu", "tpu" or "xla".
    strategy: the tf.distribute.Strategy over its cores. The strategy of "tpu" and "xla" traces one
      of many replicas: XLA compiles its functions, and TensorFlow never runs them.
    hosts: the number of machines that read input.
    host: the index of this machine. Host 0 writes the files of a run.
    role: "chief", "worker" or "evaluator" of the cluster. An evaluator works alone.
    has_evaluator: whether the cluster has an evaluator.
    link: the connections to the other workers, which report lost workers; None without others.
    xla_devices: the pjrt.devices.Devices of "tpu" and "xla"; None for other devices.
  """

  kind: str
  strategy: tf.distribute.Strategy
  hosts: int = 1
  host: int = 0
  role: str = "chief"
  has_evaluator: bool = False
  link: hosts_lib.Hosts | None = None
  xla_devices: pjrt_devices.Devices | None = None

  @property
  def replicas(self) -> int:
    """The number of cores; each one gets a batch of its own."""
    return self.strategy.num_replicas_in_sync

  @property
  def local_replicas(self) -> int:
    """The number of cores that this process feeds."""
    return self.replicas // self.hosts if self.is_multi_worker else self.replicas

  @property
  def runs_by_pjrt(self) -> bool:
    """Whether PJRT runs the programs, on XLA devices; otherwise TensorFlow does."""
    return isinstance(self.strategy, replica.OneOfMany)

  @property
  def chip(self) -> str:
    """PJRT's name of its chips, such as "TPU v5 lite"; "" where TensorFlow runs the programs."""
    return self.xla_devices.all[0].device_kind if self.xla_devices else ""

  @property
  def uses_gpus(self) -> bool:
    """Whether GPUs run the programs, driven by TensorFlow or by PJRT."""
    return self.kind == "gpu" or (self.runs_by_pjrt and self._platform == "gpu")

  @property
  def _platform(self):
    return self.xla_devices.platform if self.xla_devices else ""

  @property
  def resembles_tpu(self) -> bool:
    """Whether this is a TPU or its rehearsal on virtual cores, so that advice on TPUs is useful."""
    if self.runs_by_pjrt:
      return self._platform != "gpu"
    return self.kind == "cpu" and self.local_replicas > 1

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
  def threads(self) -> int:
    """The number of threads for one of TensorFlow's operations on the CPU."""
    # 0 is TensorFlow's default: a thread for each core that the system lets this process use.
    return tf.config.threading.get_intra_op_parallelism_threads() or processes.cpu_count()

  @property
  def is_multi_worker(self) -> bool:
    """Whether other processes train the same model together with this one."""
    return self.hosts > 1

  @property
  def is_chief(self) -> bool:
    """Whether this process writes the files of the run."""
    return self.host == 0

  def __str__(self) -> str:
    chip = f" ({self.chip})" if self.kind == "tpu" or self._platform == "gpu" else ""
    parts = [self.kind + chip, f"{self.replicas} replica{'s' * (self.replicas > 1)}"]
    if self.is_multi_worker:
      parts.append(f"worker {self.host} of {self.hosts}")
    return ", ".join(parts)


def connect(
  name: str = "auto",
  tpu: str = "",
  gpu: gpu_config.GPUConfig | None = None,
  cluster: str = "",
  facts: Callable[[], Mapping[str, str]] = dict,
  timeout: float = 600.0,
) -> Device:
  """Connects a device. A second call with the same arguments returns the same device.

  Args:
    name: see the table above.
    tpu: "", or "local" for the TPU of this machine, the only one that PJRT reaches.
    gpu: the settings of GPUs; None for the defaults of a GPUConfig.
    cluster: see `trainer.devices.cluster`; "" for TF_CONFIG, if set.
    facts: returns name → text, the values that all workers of a cluster must share. The workers
      compare them once, when they meet.
    timeout: seconds to wait for the other workers.

  Raises:
    SettingError: the name is unknown, or this machine lacks the device. Octet never replaces a
      named device.
    WorkerLostError: workers were missing after the timeout.
  """
  match = _NAME.fullmatch(name)
  takes_number = match and match[1] not in ("auto", "tpu")
  if (
    not match
    or match[2] == "0"
    or (match[2] and not takes_number)
    or (match[1] == "xla" and not match[2])
  ):
    raise errors.SettingError(
      f"--device={name}: expected auto, cpu, cpu:8, gpu, xla:8, xla:gpu, xla:gpu:N or tpu."
    )
  if tpu and (tpu != "local" or match[1] not in ("auto", "tpu")):
    raise errors.SettingError(
      f"--tpu={tpu} with --device={name}: only the machine with the TPU's chips drives the TPU. "
      "Run the command on that machine with --device=tpu, and without --tpu."
    )
  kind, count = match[1], int(match[2] or 1)
  if kind in ("cpu", "xla") and count > _MOST_VIRTUAL_CORES:
    raise errors.SettingError(
      f"--device={name}: a CPU rehearses at most {_MOST_VIRTUAL_CORES} virtual cores."
    )
  if kind == "gpu" and count > 1:
    raise errors.SettingError(
      f"--device={name}: gpu is one GPU, by TensorFlow. For {count} GPUs use "
      f"--device=xla:gpu:{count}, by PJRT ({pjrt_installed.command('gpu')})."
    )
  if kind == "auto":
    kind, reason = choose()
    logging.info("--device=auto: %s (%s)", kind, reason)
  _check_process()
  gpu = gpu or gpu_config.GPUConfig()
  if kind == "gpu":  # each time: the newest setting of a process holds
    gpus.require()
    gpus.set_arithmetic(gpu)
  if kind == "xla:gpu":
    gpus.leave_to_pjrt(gpu)
  with _lock:  # functools.cache would let a second thread make the same device again
    found = _find_cluster(cluster, os.environ.get("TF_CONFIG"), timeout)
    # Of PJRT's devices: None for all that there are.
    wanted = count if match[2] or kind not in _PLATFORMS else None
    if found is None or not found.has_others:
      return _connect(kind, wanted, found, gpu)
    if kind in _PLATFORMS:
      return _connect_hosts(kind, wanted, found, _Joining(facts, timeout), gpu)
    raise errors.SettingError(
      f"--device={kind} has no cluster, and {found.source} has {len(found.addresses)} workers: use "
      "--device=xla:1 for the CPU of each, --device=xla:gpu for its GPUs, or --device=tpu."
    )


def _check_process():
  """Raises SettingError in a fork of a connected process: TensorFlow would hang in it."""
  global _process
  _process = _process or os.getpid()
  if _process != os.getpid():
    raise errors.SettingError(
      f"This process is a fork of process {_process} and would hang: TensorFlow had started before "
      "the fork. Start it with multiprocessing.get_context('spawn'), or fork before you make the "
      "first Estimator."
    )


def choose() -> tuple[str, str]:
  """Returns the kind of the best device that this machine seems to have, and the reason."""
  signs = pjrt_tpu.signs()
  problem = pjrt_tpu.problem() if signs else ""
  if signs and not problem:
    return "tpu", signs
  no_tpu = f"{signs}, but {problem}" if signs else "no sign of a TPU"
  count = len(tf.config.list_physical_devices("GPU"))
  if count:
    return "gpu", f"{count} GPU{'s' * (count > 1)}; {no_tpu}"
  if count := gpus.of_pjrt():
    plugin = pjrt_installed.cuda_plugin()
    return "xla:gpu", f"{count} GPU{'s' * (count > 1)} by {plugin}; {no_tpu}"
  if problem := gpus.problem():
    return "cpu", f"{no_tpu}, no usable GPU: {problem}"
  return "cpu", f"{no_tpu}, no GPU"


@functools.cache
def _find_cluster(name, tf_config, timeout):
  del tf_config  # Part of the cache key: another value means another cluster.
  return cluster_lib.find(name, timeout)


@functools.cache
def _connect(kind, count, cluster, gpu):
  if kind in _PLATFORMS:
    connected = pjrt_devices.connect(_PLATFORMS[kind], count)
    role = {} if cluster is None else dict(role=cluster.role, has_evaluator=cluster.has_evaluator)
    return _of_pjrt(kind, connected, gpu, **role)
  gpus.set_memory_growth(gpu)
  if kind == "cpu" and count > 1:
    _make_virtual_cores(count)
  strategy = tf.distribute.OneDeviceStrategy(f"/{kind}:0") if count == 1 else _mirrored(count)
  if cluster is None:
    return Device(kind, strategy)
  return Device(kind, strategy, role=cluster.role, has_evaluator=cluster.has_evaluator)


def _of_pjrt(kind, connected, gpu, **cluster):
  """Returns the device of PJRT's devices. TensorFlow traces one replica of them, on the CPU."""
  if kind == "xla:gpu":
    connected = dataclasses.replace(
      connected, full_precision=not gpu.tensor_float_32, deterministic=gpu.deterministic
    )
  strategy = replica.OneOfMany(connected.count, packs=kind == "xla")
  return Device(kind.partition(":")[0], strategy, xla_devices=connected, **cluster)


@dataclasses.dataclass(frozen=True)
class _Joining:
  """How to join a cluster. All are equal, because joining happens once."""

  facts: Callable[[], Mapping[str, str]] = dataclasses.field(compare=False)
  timeout: float = dataclasses.field(compare=False)


@functools.cache
def _connect_hosts(kind, count, cluster, joining, gpu):
  platform = _PLATFORMS[kind]
  facts = {
    "the list of workers": ", ".join(cluster.addresses),
    "the XLA devices": f"{count or 'all'} of {platform}",
    "the version of jax": pjrt_installed.require(platform)["jax"],
    **joining.facts(),
  }
  link = hosts_lib.Hosts(cluster.addresses, cluster.number, facts, joining.timeout)
  try:
    connected = pjrt_devices.connect(platform, count, link)
  except errors.OctetError as error:  # The others wait for this process's devices.
    link.leave(f"it could not connect: {errors.first_line(error)}")
    raise
  return _of_pjrt(
    kind,
    connected,
    gpu,
    link=link,
    hosts=len(cluster.addresses),
    host=cluster.number,
    role=cluster.role,
    has_evaluator=cluster.has_evaluator,
  )


def _mirrored(count):
  # Virtual cores share the threads of one CPU. Collective operations wait for each other and can
  # starve there; a sum on one core cannot. It also leaves no collective group behind, which a later
  # strategy over another number of cores would fail to join.
  return tf.distribute.MirroredStrategy(
    [f"/cpu:{index}" for index in range(count)], tf.distribute.ReductionToOneDevice()
  )


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
        f"--device=cpu:{count}: TensorFlow has already started in this process with fewer virtual "
        f"cores. Make tensors, variables and layers inside the model_fn, or call "
        f'trainer.connect("cpu:{count}") before making the first one (in a notebook: after a '
        "restart)."
      ) from error
