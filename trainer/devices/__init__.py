"""The hardware of a run: CPUs, GPUs, TPUs, several machines; checks of the installation."""

__all__ = [
  "cluster",
  "device",
  "energy",
  "gpu_config",
  "gpus",
  "replica",
  "tensorflow_behavior",
  "tensorflow_package",
  "workers",
]
