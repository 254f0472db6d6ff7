"""What each worker of a sweep gets of the machine: cores, and GPUs where there are some."""

import glob
import itertools
import os
import re

from trainer import errors


def shares(things, workers):
  """`workers` lists: the things cut into consecutive shares as equal as can be; where they are
  fewer than the workers, each is used by several.
  """
  if len(things) < workers:
    return [[things[worker % len(things)]] if things else [] for worker in range(workers)]
  bounds = [worker * len(things) // workers for worker in range(workers + 1)]
  return [list(things[low:high]) for low, high in itertools.pairwise(bounds)]


def cores():
  """The numbers of the cores that this process may use; [] where the system does not tell."""
  return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def gpus(environment=os.environ, pattern="/dev/nvidia[0-9]*"):
  """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
  if "CUDA_VISIBLE_DEVICES" in environment:
    return [
      name for name in environment["CUDA_VISIBLE_DEVICES"].split(",") if name and name != "-1"
    ]
  return sorted((re.search(r"\d+$", path)[0] for path in glob.glob(pattern)), key=int)


def slots(workers, device="auto", the_cores=None, the_gpus=None):
  """What each worker's trials get, as list of dicts: "cores", their numbers, and "environment",
  variables to set.

  Args:
    workers: how many trials run at a time.
    device: the trials' --device.
    the_cores, the_gpus: default: those that are there.

  Raises:
    SettingError: several workers, and a TPU, which one process has for itself; or a GPU is wanted
      by more workers than there are GPUs for.
  """
  if device == "tpu" and workers > 1:
    raise errors.SettingError(
      f"--workers={workers}: a TPU is used by one process at a time; give --workers=1."
    )
  the_cores = cores() if the_cores is None else the_cores
  the_gpus = gpus() if the_gpus is None else the_gpus
  wanted = int(device.partition(":")[2] or 1) if device.startswith("gpu") else 0
  if wanted * workers > len(the_gpus):
    raise errors.SettingError(
      f"--workers={workers} with --device={device} need {wanted * workers} GPUs; {len(the_gpus)} "
      "were found. Give fewer --workers."
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
