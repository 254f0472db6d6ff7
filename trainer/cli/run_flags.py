"""The flags that several commands hand on to a run. Only the main files of commands import this.

    _DEVICE = run_flags.define_device()

A flag belongs to the command that defines it: other commands refuse the flag.
"""

from absl import flags

flags.disclaim_key_flags()  # absl takes the caller of a function below for the definer.


def define_device() -> flags.FlagHolder[str]:
  """Defines --device."""
  return flags.DEFINE_string(
    "device",
    "auto",
    "auto, cpu, cpu:8 (eight virtual cores), gpu, xla:8, xla:gpu, xla:gpu:N or tpu.",
  )


def define_tpu() -> flags.FlagHolder[str]:
  """Defines --tpu."""
  return flags.DEFINE_string(
    "tpu", "", "local, or nothing: PJRT drives the TPU of this machine, with --device=tpu."
  )


def define_precision() -> flags.FlagHolder[str]:
  """Defines --precision."""
  return flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "bfloat16"],
    "The number type of the layers' arithmetic. Variables are float32 with both.",
  )


def define_seed() -> flags.FlagHolder[int | None]:
  """Defines --seed."""
  return flags.DEFINE_integer("seed", None, "The run's seed. Default: RunConfig.tf_random_seed.")
