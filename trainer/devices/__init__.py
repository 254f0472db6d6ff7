"""The hardware of a run: CPUs, GPUs, TPUs, several machines; checks of the installation."""

__all__ = [
  "cluster",
  "device",
  "device_names",
  "gpu_config",
  "gpus",
  "nvidia_driver",
  "replica",
  "tensorflow_behavior",
  "tensorflow_package",
  "workers",
]
