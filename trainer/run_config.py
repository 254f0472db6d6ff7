"""How a run goes: where it writes, how often, on what.

Plain values, complete once made; gin names `RunConfig` and `TPUConfig`.
"""

import dataclasses
import enum
import numbers
import re
from typing import Any

from trainer import durations, errors
from trainer.config import gin_names


@gin_names.constants_from_enum(module="trainer")
class InputPipelineConfig(enum.Enum):
  """What `params["batch_size"]` an input_fn gets, and how its batches go to the cores."""

  PER_HOST_V1 = "PER_HOST_V1"  # the host's share of the global batch, cut among its cores
  PER_HOST_V2 = "PER_HOST_V2"  # the per-core batch; the dataset's batches go to the cores in turn
  BROADCAST = "BROADCAST"  # evaluate and predict: every core gets the same batch


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def seconds_of(duration, name):
  """The seconds of "30s", "5m" or "1h"; SettingError under `name` otherwise."""
  match = _DURATION.fullmatch(duration)
  if not match:
    raise errors.SettingError(
      f"{name} is {duration!r}: expected a number of steps, or a time such as '30s', '5m', '1h'."
    )
  return float(match[1]) * _SECONDS[match[2]]


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class TPUConfig:
  """The part of a run's configuration that TPU programs know.

  Attributes:
    iterations_per_loop: steps in one call of the device: a number, a time ("30s", "5m", "1h"), or
      None for the longest loop that no cadence (checkpoint, summary, log) forbids. It never changes
      the numbers.
    num_shards: the number of replicas that the program expects, or None; another number on the
      device is an error.
    per_host_input_for_training: one of InputPipelineConfig (True and False as TPU programs know
      them: PER_HOST_V1).
    eval_training_input_configuration: PER_HOST_V2, or BROADCAST for evaluation and prediction that
      give every core the same batch.
    host_call_every_n_steps: how often an EstimatorSpec's host_call is made.
  """

  iterations_per_loop: int | str | None = None
  num_shards: int | None = None
  per_host_input_for_training: InputPipelineConfig | bool = InputPipelineConfig.PER_HOST_V2
  eval_training_input_configuration: InputPipelineConfig = InputPipelineConfig.PER_HOST_V2
  host_call_every_n_steps: int = 1

  def __post_init__(self):
    loop = self.iterations_per_loop
    if isinstance(loop, str):
      seconds_of(loop, "TPUConfig.iterations_per_loop")
    elif loop is not None:
      require_positive_int(loop, "TPUConfig.iterations_per_loop")
    if self.num_shards is not None:
      require_positive_int(self.num_shards, "TPUConfig.num_shards")
    require_positive_int(self.host_call_every_n_steps, "TPUConfig.host_call_every_n_steps")
    if not isinstance(self.per_host_input_for_training, InputPipelineConfig | bool) or (
      self.per_host_input_for_training == InputPipelineConfig.BROADCAST
    ):
      raise errors.SettingError(
        f"TPUConfig.per_host_input_for_training is {self.per_host_input_for_training}: expected "
        "InputPipelineConfig.PER_HOST_V2 or PER_HOST_V1."
      )
    if self.eval_training_input_configuration not in (
      InputPipelineConfig.PER_HOST_V2,
      InputPipelineConfig.BROADCAST,
    ):
      raise errors.SettingError(
        "TPUConfig.eval_training_input_configuration is "
        f"{self.eval_training_input_configuration}: expected InputPipelineConfig.PER_HOST_V2 or "
        "BROADCAST."
      )

  @property
  def gives_host_batches(self):
    """Whether the train input_fn gets, and gives, its host's share of the global batch."""
    return self.per_host_input_for_training in (True, False, InputPipelineConfig.PER_HOST_V1)

  @property
  def broadcasts(self):
    """Whether evaluation and prediction give every core the same batch."""
    return self.eval_training_input_configuration == InputPipelineConfig.BROADCAST


