"""The params that a program's functions get: its own, of any kind, and what Octet adds."""

import copy
import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any

from trainer import errors
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


def copied(params: Any) -> Any:
  """A deep copy of a program's params, of whatever kind; {} for None.

  Raises:
    SettingError: a value of them cannot be copied.
  """
  try:
    return {} if params is None else copy.deepcopy(params)
  except (TypeError, RecursionError, copy.Error) as error:
    raise errors.SettingError(
      f"params {params!r} has a value that cannot be copied ({error}): give what it is made of, "
      "and make it in the model_fn."
    ) from error


def as_dict(params: Any) -> dict[str, Any]:
  """The names and values of a mapping or HParams, {} of params of another kind."""
  if isinstance(params, Mapping):
    return dict(params)
  return dict(params.values()) if _is_hparams(params) else {}


def check_takes_items(params: Any) -> None:
  """Checks that a TPUEstimator can add "batch_size" and the like to a program's params.

  Raises:
    SettingError: they are no mapping, no HParams, and not to be written to as `params[name] = 8`.
  """
  if params is None or isinstance(params, Mapping) or _is_hparams(params):
    return
  if not hasattr(params, "__setitem__"):
    raise errors.SettingError(
      f"TPUEstimator(params={params!r}): expected a dict, HParams or a class with __setitem__, "
      'for params["batch_size"] is added to them. Give vars(params), or params._asdict().'
    )


def with_items(params: Any, items: Mapping[str, Any]) -> Any:
  """A copy of a program's params, with these beside or in the place of its own."""
  made = copied(params)
  if isinstance(made, Mapping) and not isinstance(made, MutableMapping):
    made = dict(made)
  for name, value in items.items():
    if not _is_hparams(made):
      made[name] = value
    elif name in made:
      made.set_hparam(name, value)
    else:
      made.add_hparam(name, value)
  return made


def _is_hparams(params: Any) -> bool:
  return hasattr(params, "set_hparam")
