"""Where a run computes: CPUs, GPUs, TPUs, several machines; and does what is installed fit them."""

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
