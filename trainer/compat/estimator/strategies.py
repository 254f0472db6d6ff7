"""tf.distribute's strategies for RunConfig(train_distribute=...).

Octet makes the strategy itself, for the device. A program's strategy only describes one: it
connects no device, because TensorFlow makes virtual cores only before it connects. If the program
uses the strategy in its own loop, by `scope` or `run`, this makes TensorFlow's strategy then.
"""

import contextlib
import contextvars
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.compat.estimator.virtual_cores import DEVICE_VARIABLE
from trainer.compat.graph_mode import notes
from trainer.devices import cluster as cluster_lib
from trainer.devices import device as device_lib
from trainer.devices import device_names
from trainer.internals import patches
from trainer.spec import ModeKeys


class MirroredStrategy:
  """All GPUs of the machine, or the given ones. The cores of OCTET_DEVICE have priority.

  Args:
    devices: names of GPUs; only their number counts.
    num_gpus, num_gpus_per_worker: how many GPUs.
    cross_device_ops, cross_tower_ops, auto_shard_dataset, prefetch_on_device: TensorFlow's ways to
      move values between cores; no effect.
  """

  def __init__(
    self,
    devices: Sequence[str] | None = None,
    num_gpus: int | None = None,
    num_gpus_per_worker: int | None = None,
    cross_device_ops: Any = None,
    cross_tower_ops: Any = None,
    auto_shard_dataset: bool = False,
    prefetch_on_device: Any = None,
  ):
    del cross_device_ops, cross_tower_ops, auto_shard_dataset, prefetch_on_device
    self._devices = devices
    self._wanted = len(devices) if devices else num_gpus or num_gpus_per_worker
    self._made: tf.distribute.Strategy | None = None

  @property
  def device(self) -> str:
    """Returns the device, as in `trainer.RunConfig.device`."""
    given = os.environ.get(DEVICE_VARIABLE)
    if given:
      return given
    # Listing GPUs does not start them: virtual cores are still possible.
    found = len(tf.config.list_physical_devices("GPU"))
    count = min(found, self._wanted or found)
    if self._wanted and count != self._wanted:
      notes.tell_once(
        f"{type(self).__name__} is for {self._wanted} devices, and there are {found} GPUs. "
        + (f"It has {count}." if count else "The machine has one CPU core for it.")
        + f" {DEVICE_VARIABLE}=cpu:{self._wanted} makes as many virtual cores."
      )
    return device_with(count)

  @property
  def num_replicas_in_sync(self) -> int:
    """Returns the number of cores."""
    kind, count = device_names.split(self.device)
    if kind in ("tpu", "auto", "xla:gpu") and count is None:
      return device_lib.connect(kind).replicas
    return count or 1

  def _tensorflow(self) -> tf.distribute.Strategy:
    if self._made is None:
      self._made = tf.distribute.MirroredStrategy(self._devices)
    return self._made

  def __getattr__(self, name: str) -> Any:
    # copy and pickle ask for private names; those must not make TensorFlow's strategy.
    if name.startswith("_"):
      raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
    return getattr(self._tensorflow(), name)


class CollectiveAllReduceStrategy(MirroredStrategy):
  """As MirroredStrategy. Octet handles the workers of TF_CONFIG."""

  def __init__(self, num_gpus_per_worker: int | None = None, **others: Any):
    super().__init__(num_gpus_per_worker=num_gpus_per_worker or None, **others)


class MultiWorkerMirroredStrategy(MirroredStrategy):
  """As MirroredStrategy. Octet handles the workers of TF_CONFIG."""

  def __init__(self, cluster_resolver: Any = None, communication_options: Any = None):
    del cluster_resolver, communication_options
    super().__init__()

  def _tensorflow(self) -> tf.distribute.Strategy:
    if self._made is None:
      self._made = tf.distribute.MultiWorkerMirroredStrategy()
    return self._made


class OneDeviceStrategy(MirroredStrategy):
  """One core. OCTET_DEVICE has priority."""

  def __init__(self, device: str, prefetch_on_device: Any = None):
    del prefetch_on_device
    super().__init__([device])

  @property
  def device(self) -> str:
    if "cpu" in self._devices[0].lower() and not os.environ.get(DEVICE_VARIABLE):
      return "cpu"
    return super().device

  def _tensorflow(self) -> tf.distribute.Strategy:
    if self._made is None:
      self._made = tf.distribute.OneDeviceStrategy(self._devices[0])
    return self._made


class TPUStrategy(MirroredStrategy):
  """The TPU; without one, as MirroredStrategy. OCTET_DEVICE has priority."""

  def __init__(
    self, tpu_cluster_resolver: Any = None, steps_per_run: Any = None, device_assignment: Any = None
  ):
    del tpu_cluster_resolver, steps_per_run, device_assignment
    super().__init__()

  @property
  def device(self) -> str:
    return os.environ.get(DEVICE_VARIABLE) or "auto"

  def _tensorflow(self) -> tf.distribute.Strategy:
    raise errors.SettingError(
      "contrib.distribute.TPUStrategy: Octet drives the TPU, so the strategy works in "
      "RunConfig(train_distribute=...) alone, without its scope and run."
    )


@dataclasses.dataclass(frozen=True)
class AllReduceCrossDeviceOps:
  """A strategy's cross_device_ops: TensorFlow's ways to move values between cores; no effect."""

  all_reduce_alg: str = "nccl"
  num_packs: int = 1
  agg_small_grads_max_bytes: int = 0
  agg_small_grads_max_group: int = 10


@dataclasses.dataclass(frozen=True)
class DistributeConfig:
  """RunConfig(experimental_distribute=...)."""

  train_distribute: Any = None
  eval_distribute: Any = None
  remote_cluster: Any = None


# Whether the RunConfig gives a strategy to the running model_fn's mode; None outside of a model_fn.
_is_given: contextvars.ContextVar[bool | None] = contextvars.ContextVar(
  "compat_strategy_is_given", default=None
)


def in_mode(config: Any, mode: str) -> contextlib.AbstractContextManager[None]:
  """While a model_fn runs: `has_strategy` answers by the RunConfig, as in 2.15's Estimators."""
  strategies = {ModeKeys.TRAIN: config.train_distribute, ModeKeys.EVAL: config.eval_distribute}
  return patches.set_context(_is_given, strategies.get(mode) is not None)


def has_strategy() -> bool:
  """Returns whether a strategy runs this code. Octet's own strategies do not count."""
  given = _is_given.get()
  return tf.distribute.has_strategy() if given is None else given


def device_with(gpus: int) -> str:
  """Returns the device with a number of GPUs, or of the CPU: XLA's for several GPUs or workers."""
  cluster = cluster_lib.find()
  if gpus > 1 or (cluster is not None and cluster.has_others):
    return f"xla:gpu:{gpus}" if gpus else "xla:1"
  return "gpu" if gpus else "cpu"


def device_of(strategy: Any) -> str:
  """Returns the device of a strategy, of this module's or TensorFlow's."""
  if isinstance(strategy, MirroredStrategy):
    return strategy.device
  if strategy.num_replicas_in_sync == 1:
    return ""
  kinds = {tf.DeviceSpec.from_string(name).device_type for name in strategy.extended.worker_devices}
  kind = kinds.pop().lower()
  return f"{'xla:' * (kind == 'gpu')}{kind}:{strategy.num_replicas_in_sync}"
