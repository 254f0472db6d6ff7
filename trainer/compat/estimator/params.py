"""The params of a program's functions: its own, of any kind, and Octet's additions."""

import copy
import dataclasses
from collections.abc import Mapping, MutableMapping
from typing import Any

from trainer import errors
from trainer.devices import device as device_lib


@dataclasses.dataclass(frozen=True)
class TPUContext:
  """params["context"]: the cores, of a TPU or instead of one, that a program's function runs on.

  Attributes:
    num_replicas: the number of cores.
    num_hosts: the number of machines that read input.
    current_host: the index of this machine.
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
    """Returns (device, index of this input_fn call, number of calls, replicas of this host)."""
    return "/cpu:0", self.current_host, self.num_hosts, self.num_of_replicas_per_host

  def device_for_replica(self, replica_id: int) -> tuple[str, int]:
    """Returns (host device, ordinal) of a replica."""
    return "/cpu:0", replica_id % self.num_of_replicas_per_host


def context(device: device_lib.Device) -> TPUContext:
  """Returns the TPUContext of a device."""
  if not device.is_multi_worker:  # the hosts of a TPU slice share the result of one input_fn call
    return TPUContext(device.replicas)
  return TPUContext(device.replicas, device.hosts, device.host)


def copied(params: Any) -> Any:
  """Returns a deep copy of a program's params of any kind; {} for None.

  Raises:
    SettingError: a value has no copy.
  """
  try:
    return {} if params is None else copy.deepcopy(params)
  except (TypeError, RecursionError, copy.Error) as error:
    raise errors.SettingError(
      f"Octet cannot copy a value of params {params!r} ({error}): pass its arguments instead, "
      "and make it in the model_fn."
    ) from error


def as_dict(params: Any) -> dict[str, Any]:
  """Returns the names and values of a mapping or HParams; {} for params of other kinds."""
  if isinstance(params, Mapping):
    return dict(params)
  return dict(params.values()) if _is_hparams(params) else {}


def check_takes_items(params: Any) -> None:
  """Checks that a TPUEstimator can add "batch_size" and the like to a program's params.

  Raises:
    SettingError: params are no mapping, no HParams, and have no `params[name] = 8`.
  """
  if params is None or isinstance(params, Mapping) or _is_hparams(params):
    return
  if not hasattr(params, "__setitem__"):
    raise errors.SettingError(
      f"TPUEstimator(params={params!r}): expected a dict, HParams or a class with __setitem__, "
      'because Octet adds params["batch_size"]. Pass vars(params), or params._asdict().'
    )


def with_items(params: Any, items: Mapping[str, Any]) -> Any:
  """Returns a copy of a program's params with these items added or replaced."""
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
