"""RunConfig and TPUConfig: the folder, cadences and device of a run."""

import dataclasses
import enum
import math
import os
import posixpath
import re
import tempfile
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from absl import logging

from trainer import errors
from trainer.config import gin_names
from trainer.devices import gpu_config
from trainer.settings import durations, setting_types


@gin_names.constants_from_enum(module="trainer")
class InputPipelineConfig(enum.Enum):
  """How the cores share the batches of an input_fn.

  Attributes:
    PER_HOST_V1: `params["batch_size"]` is the host's share of the global batch. The host's cores
      split each batch of the dataset.
    PER_HOST_V2: `params["batch_size"]` is the per-core batch. The cores take the batches of the
      dataset in turn.
    BROADCAST: only to evaluate and predict: every core gets the same batch.
  """

  PER_HOST_V1 = "PER_HOST_V1"
  PER_HOST_V2 = "PER_HOST_V2"
  BROADCAST = "BROADCAST"


GPUConfig = gpu_config.GPUConfig
gin_names.configurable(module="trainer")(GPUConfig)

_Time = Annotated[str, "such as '30s', '5m', '1h'"]

# The rule for trainer.checkpoints.retention, a room above this one.
_IS_RETENTION = setting_types.Rule(
  "a Retention, @Retention() in gin",
  lambda value: hasattr(value, "to_remove") and not isinstance(value, type),
)

# Classes are the places of a table, so one of 10**9 is a mistake.
BALANCED = "balanced"
_IS_CLASS_WEIGHT = setting_types.Rule(
  'a dict of a class to its weight, such as {0: 1.0, 1: 5.0}, or "balanced"',
  lambda value: (
    value == BALANCED
    or (
      bool(value)
      and not isinstance(value, str)
      and all(0 <= weight < math.inf for weight in value.values())
      and max(value) < 2**20
    )
  ),
)

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(duration: float | str, name: str, number: str = "seconds") -> float:
  """Converts "30s", "5m" or "1h" to seconds.

  Args:
    duration: a number of seconds; or a text, a number and one of the units s, m, h.
    name: the setting's gin name, for the error message.
    number: the meaning of a number in this setting, for the error message.

  Raises:
    SettingError: the text is not such a duration.
  """
  if not isinstance(duration, str):
    return duration
  match = _DURATION.fullmatch(duration)
  if not match:
    raise errors.SettingError(
      f"{name} is {duration!r}: expected a number of {number}, or a time such as '30s', '5m', '1h'."
    )
  return float(match[1]) * _SECONDS[match[2]]


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class TPUConfig:
  """The settings of RunConfig that TPUEstimator programs keep in a TPUConfig.

  Attributes:
    iterations_per_loop: steps in one device loop: a number, a time ("30s", "5m", "1h"), or None for
      the longest loop that ends at each due checkpoint, summary and log line. The setting does not
      change the results.
    num_shards: the number of replicas that the program expects, or None. It is an error if the
      device has another number.
    per_host_input_for_training: PER_HOST_V2 or PER_HOST_V1. True and False, as in TPUEstimator
      programs, mean PER_HOST_V1.
    eval_training_input_configuration: PER_HOST_V2 or BROADCAST, for evaluation and prediction.
    host_call_every_n_steps: steps between two calls of an EstimatorSpec's host_call.
    steps_per_program: training steps in one program on XLA devices (`--device=tpu`, `xla:N`); their
      input arrives in one stack. None: as many as stacked_input_bytes allows, at most the steps of
      a device loop. Also the largest number of groups in one program of an evaluation or a
      prediction. On other devices the host calls each step. The setting does not change the
      results.
    stacked_input_bytes: the largest input of such a program for one core. While the device works on
      one stack, the next one arrives, so a core needs twice this size. Also the largest size of the
      results of one program's groups.

  Raises:
    SettingError: a value is of the wrong type or out of range.
  """

  iterations_per_loop: setting_types.Count | str | None = None
  num_shards: setting_types.Count | None = None
  per_host_input_for_training: (
    Literal[InputPipelineConfig.PER_HOST_V2, InputPipelineConfig.PER_HOST_V1] | bool
  ) = InputPipelineConfig.PER_HOST_V2
  eval_training_input_configuration: Literal[
    InputPipelineConfig.PER_HOST_V2, InputPipelineConfig.BROADCAST
  ] = InputPipelineConfig.PER_HOST_V2
  host_call_every_n_steps: setting_types.Count = 1
  steps_per_program: setting_types.Count | None = None
  # 64 MiB: twice as much is under 2 % of the memory of the smallest core (v2, 7.5 GiB), and on a
  # host with eight cores a stack of 512 MiB. A step with larger batches takes so long that the
  # host's work between two programs does not matter.
  stacked_input_bytes: setting_types.Count = 64 * 2**20

  def __post_init__(self) -> None:
    if isinstance(self.iterations_per_loop, str):
      seconds_of(self.iterations_per_loop, "TPUConfig.iterations_per_loop", "steps")

  def check_shards(self, replicas: int, device: str) -> None:
    """Raises SettingError if the program expects another number of replicas.

    Args:
      replicas: of the device.
      device: its name, for the message.
    """
    if self.num_shards not in (None, replicas):
      raise errors.SettingError(
        f"TPUConfig.num_shards is {self.num_shards}, and the device ({device}) "
        f"has {replicas} replicas."
      )

  @property
  def gives_host_batches(self) -> bool:
    """Whether each batch of the train input_fn is the host's share of the global batch."""
    return self.per_host_input_for_training in (True, False, InputPipelineConfig.PER_HOST_V1)

  @property
  def broadcasts(self) -> bool:
    """Whether evaluation and prediction give every core the same batch."""
    return self.eval_training_input_configuration == InputPipelineConfig.BROADCAST