@gin_names.configurable(
  module="trainer", denylist=["model_dir", "device", "tpu", "precision", "train_steps", "force"]
)
@dataclasses.dataclass(frozen=True)
class RunConfig:
  """The configuration of an Estimator.

  Attributes:
    model_dir: where checkpoints, summaries and configurations go.
    device: see `trainer.devices.device.connect`: "auto", "cpu", "cpu:8", "gpu", "gpu:N", "tpu".
    tpu: the name or address of a TPU, where device is "tpu"; "" to find it.
    precision: "float32" or "bfloat16", that of Keras layers; variables are float32 in both.
    tf_random_seed: int, the run's seed.
    save_checkpoints_steps, save_checkpoints_secs: how often; not both; every 600 s if neither is
      given. 0 for neither but the first and the last.
    keep_checkpoint_max: how many of the newest checkpoints are kept; 0 keeps all. More can be kept:
      see retention.
    retention: a retention.Retention; default: the newest keep_checkpoint_max.
    on_checkpoint_failure: "raise", or "warn" to train on where a checkpoint cannot be written.
    on_non_finite: what follows a loss that is NaN or infinite: "stop" ends the run with an error;
      "rollback" goes back to the last good checkpoint and on with the examples that follow.
    stage_timeout_secs: ends the process when a stage (connecting, an input_fn, a device loop, a
      hook, saving, evaluating) takes longer, and prints the stacks of all threads; None for never.
    evaluate_ema: whether evaluation, prediction and export take the moving averages of the weights,
      where the training keeps them (see trainer.minimize, ema_decay).
    save_summary_steps: how often training scalars are written for TensorBoard.
    log_step_count_steps: how often a line is logged.
    train_steps: how long the whole training is to be, for learning-rate schedules that last as
      long, or a part of it: a number of steps, or a duration such as "50 epochs" (see
      `trainer.durations`). It ends no training: Estimator.train is told when to. `run` sets it to
      run.train_steps.
    epoch_examples: the examples of an epoch, for durations in epochs.
    cpu_kernels: whether Keras's Adam, BatchNormalization and dropout use faster versions on CPUs
      (see `trainer.tracing.cpu_kernels`). None, the default: on `cpu` yes; on `cpu:8`, which
      rehearses a TPU's arithmetic, no: there Keras's own operations run. True: on every CPU device.
      False: never. GPUs and TPUs never use them. With one or the other, results differ by rounding
      and dropout draws other masks.
    static_shapes: whether the shapes of a batch must be known before it comes. False lets them
      differ from batch to batch on a single CPU or GPU, as Estimator programs may have them;
      several cores and TPUs need them in any case.
    force: whether a training takes model_dir from another one that goes on there, which then ends
      at its next save (see `trainer.loop.training_lock`).
    tpu_config: a TPUConfig.
  """

  model_dir: str | None = None
  device: str = "auto"
  tpu: str = ""
  precision: str = "float32"
  tf_random_seed: int = 1
  save_checkpoints_steps: int | None = None
  save_checkpoints_secs: float | None = None
  keep_checkpoint_max: int = 5
  retention: Any = None
  on_checkpoint_failure: str = "raise"
  on_non_finite: str = "stop"
  stage_timeout_secs: float | None = 3600.0
  evaluate_ema: bool = True
  save_summary_steps: int = 100
  log_step_count_steps: int = 100
  train_steps: int | str | None = None
  epoch_examples: int | None = None
  cpu_kernels: bool | None = None
  static_shapes: bool = True
  force: bool = False
  tpu_config: Any = dataclasses.field(default_factory=lambda: TPUConfig())

  def __post_init__(self):
    durations.TrainingLength(None, self.epoch_examples, self.train_steps)
    if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
      raise errors.SettingError(
        "RunConfig: set save_checkpoints_steps or save_checkpoints_secs, not both."
      )
    for name in ("save_summary_steps", "log_step_count_steps"):
      require_positive_int(getattr(self, name), f"RunConfig.{name}")
    for name, kinds in (
      ("save_checkpoints_steps", int),
      ("save_checkpoints_secs", int | float),
      ("keep_checkpoint_max", int),
    ):
      value = getattr(self, name)
      if value is not None and (
        isinstance(value, bool) or not isinstance(value, kinds) or value < 0
      ):
        raise errors.SettingError(
          f"RunConfig.{name} must be "
          f"{'an int' if kinds is int else 'a number'} of at least 0; got "
          f"{value!r}."
        )
    if self.on_checkpoint_failure not in ("raise", "warn"):
      raise errors.SettingError(
        "RunConfig.on_checkpoint_failure is "
        f"{self.on_checkpoint_failure!r}; expected 'raise' or 'warn'."
      )
    if self.on_non_finite not in ("stop", "rollback"):
      raise errors.SettingError(
        f"RunConfig.on_non_finite is {self.on_non_finite!r}; expected 'stop' or 'rollback'."
      )
    if self.stage_timeout_secs is not None and not self.stage_timeout_secs > 0:
      raise errors.SettingError(
        "RunConfig.stage_timeout_secs must be greater than 0, or None for "
        f"no limit; got {self.stage_timeout_secs!r}."
      )
    if self.precision not in ("float32", "bfloat16"):
      raise errors.SettingError(
        f"precision is {self.precision!r}; expected 'float32' or 'bfloat16' (--precision)."
      )
    if self.cpu_kernels not in (True, False, None):
      raise errors.SettingError(
        f"RunConfig.cpu_kernels is {self.cpu_kernels!r}; expected True, False, or None for the "
        "device's default."
      )
    if isinstance(self.tf_random_seed, bool) or not isinstance(self.tf_random_seed, int):
      raise errors.SettingError(
        f"RunConfig.tf_random_seed must be an int; got {self.tf_random_seed!r} (--seed)."
      )

  @property
  def checkpoint_steps(self):
    """Steps between checkpoints, or None."""
    return self.save_checkpoints_steps or None

  @property
  def checkpoint_seconds(self):
    """Seconds between checkpoints, or None."""
    if self.save_checkpoints_steps is None and self.save_checkpoints_secs is None:
      return 600.0
    return self.save_checkpoints_secs or None


def require_min_or_max(value, name):
  """Raises SettingError unless value, which tells whether less or more of a metric is better,
  is "min" or "max".
  """
  if value not in ("min", "max"):
    raise errors.SettingError(f"{name} is {value!r}; expected 'min' or 'max'.")


def require_positive_int(value, name):
  """Raises SettingError unless value is an int > 0."""
  # Those of numpy too.
  if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value <= 0:
    raise errors.SettingError(f"{name} must be an int greater than 0; got {value!r}.")
