"""The models of a server: the newest version of each, and labelled versions."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from trainer.serving import predictor, refusals
from trainer.serving.loaded_model import LoadedModel
from trainer.serving.measurements import Measurements
from trainer.serving.service import Service


class Found(NamedTuple):
  """The version of a model that answers a request.

  Attributes:
    service: runs it.
    loaded: the version. A newer export may take its place in the service meanwhile.
  """

  service: Service
  loaded: LoadedModel


@dataclasses.dataclass(frozen=True)
class Catalogue:
  """The models of a server.

  Attributes:
    newest: name → the model; it takes newer exports.
    measurements: of all models.
    labelled: (name, label) → a version of that model; no newer export replaces it.
  """

  newest: Mapping[str, Service]
  measurements: Measurements
  labelled: Mapping[tuple[str, str], Service] = dataclasses.field(default_factory=dict)

  def start(self) -> None:
    """Starts the threads of all models."""
    for service in self._all():
      service.start()

  def close(self) -> None:
    """Ends the threads of all models."""
    for service in self._all():
      service.close()

  def require(self, name: str) -> None:
    """Raises NotFoundError if there is no such model."""
    if name not in self.newest:
      there = ", ".join(map(repr, self.newest))
      are = "is" if len(self.newest) == 1 else "are"
      raise refusals.NotFoundError(f"There is no model {name[:50]!r} here; there {are} {there}.")

  def find(self, name: str, version: str | None = None, label: str | None = None) -> Found:
    """Finds the model that a path names.

    Args:
      name: of the model.
      version: of the export; None for the newest.
      label: of a version; None for the newest.

    Raises:
      NotFoundError: there is no such model or label, or the server has not loaded this version.
    """
    self.require(name)
    if label is not None:
      if (name, label) not in self.labelled:
        raise refusals.NotFoundError(
          f"No version of {name!r} has the label {label[:50]!r} (--version_label)."
        )
      return _found(self.labelled[name, label])
    if version is None:
      return _found(self.newest[name])
    found = {each.loaded.version: each for each in map(_found, self._of(name))}
    if version not in found:
      raise refusals.NotFoundError(
        f"The server has not loaded version {version[:50]}; it has {', '.join(found)}."
      )
    return found[version]

  def versions(self, name: str) -> list[LoadedModel]:
    """Returns the loaded versions of a model, each once.

    Raises:
      NotFoundError: there is no such model.
    """
    self.require(name)
    # A labelled version that is also the newest one is in memory twice, and counts once.
    loaded = [service.predictor.loaded for service in self._of(name)]
    return list({each.version: each for each in loaded}.values())

  def measure(self, accept: str) -> tuple[bytes, str]:
    """Returns (content, content type) of the measurements, see `Measurements.expose`."""
    for name, service in self.newest.items():
      self.measurements.set_version(name, service.predictor.loaded.version)
    return self.measurements.expose(accept)

  def _of(self, name: str) -> Iterator[Service]:
    # The newest comes last, so that it answers where a labelled version is the newest too.
    yield from (one for (named, _), one in self.labelled.items() if named == name)
    yield self.newest[name]

  def _all(self) -> Iterator[Service]:
    yield from self.labelled.values()
    yield from self.newest.values()


def _found(service):
  return Found(service, service.predictor.loaded)


def load(
  folders: Mapping[str, str],
  labels: Mapping[tuple[str, str], str],
  predictor_settings: Mapping[str, Any],
  **settings: Any,
) -> Catalogue:
  """Loads models.

  Args:
    folders: name → folder of exports, or one SavedModel.
    labels: (name, label) → version.
    predictor_settings: of `predictor.Predictor`.
    **settings: of `service.Service`.

  Raises:
    InputError: an export is not there.
    SettingError, ExportError: the engine cannot run an export.
  """
  measurements = Measurements(folders)

  def load_one(name, source, **options):
    return Service(predictor.Predictor(source, **predictor_settings), name, measurements, **options)

  newest = {name: load_one(name, folder, **settings) for name, folder in folders.items()}
  labelled = {}
  for (name, label), version in labels.items():
    # The folder of one version never has a newer export.
    options = {**settings, "reload_secs": 0}
    labelled[name, label] = load_one(name, os.path.join(folders[name], version), **options)
  return Catalogue(newest, measurements, labelled)