@gin_names.configurable(
  module="trainer",
  denylist=[
    "model_dir",
    "device",
    "tpu",
    "precision",
    "compiled",
    "train_steps",
    "force",
    "cluster",
    "train_input_service",
  ],
)
@dataclasses.dataclass(frozen=True)
class RunConfig:
  """The configuration of an Estimator.

  Attributes:
    model_dir: folder for checkpoints, summaries and configurations.
    device: "auto", "cpu", "cpu:8", "gpu", "xla:8", "xla:gpu", "xla:gpu:N" or "tpu"; see
      `trainer.devices.device.connect`.
    tpu: "", or "local" with the device "tpu": PJRT drives the TPU of this machine alone.
    precision: the precision of Keras layers: "float32" or "bfloat16". Variables are float32 in
      both.
    compiled: local folder of compiled programs for XLA devices (devices "tpu" and "xla:8"). Octet
      compiles and adds a missing program. "auto": the user's cache, ~/.cache/octet/compiled, up to
      4 GiB. "": no folder. A compiled program is machine code: use a folder only if you trust its
      author.
    tf_random_seed: the run's seed.
    save_checkpoints_steps: steps between two checkpoints. Set this or save_checkpoints_secs, not
      both. 0: only the first and the last checkpoint.
    save_checkpoints_secs: seconds between two checkpoints, or a time such as "10m"; 600 without
      either setting. 0: as above.
    keep_checkpoint_max: the number of newest checkpoints to keep; 0 keeps all.
    retention: a retention.Retention, to keep more checkpoints; None to keep the newest
      keep_checkpoint_max.
    on_checkpoint_failure: "raise", or "warn" to continue training after a failed write of a
      checkpoint. A failure of a training's last checkpoint is always an error.
    on_non_finite: the reaction to a loss or a variable that becomes NaN or infinite (see
      `trainer.loop.variable_check`): "stop" raises an error; "rollback" restores the last good
      checkpoint and continues with the examples after the bad ones.
    stage_timeout_secs: seconds, or a time such as "1h"; a longer stage (connecting, an input_fn, a
      device loop, a hook, saving, evaluating) counts as hung. The process then prints the stacks of
      all threads and ends. None for no limit.
    evaluate_ema: whether evaluation, prediction and export use the moving averages of the weights,
      if the training keeps them (see ema_decay of trainer.minimize).
    save_summary_steps: steps between two summaries for TensorBoard and metrics.jsonl. From 100 on,
      there are more summaries at the steps 10, 20 and 50.
    log_step_count_steps: steps between two log lines.
    show_progress: whether a Python program or a notebook prints a command's log (device, batch
      sizes, variables, steps), and whether a training has a bar. None: if the standard error output
      is a terminal or a notebook's. False: neither; a command still logs.
    train_steps: length of the whole training, for learning-rate schedules: a number of steps, or a
      duration such as "50 epochs" (see `trainer.settings.durations`). It does not end the training;
      the arguments of Estimator.train do. `run` sets it to run.train_steps.
    epoch_examples: examples in an epoch, for durations in epochs.
    class_weight: dict of class → weight of its examples in training, 1 for a missing class, as in
      `keras.Model.fit`; "balanced" to make all classes count the same, if the input_fn declares the
      number of examples of each class. See `trainer.inputs.weights`.
    weight_column: the feature with the weight of each example in training and evaluation; the model
      does not get this feature. "": no feature.
    cpu_kernels: whether CPUs use faster versions of Adam, BatchNormalization, dropout, GELU and
      Conv2D (see `trainer.tracing.cpu_kernels`). True: on every CPU device. False: never. None: on
      `cpu`, but not on `cpu:8`: that rehearses a TPU's arithmetic with Keras's own operations.
      GPUs, TPUs and programs of XLA never use them. The faster versions round differently and draw
      other dropout masks.
    static_shapes: whether compilation needs the shapes of the batches. False allows batches of
      different shapes on a single CPU or GPU. Several cores and TPUs always need static shapes.
    force: whether to take model_dir away from another running training; that training ends at its
      next save (see `trainer.loop.training_lock`).
    tpu_config: further settings.
    gpu_config: the settings of GPUs.
    cluster: the cluster resolver: "tf_config", "slurm", "kubernetes" or "tpu", see
      `trainer.devices.cluster`; "" for TF_CONFIG, if set.
    train_input_service: "grpc://host:port" of a tf.data service that makes the train input, see
      `trainer.inputs.data_service`; "" to make it on the training's own hosts. `run` sets it to
      run.train_input_service.
    cluster_timeout_secs: how long a starting run waits for the other workers of the cluster, and
      for the tf.data service: seconds, or a time such as "10m".

  Raises:
    SettingError: a value is of the wrong type or out of range, or two settings exclude each other.
  """

  model_dir: str | os.PathLike | None = None
  device: str = "auto"
  tpu: str = ""
  precision: Annotated[str, setting_types.one_of("float32", "bfloat16"), "(--precision)"] = (
    "float32"
  )
  compiled: Annotated[str, "(--compiled)"] = "auto"
  tf_random_seed: Annotated[int, "(--seed)"] = 1
  save_checkpoints_steps: setting_types.Natural | None = None
  save_checkpoints_secs: setting_types.NotNegative | _Time | None = None
  keep_checkpoint_max: setting_types.Natural | None = 5
  retention: Annotated[Any, _IS_RETENTION] | None = None
  on_checkpoint_failure: Annotated[str, setting_types.one_of("raise", "warn")] = "raise"
  on_non_finite: Annotated[str, setting_types.one_of("stop", "rollback")] = "stop"
  stage_timeout_secs: setting_types.Positive | _Time | None = 3600.0
  evaluate_ema: bool = True
  save_summary_steps: setting_types.Count = 100
  log_step_count_steps: setting_types.Count = 100
  show_progress: bool | None = None
  train_steps: int | str | None = None
  epoch_examples: setting_types.Count | None = None
  class_weight: Annotated[Mapping[setting_types.Natural, float] | str, _IS_CLASS_WEIGHT] | None = (
    None
  )
  weight_column: str = ""
  cpu_kernels: bool | None = None
  static_shapes: bool = True
  force: bool = False
  tpu_config: TPUConfig = dataclasses.field(default_factory=TPUConfig)
  gpu_config: GPUConfig = dataclasses.field(default_factory=GPUConfig)
  cluster: str = ""
  train_input_service: str = ""
  cluster_timeout_secs: setting_types.NotNegative | _Time = 600.0

  def __post_init__(self) -> None:
    durations.TrainingLength(None, self.epoch_examples, self.train_steps)  # This checks both.
    if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
      raise errors.SettingError(
        "RunConfig: set save_checkpoints_steps or save_checkpoints_secs, not both."
      )
    for name in ("save_checkpoints_secs", "stage_timeout_secs", "cluster_timeout_secs"):
      seconds_of(getattr(self, name), f"RunConfig.{name}")
    setting_types.check(
      self.stage_seconds, setting_types.Positive | None, "RunConfig.stage_timeout_secs"
    )

  @property
  def checkpoint_steps(self) -> int | None:
    """Steps between checkpoints; None if steps do not decide."""
    return self.save_checkpoints_steps or None

  @property
  def checkpoint_seconds(self) -> float | None:
    """Seconds between checkpoints; None if time does not decide."""
    if self.save_checkpoints_steps is None and self.save_checkpoints_secs is None:
      return 600.0
    return seconds_of(self.save_checkpoints_secs or 0, "RunConfig.save_checkpoints_secs") or None

  @property
  def stage_seconds(self) -> float | None:
    """Seconds that a stage may take; None for no limit."""
    if self.stage_timeout_secs is None:
      return None
    return seconds_of(self.stage_timeout_secs, "RunConfig.stage_timeout_secs")

  @property
  def cluster_seconds(self) -> float:
    """Seconds to wait for the other workers of the cluster."""
    return seconds_of(self.cluster_timeout_secs, "RunConfig.cluster_timeout_secs")


