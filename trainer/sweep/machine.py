"""Divides the machine among the workers of a sweep: its cores, and its GPUs if it has some."""

import glob
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from trainer import errors
from trainer.devices import device_names, nvidia_driver

_Thing = TypeVar("_Thing")


def shares(things: Sequence[_Thing], workers: int) -> list[list[_Thing]]:
  """Divides things into consecutive shares of almost equal size, one for each worker.

  If there are fewer things than workers, several workers share one.
  """
  if len(things) < workers:
    return [[things[worker % len(things)]] if things else [] for worker in range(workers)]
  bounds = [worker * len(things) // workers for worker in range(workers + 1)]
  return [list(things[low:high]) for low, high in itertools.pairwise(bounds)]


def cores() -> list[int]:
  """Returns the numbers of the cores that this process may use; [] if the system does not tell."""
  return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def gpus(
  environment: Mapping[str, str] = os.environ, pattern: str = "/dev/nvidia[0-9]*"
) -> list[str]:
  """Returns the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them.

  Args:
    environment: the environment variables.
    pattern: glob of the GPUs' device files, for a machine without CUDA_VISIBLE_DEVICES.
  """
  visible = nvidia_driver.visible(environment)
  if visible is not None:
    return visible
  numbers = (re.search(r"\d+$", path) for path in glob.glob(pattern))
  return sorted((number[0] for number in numbers if number), key=int)


def slots(
  workers: int,
  device: str = "auto",
  the_cores: Sequence[int] | None = None,
  the_gpus: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
  """Divides cores and GPUs among workers.

  Args:
    workers: number of trials that run at a time.
    device: the trials' --device.
    the_cores: numbers of cores; None for all that this process may use.
    the_gpus: names of GPUs; None for all that this process may use.

  Returns:
    For each worker, a dict with "cores" (numbers) and "environment" (variables to set).

  Raises:
    SettingError: several workers ask for one TPU, or there are too few GPUs for the workers.
  """
  if device == "tpu" and workers > 1:
    raise errors.SettingError(
      f"--workers={workers}: one process at a time uses a TPU; give --workers=1."
    )
  the_cores = cores() if the_cores is None else the_cores
  the_gpus = gpus() if the_gpus is None else the_gpus
  kind, count = device_names.split(device)
  wanted = count or 1 if kind in ("gpu", "xla:gpu") else 0
  if wanted * workers > len(the_gpus):
    raise errors.SettingError(
      f"--workers={workers} with --device={device} need {wanted * workers} GPUs; this machine has "
      f"{len(the_gpus)}. Give fewer --workers."
    )
  found = []
  for core_share, gpu_share in zip(
    shares(the_cores, workers), shares(the_gpus, workers), strict=True
  ):
    environment = {"OMP_NUM_THREADS": str(len(core_share))} if core_share else {}
    if gpu_share:
      environment["CUDA_VISIBLE_DEVICES"] = ",".join(gpu_share)
    found.append({"cores": core_share, "environment": environment})
  return found
