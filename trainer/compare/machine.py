"""Describes the machine of a row, and its devices."""

import contextlib
import os
import pathlib
import platform
from typing import Any

import tensorflow as tf

from trainer.devices import device as device_lib
from trainer.devices import gpus
from trainer.pjrt import tpu


def devices() -> dict[str, int]:
  """Returns kind → number of devices: "gpu", "xla:gpu", and "tpu", for "tpu" 0 or 1."""
  return {
    "gpu": len(tf.config.list_physical_devices("GPU")),
    "xla:gpu": gpus.of_pjrt(),
    "tpu": int(bool(tpu.signs())),
  }


def describe() -> dict[str, Any]:
  """Returns the machine and its software, as texts and ints."""
  import keras

  import trainer

  return {
    "host": platform.node(),
    "processor": processor(),
    "cpu_cores": os.cpu_count(),
    "tensorflow": tf.__version__,
    "keras": keras.__version__,
    "octet": trainer.__version__,
  }


def hardware(device: device_lib.Device, tpu_type: str = "") -> str:
  """Returns the name of the hardware that a device computes on.

  Args:
    device: the device.
    tpu_type: "v3-8" and the like, if the user gave it; otherwise the function asks the environment
      variable TPU_ACCELERATOR_TYPE of a TPU VM. Price tables use these names, not PJRT's.
  """
  if device.kind == "tpu":
    named = tpu_type or os.environ.get("TPU_ACCELERATOR_TYPE")
    return f"TPU {named}" if named else f"{device.replicas} × {device.chip}"
  if device.uses_gpus:
    name = device.chip or gpus.names()[0]
    return f"{device.local_replicas} × {name}" if device.local_replicas > 1 else name
  return processor()


def processor() -> str:
  """Returns the name of the CPU, with the number of its cores."""
  name = platform.processor() or platform.machine()
  with contextlib.suppress(OSError):  # Only Linux has this file.
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
      if line.startswith("model name"):
        name = line.partition(":")[2].strip()
        break
  for mark in ("(R)", "(TM)", "(tm)", " CPU", " Processor"):
    name = name.replace(mark, "")
  return f"{' '.join(name.split())}, {os.cpu_count()} cores"


def device_memory_bytes(device: device_lib.Device) -> int | None:
  """Returns the most memory that the GPUs of a device had in use; None for other devices."""
  if device.kind != "gpu":
    return None
  return sum(
    tf.config.experimental.get_memory_info(f"GPU:{index}")["peak"]
    for index in range(device.local_replicas)
  )
