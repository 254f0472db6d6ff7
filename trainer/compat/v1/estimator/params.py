"""The params that a program's functions get: a dict or HParams of its own, and what Octet adds."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from trainer.devices import device as device_lib


@dataclasses.dataclass(frozen=True)
class TPUContext:
  """params["context"]: on which cores of a TPU, or in its place, a function of the program runs.

  Attributes:
    num_replicas: cores that take part.
    num_hosts: machines that read input.
    current_host: which of them this is.
  """

  num_replicas: int
  num_hosts: int = 1
  current_host: int = 0

  @property
  def num_cores(self) -> int:
    return self.num_replicas

  @property
  def num_of_replicas_per_host(self) -> int:
    return self.num_replicas // self.num_hosts

  def current_input_fn_deployment(self) -> tuple[str, int, int, int]:
    """(device, which call of the input_fn this is, how many there are, replicas of this host)."""
    return "/cpu:0", self.current_host, self.num_hosts, self.num_of_replicas_per_host

  def device_for_replica(self, replica_id: int) -> tuple[str, int]:
    """(host device, ordinal) of a replica."""
    return "/cpu:0", replica_id % self.num_of_replicas_per_host


def context(device: device_lib.Device) -> TPUContext:
  """The TPUContext of a device."""
  if not device.is_multi_worker:  # the hosts of a TPU slice share what one call of it makes
    return TPUContext(device.replicas)
  return TPUContext(device.replicas, device.hosts, device.host)


def as_dict(params: Any) -> dict[str, Any]:
  """A program's params, a mapping, HParams or None, as a dict."""
  if params is None:
    return {}
  return dict(params if isinstance(params, Mapping) else params.values())


def like(given: Any, params: Mapping[str, Any]) -> Any:
  """Params of the kind that the program gave, a copy, with all values of a dict."""
  if given is None or isinstance(given, Mapping):
    return copy.deepcopy(dict(params))
  made = copy.deepcopy(given)
  for name, value in params.items():
    if name in made:
      made.set_hparam(name, value)
    else:
      made.add_hparam(name, value)
  return made
