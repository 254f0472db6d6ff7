"""What an exporter was about to do, so that a process that comes after a killed one knows.

Example:
    begun = BegunExport.begin("out/digits/export/best", "out/digits/model.ckpt-100", metrics)
    ...                                                    # exports, and records what was exported
    begun.end()

    begun = BegunExport.find("out/digits/export/best")     # None, if that came to its end
    begun.exported()                                       # else the SavedModel, if there is one

A SavedModel and the record of it are two files. A process that is killed between them would else
leave a SavedModel that nobody knows of, and the next one would export the same once more.

Layout, beside the SavedModels for as long as one is exported:

    exporting.json    {"checkpoint": name, "metrics": {...}, "there": [what the folder had before]}
"""

import dataclasses
import os
from typing import Any, Self

import tensorflow as tf

from trainer import errors
from trainer.io import files, json_form, storage
from trainer.outputs import description, numbered_exports

BEGUN = "exporting.json"
_FORM = {"checkpoint": str, "metrics": {"global_step": float, ...: float}, "there": list[str]}


@dataclasses.dataclass(frozen=True)
class BegunExport:
  """An export that was begun.

  Attributes:
    folder: that of the SavedModels.
    checkpoint: the name of the checkpoint, without its folder.
    metrics: those of its evaluation.
    there: the names of what the folder had before.
  """

  folder: str
  checkpoint: str
  metrics: dict[str, float]
  there: list[str]

  @classmethod
  def begin(cls, folder: str, checkpoint: str, metrics: dict[str, float]) -> Self:
    """Notes that a checkpoint (its path) is about to be exported.

    Raises:
      OutputError: that cannot be written.
    """
    path = os.path.join(folder, BEGUN)
    begun: dict[str, Any] = {"checkpoint": os.path.basename(checkpoint), "metrics": metrics}
    try:
      storage.makedirs(folder)
      begun["there"] = _names(folder)
      with files.write_atomically(path) as file:
        file.write(json_form.dump(begun))
    except (tf.errors.OpError, OSError) as error:
      raise errors.OutputError(f"{path} (in --model_dir) cannot be written: {error}") from error
    return cls(folder, **begun)

  @classmethod
  def find(cls, folder: str) -> Self | None:
    """The export to a folder that has not come to its end.

    Raises:
      OutputError: the note of it is damaged.
    """
    path = os.path.join(folder, BEGUN)
    if not storage.exists(path):
      return None
    try:
      return cls(folder, **json_form.parse(storage.read(path), _FORM))
    except ValueError as error:
      raise errors.OutputError(f"{path} is damaged ({error}): remove it.") from error
    except tf.errors.OpError as error:
      raise errors.OutputError(
        f"{path} (in --model_dir) cannot be read: {error.message}"
      ) from error

  def new(self) -> list[str]:
    """The names of what has come into the folder since."""
    return [name for name in _names(self.folder) if name not in self.there]

  def exported(self) -> str | None:
    """The name of the whole SavedModel of the checkpoint that has come into the folder since."""
    for name in self._new_exports():
      folder = os.path.join(self.folder, name)
      if description.is_whole(folder):
        found = description.read(folder).get("checkpoint", "")
        if os.path.basename(found) == self.checkpoint:
          return name
    return None

  def _new_exports(self):
    return [name for name in numbered_exports.names(self.folder) if name not in self.there]

  def remove_what_is_half(self) -> None:
    """Removes SavedModels that were not written to their end."""
    exports = self._new_exports()
    for name in self.new():
      folder = os.path.join(self.folder, name)
      # Where a folder cannot be renamed, as on gs://, its files come one by one.
      is_cut_off = name in exports and not description.is_whole(folder)
      if name.startswith(files.WRITING) or is_cut_off:
        storage.rmtree(folder)

  def end(self) -> None:
    """Notes that the export has come to its end."""
    storage.remove(os.path.join(self.folder, BEGUN))


def _names(folder):
  return sorted(name.rstrip("/") for name in storage.listdir(folder))
