"""The models of a server, each in its newest version."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from trainer.serving import predictor, refusals
from trainer.serving.loaded_model import LoadedModel
from trainer.serving.measurements import Measurements
from trainer.serving.service import Service


@dataclasses.dataclass(frozen=True)
class Catalogue:
  """The models of a server.

  Attributes:
    models: name → the model; it takes newer exports.
    measurements: of all models.
  """

  models: Mapping[str, Service]
  measurements: Measurements

  def start(self) -> None:
    """Starts the threads of all models."""
    for service in self.models.values():
      service.start()

  def close(self) -> None:
    """Ends the threads of all models."""
    for service in self.models.values():
      service.close()

  def require(self, name: str) -> Service:
    """Returns a model; NotFoundError if there is no such model."""
    if name not in self.models:
      there = ", ".join(map(repr, self.models))
      are = "is" if len(self.models) == 1 else "are"
      raise refusals.NotFoundError(f"There is no model {name[:50]!r} here; there {are} {there}.")
    return self.models[name]

  def find(self, name: str, version: str | None = None) -> tuple[Service, LoadedModel]:
    """Finds the model that a path names.

    Args:
      name: of the model.
      version: of the export; None for the newest.

    Returns:
      (the model, its loaded version). A newer export may take the version's place meanwhile.

    Raises:
      NotFoundError: there is no such model, or the server has loaded another version.
    """
    service = self.require(name)
    loaded = service.predictor.loaded
    if version not in (None, loaded.version):
      raise refusals.NotFoundError(
        f"The server has not loaded version {version[:50]}; it has {loaded.version}."
      )
    return service, loaded

  def measure(self, accept: str) -> tuple[bytes, str]:
    """Returns (content, content type) of the measurements, see `Measurements.expose`."""
    for name, service in self.models.items():
      self.measurements.set_version(name, service.predictor.loaded.version)
    return self.measurements.expose(accept)


def load(
  folders: Mapping[str, str], predictor_settings: Mapping[str, Any], **settings: Any
) -> Catalogue:
  """Loads models.

  Args:
    folders: name → folder of exports, or one SavedModel.
    predictor_settings: of `predictor.Predictor`.
    **settings: of `service.Service`.

  Raises:
    InputError: an export is not there.
    SettingError, ExportError: the engine cannot run an export.
  """
  measurements = Measurements(folders)
  models = {
    name: Service(predictor.Predictor(folder, **predictor_settings), name, measurements, **settings)
    for name, folder in folders.items()
  }
  return Catalogue(models, measurements)
