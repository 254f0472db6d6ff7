"""A device, as an input pipeline sees it."""

import dataclasses
import types
from typing import Any


@dataclasses.dataclass
class Device:
  """The attributes of devices.device.Device that a Feeder reads."""

  replicas: int = 1
  local_replicas: int = 1
  hosts: int = 1
  host: int = 0
  job: str | None = None
  runs_by_pjrt: bool = False
  resembles_tpu: bool = False

  @property
  def link(self) -> Any:
    """The link, with the job as its token."""
    return self.job and types.SimpleNamespace(token=self.job)
