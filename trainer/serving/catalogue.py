"""The models of a server: the newest version of each, and versions that have labels."""

import dataclasses
import os
from collections.abc import Iterator, Mapping
from typing import Any

from trainer.serving import measurements, predictor, refusals
from trainer.serving.service import Service


@dataclasses.dataclass(frozen=True)
class Catalogue:
  """The models of a server.

  Attributes:
    newest: name → the model, which takes newer exports.
    labelled: (name, label) → a version of that model, which stays as it is.
  """

  newest: Mapping[str, Service]
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

  def find(self, name: str, version: str | None = None, label: str | None = None) -> Service:
    """Returns the model that a path names.

    Args:
      name: of the model.
      version: of the export; None for the newest.
      label: of a version; None for the newest.

    Raises:
      NotFoundError: there is no such model or label, or this version is not loaded.
    """
    self.require(name)
    if label is not None:
      if (name, label) not in self.labelled:
        raise refusals.NotFoundError(
          f"No version of {name!r} has the label {label[:50]!r} (--version_label)."
        )
      return self.labelled[name, label]
    if version is None:
      return self.newest[name]
    loaded = {one.predictor.loaded.version: one for one in self._of(name)}
    if version not in loaded:
      raise refusals.NotFoundError(
        f"Version {version[:50]} is not loaded; {', '.join(loaded)} "
        f"{'is' if len(loaded) == 1 else 'are'}."
      )
    return loaded[version]

  def status(self, name: str, version: str | None = None, label: str | None = None) -> dict:
    """Returns which versions are loaded, as TensorFlow Serving tells it."""
    self.require(name)
    asked = version is not None or label is not None
    services = [self.find(name, version, label)] if asked else list(self._of(name))
    states: dict[str, Any] = {one.predictor.loaded.version: one.status() for one in services}
    return {"model_version_status": list(states.values())}

  def measurements(self) -> str:
    """Returns the measurements of all models in Prometheus's text format."""
    return measurements.text(
      {name: (one.measurements, one.predictor.loaded.version) for name, one in self.newest.items()}
    )

  def _of(self, name: str) -> Iterator[Service]:
    # The newest comes last, so that it answers where a labelled version is the newest too.
    yield from (one for (named, _), one in self.labelled.items() if named == name)
    yield self.newest[name]

  def _all(self) -> Iterator[Service]:
    yield from self.labelled.values()
    yield from self.newest.values()


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
    SettingError, ExportError: the engine cannot run it.
  """

  def load_one(name, source, **options):
    return Service(predictor.Predictor(source, **predictor_settings), name, **options)

  newest = {name: load_one(name, folder, **settings) for name, folder in folders.items()}
  labelled = {}
  for (name, label), version in labels.items():
    # One version stays, so there is nothing to reload. The figures are those of the model.
    options = {**settings, "reload_secs": 0, "measurements": newest[name].measurements}
    labelled[name, label] = load_one(name, os.path.join(folders[name], version), **options)
  return Catalogue(newest, labelled)
