"""What the hooks of this room ask of an Estimator."""

from collections.abc import Mapping
from typing import Any, Protocol

from trainer.devices import device as device_lib


class Estimator(Protocol):
  """An Estimator, as hooks see it; see `trainer.estimator.estimator`."""

  @property
  def model_dir(self) -> str:
    """The folder of the run."""

  @property
  def device(self) -> device_lib.Device:
    """The Device."""

  @property
  def variables(self) -> Mapping[str, Any]:
    """The variables by name."""

  def latest_step(self) -> int | None:
    """Returns the step of the newest checkpoint, or None."""
