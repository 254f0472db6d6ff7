"""RunConfig, TPUConfig and InputPipelineConfig of programs, and Octet's RunConfig for them.

The device is the first of: the environment variable OCTET_DEVICE ("cpu", "cpu:8", "gpu", "tpu", as
in `trainer.RunConfig.device`); this package's own RunConfig(device=...); a TPU with `use_tpu`; a
GPU; the CPU.
"""

import copy
import dataclasses
import enum
import os
from typing import Any

import tensorflow as tf

import trainer
from trainer import errors
from trainer.compat.estimator import strategies
from trainer.compat.estimator.virtual_cores import DEVICE_VARIABLE
from trainer.compat.graph_mode import notes
from trainer.devices import cluster as cluster_lib

# 2.15's default number of steps in a TPU's loop.
DEFAULT_ITERATIONS = 2

_SESSIONS = "there are no sessions."
_NO_EFFECT = {
  "session_config": _SESSIONS,
  "master": "Octet uses this machine's TPU.",
  "evaluation_master": "Octet uses this machine's TPU.",
  "device_fn": "the device holds every variable.",
  "protocol": "workers talk as tf.distribute has it.",
  "eval_distribute": "evaluation uses the device of the training; each of its steps takes a batch "
  "of the input_fn for each core.",
  "experimental_max_worker_delay_secs": "workers start together.",
}


class InputPipelineConfig(enum.IntEnum):
  """The part of a global batch that a call of the input_fn returns."""

  PER_SHARD_V1 = 1
  PER_HOST_V1 = 2
  PER_HOST_V2 = 3
  BROADCAST = 4
  SLICED = 5


@dataclasses.dataclass
class TPUConfig:
  """The part of a configuration for cores. Arguments are TPUEstimator's.

  Loops of several steps are for a TPU: `iterations_per_loop` has no effect if the program does not
  ask for a TPU, as in 2.15. With the default, Octet calls the program's hooks after every second
  step; without hooks, loops are as long as possible.

  Raises:
    ValueError: the settings of a model on several cores contradict each other.
    SettingError: a value is out of range.
  """

  iterations_per_loop: int | str | None = DEFAULT_ITERATIONS
  num_shards: int | None = None
  num_cores_per_replica: int | None = None
  per_host_input_for_training: InputPipelineConfig | bool = True
  tpu_job_name: str | None = None
  initial_infeed_sleep_secs: int | None = None
  input_partition_dims: Any = None
  eval_training_input_configuration: InputPipelineConfig = InputPipelineConfig.PER_HOST_V1
  experimental_host_call_every_n_steps: int = 1
  experimental_allow_per_host_v2_parallel_get_next: bool = False
  experimental_feed_hook: Any = None

  def __post_init__(self):
    if isinstance(self.per_host_input_for_training, bool):  # as in TensorFlow 1.4
      kinds = InputPipelineConfig
      by_host = self.per_host_input_for_training
      self.per_host_input_for_training = kinds.PER_HOST_V1 if by_host else kinds.PER_SHARD_V1
    self._check_parts()
    if str(self.iterations_per_loop).isdigit():  # the text of a flag
      self.iterations_per_loop = int(str(self.iterations_per_loop))
    trainer.TPUConfig(iterations_per_loop=self.iterations_per_loop)  # checks the value

  def _check_parts(self) -> None:
    """Raises ValueError for settings of a model on several cores that 2.15 refused."""
    cores, dims = self.num_cores_per_replica, self.input_partition_dims
    if cores is not None and (not isinstance(cores, int) or cores < 1):
      raise ValueError(f"num_cores_per_replica must be a positive int; got {cores!r}.")
    if dims is not None and cores is None:
      raise ValueError("input_partition_dims needs num_cores_per_replica.")
    if dims is not None and len(dims) not in (1, 2):
      raise ValueError(f"input_partition_dims must have one or two elements; got {dims!r}.")

  def check_device(self, is_tpu: bool) -> None:
    """Checks whether the device can run a model that the program divides over several cores.

    Raises:
      SettingError: the device is a TPU.
    """
    if self.num_cores_per_replica in (None, 1):
      return
    given = f"TPUConfig(num_cores_per_replica={self.num_cores_per_replica}"
    if self.input_partition_dims is not None:
      given += f", input_partition_dims={self.input_partition_dims}"
    if is_tpu:
      raise errors.SettingError(
        f"{given}): Octet puts the whole model on each core of a TPU, and cannot divide a model "
        "among several cores: remove both settings."
      )
    notes.tell_once(f"{given}) has no effect: each core has the whole model.")

  @property
  def gives_host_batches(self) -> bool:
    """Returns whether the input_fn returns its host's share, instead of one core's."""
    return self.per_host_input_for_training != InputPipelineConfig.PER_HOST_V2

  def octet(self, use_tpu: bool = False) -> trainer.TPUConfig:
    """Returns Octet's TPUConfig.

    Args:
      use_tpu: whether the program asks for a TPU.
    """
    kinds = trainer.InputPipelineConfig
    broadcasts = self.per_host_input_for_training == InputPipelineConfig.BROADCAST
    sets_length = use_tpu and self.iterations_per_loop != DEFAULT_ITERATIONS
    return trainer.TPUConfig(
      iterations_per_loop=self.iterations_per_loop if sets_length else None,
      per_host_input_for_training=(
        kinds.PER_HOST_V1 if self.gives_host_batches else kinds.PER_HOST_V2
      ),
      eval_training_input_configuration=kinds.BROADCAST if broadcasts else kinds.PER_HOST_V2,
      host_call_every_n_steps=self.experimental_host_call_every_n_steps,
    )

  def steps_between_hooks(self, use_tpu: bool) -> int | None:
    """Returns the number of steps between two calls of hooks; None: after each loop."""
    if not use_tpu:
      return 1
    default = self.iterations_per_loop == DEFAULT_ITERATIONS
    return DEFAULT_ITERATIONS if default else None


