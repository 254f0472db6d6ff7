"""Counts the energy that the machine's processors and NVIDIA GPUs take.

    meter = energy.Meter()
    ...
    meter.take()   # joules since the last call; None where there is no counter

Linux shows the counters of Intel's and AMD's processors (RAPL) in /sys/class/powercap, by default
to root alone: https://docs.kernel.org/power/powercap/powercap.html. Those of GPUs come from NVML.
They count everything that runs on the machine.
"""

import glob
import os

from trainer.devices import nvidia_driver

# One folder for each processor. Its count includes its parts, such as intel-rapl:0:0.
_PROCESSORS = "/sys/class/powercap/intel-rapl:[0-9]*"


class Meter:
  """Counts from its construction on.

  Args:
    processors: glob of the folders of processors.
    counts_gpus: whether the training is on GPUs, and those of the machine count.
  """

  def __init__(self, processors: str = _PROCESSORS, counts_gpus: bool = False) -> None:
    self._counts_gpus = counts_gpus
    # counter → its largest value, after which it begins at 0 again; 0 if it never does.
    self._largest: dict[str, int] = {}
    for folder in sorted(glob.glob(processors)):
      counter, largest = (
        os.path.join(folder, name) for name in ("energy_uj", "max_energy_range_uj")
      )
      if folder.count(":") == 1 and None not in (_number(counter), _number(largest)):
        self._largest[counter] = _number(largest) or 0
    self._then = self._read()

  def take(self) -> float | None:
    """Returns the joules since the last call, or since the construction; None if unknown."""
    now, then = self._read(), self._then
    self._then = now
    if not now or now.keys() != then.keys():
      return None
    return sum(self._between(counter, then[counter], now[counter]) for counter in now) / 1e6

  def _between(self, counter, then, now):
    return now - then if now >= then else now - then + self._largest.get(counter, 0)

  def _read(self):
    """Returns counter → microjoules."""
    found = {counter: _number(counter) for counter in self._largest}
    found = {counter: value for counter, value in found.items() if value is not None}
    gpus = nvidia_driver.energy() if self._counts_gpus else ()
    return found | {f"GPU {index}": 1000 * value for index, value in enumerate(gpus)}


def _number(path):
  try:
    with open(path) as file:
      return int(file.read())
  except (OSError, ValueError):  # not for this user, or no counter
    return None