def check_training_length(steps: int | None, max_steps: int | None) -> None:
  """Raises SettingError unless at most one of them has a value, an int > 0."""
  if steps is not None and max_steps is not None:
    raise errors.SettingError(f"train: set steps ({steps}) or max_steps ({max_steps}), not both.")
  for name, value in (("steps", steps), ("max_steps", max_steps)):
    setting_types.check(value, setting_types.Count | None, f"train: {name}")


def choose_model_dir(model_dir: str | os.PathLike | None, config: RunConfig) -> str:
  """Returns the folder of a run: model_dir, config.model_dir, or a new temporary one; absolute.

  Raises:
    SettingError: both have a value, and they differ.
  """
  if model_dir and config.model_dir and absolute_dir(model_dir) != absolute_dir(config.model_dir):
    raise errors.SettingError(
      f"model_dir is {model_dir!r}, and config.model_dir is {config.model_dir!r}: set only one."
    )
  chosen = model_dir or config.model_dir
  if not chosen:
    chosen = tempfile.mkdtemp()
    logging.warning("No model_dir: writing to the temporary folder %s", chosen)
  return absolute_dir(chosen)


def absolute_dir(path: str | os.PathLike) -> str:
  """Returns the absolute path of a folder, without ".", ".." and a final "/".

  The path stays valid when the process changes its working directory.
  """
  path = os.fspath(path).removeprefix("file://")
  if "://" in path:
    scheme, _, rest = path.partition("://")
    if {".", ".."} & set(rest.split("/")):
      rest = posixpath.normpath(rest)
    return f"{scheme}://{rest.rstrip('/')}"
  # If x is a link, x/.. means the parent of the link's target.
  return os.path.realpath(path) if ".." in path.split(os.sep) else os.path.abspath(path)