_OWN = tuple(
  field.name for field in dataclasses.fields(trainer.RunConfig) if field.name != "tpu_config"
)


class RunConfig:
  """The configuration of an Estimator, with the arguments of tf.estimator.RunConfig.

  Also has the arguments of `trainer.RunConfig` (device, precision, ...).
  """

  def __init__(
    self,
    model_dir: str | None = None,
    tf_random_seed: int | None = None,
    save_summary_steps: int | None = 100,
    save_checkpoints_steps: int | None = None,
    save_checkpoints_secs: float | None = None,
    session_config: Any = None,
    keep_checkpoint_max: int | None = 5,
    keep_checkpoint_every_n_hours: float | None = 10000,
    log_step_count_steps: int | None = 100,
    train_distribute: Any = None,
    **others: Any,
  ):
    # Programs ask hasattr(config, "tpu_config") whether a TPUEstimator trains.
    if (tpu_config := others.pop("tpu_config", None)) is not None:
      self.tpu_config: TPUConfig = tpu_config
    self.cluster = others.pop("cluster", None)
    self.model_dir = None if model_dir in (None, "") else os.fspath(model_dir)
    self.tf_random_seed = tf_random_seed
    self.save_summary_steps = save_summary_steps
    self.save_checkpoints_steps = save_checkpoints_steps
    self.save_checkpoints_secs = save_checkpoints_secs
    if save_checkpoints_steps is None and save_checkpoints_secs is None:
      self.save_checkpoints_secs = 600
    self.session_config = session_config
    self.keep_checkpoint_max = keep_checkpoint_max
    self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
    self.log_step_count_steps = log_step_count_steps
    self.experimental_distribute = others.pop("experimental_distribute", None)
    self.train_distribute = train_distribute or getattr(
      self.experimental_distribute, "train_distribute", None
    )
    self.session_creation_timeout_secs = others.pop("session_creation_timeout_secs", 7200)
    self.checkpoint_save_graph_def = others.pop("checkpoint_save_graph_def", True)
    for name in _NO_EFFECT:
      if name != "session_config":
        setattr(self, name, others.pop(name, None))
    self._octet = {name: others.pop(name) for name in _OWN if name in others}
    if others:
      raise TypeError(f"RunConfig has no argument {sorted(others)[0]!r}.")
    notes.tell_of_unused("RunConfig", vars(self), _NO_EFFECT)

  # Octet shares the input among the workers of TF_CONFIG. If a program also did so by these
  # attributes, it would train on a part of a part.
  task_type = "worker"
  task_id = 0
  global_id_in_cluster = 0
  num_ps_replicas = 0
  num_worker_replicas = 1
  service = None

  @property
  def is_chief(self) -> bool:
    """Returns whether this process is the first among those of TF_CONFIG that train together."""
    found = cluster_lib.find()
    return found is None or (found.role != "evaluator" and found.number == 0)

  @property
  def cluster_spec(self) -> tf.train.ClusterSpec:
    """Empty: Octet reads the cluster of TF_CONFIG itself."""
    return tf.train.ClusterSpec({})

  def replace(self, **changes: Any) -> "RunConfig":
    """Returns a copy with some attributes changed."""
    made = copy.copy(self)
    made._octet = dict(self._octet)
    if "save_checkpoints_steps" in changes and "save_checkpoints_secs" not in changes:
      made.save_checkpoints_secs = None
    if "save_checkpoints_secs" in changes and "save_checkpoints_steps" not in changes:
      made.save_checkpoints_steps = None
    for name, value in changes.items():
      if name in _OWN and name not in vars(self):
        made._octet[name] = value
      elif name in vars(self):
        setattr(made, name, value)
      else:
        raise ValueError(f"RunConfig.replace: there is no {name!r}.")
    return made

  def octet(self, use_tpu: bool = False) -> trainer.RunConfig:
    """Returns Octet's RunConfig.

    Args:
      use_tpu: whether the program asks for a TPU.
    """
    given = dict(self._octet)
    given["device"] = (
      os.environ.get(DEVICE_VARIABLE)
      or given.get("device")
      or _device(use_tpu, self.train_distribute)
    )
    if self.train_distribute is not None and not use_tpu:
      notes.tell_once(
        f"RunConfig(train_distribute={type(self.train_distribute).__name__}): trains on the "
        f"device {given['device']}; each core takes a whole batch of the train input_fn. "
        "Evaluation uses all cores too."
      )
    name = getattr(self.cluster, "tpu_name", "") or self.master
    if given["device"] == "tpu" and name and name != "local":
      notes.tell_once(f"The TPU {name}: Octet drives the TPU of the machine that it runs on.")
    for name in ("model_dir", "tf_random_seed", "save_summary_steps", "log_step_count_steps"):
      if getattr(self, name):
        given[name] = getattr(self, name)
    for name in ("save_checkpoints_steps", "save_checkpoints_secs"):
      given[name] = getattr(self, name)
    given["keep_checkpoint_max"] = self.keep_checkpoint_max or 0
    given.setdefault("retention", self._retention())
    tpu_config = getattr(self, "tpu_config", None) or TPUConfig()
    given["tpu_config"] = tpu_config.octet(use_tpu)
    return trainer.RunConfig(**given)

  def _retention(self) -> Any:
    hours = self.keep_checkpoint_every_n_hours
    if hours is None or hours >= 10000:
      return None
    return trainer.Retention(newest=self.keep_checkpoint_max or 0, every_n_hours=hours)


class TPURunConfig(RunConfig):
  """As tf.estimator.tpu.RunConfig: always has a TPUConfig."""

  def __init__(
    self,
    tpu_config: TPUConfig | None = None,
    evaluation_master: str | None = None,
    master: str | None = None,
    cluster: Any = None,
    **others: Any,
  ):
    super().__init__(
      tpu_config=tpu_config or TPUConfig(),
      evaluation_master=evaluation_master,
      master=master,
      cluster=cluster,
      **others,
    )


def _device(use_tpu: bool, strategy: Any) -> str:
  if use_tpu:
    return "tpu"
  if strategy is not None and (device := strategies.device_of(strategy)):
    return device
  return strategies.device_with(min(len(tf.config.list_physical_devices("GPU")), 1))
