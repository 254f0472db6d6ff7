"""An exporter whose process is killed at any point exports each model once in the end."""

import itertools
import json
import os

import pytest
import tensorflow as tf

from trainer import errors
from trainer.io import json_form
from trainer.outputs import exported_records, exporters


class Killed(BaseException):
  """In the place of SIGKILL."""


_STAMPS = itertools.count(1000)


class Exports:
  """Stands in for an Estimator: exports as it does, and is killed at one of the points."""

  def __init__(self, killed_at=None):
    self._killed_at = killed_at

  def export_saved_model(self, base, receiver_fn=None, assets_extra=None, checkpoint_path=None):
    stamp = next(_STAMPS)
    self._point("before it writes")
    aside, path = os.path.join(base, f".writing-{stamp}"), os.path.join(base, str(stamp))
    os.makedirs(os.path.join(aside, "assets.extra"))
    self._point("while it writes")
    with open(os.path.join(aside, "assets.extra", "octet.json"), "w") as file:
      json.dump({"format": 1, "checkpoint": checkpoint_path}, file)
    with open(os.path.join(aside, "saved_model.pb"), "w") as file:
      file.write("A stand-in.")
    os.rename(aside, path)
    self._point("before it is recorded")
    return path

  def _point(self, name):
    if name == self._killed_at:
      raise Killed


def export(folder, step, killed_at=None, exporter=None):
  exporter = exporter or exporters.LatestExporter(exports_to_keep=2)
  return exporter.export(
    Exports(killed_at),
    str(folder),
    f"out/model.ckpt-{step}",
    {"loss": 1.0 / step, "global_step": step},
    False,
  )


def exported(folder):
  """The checkpoints' steps of the SavedModels in a folder, the oldest first."""
  stamps = sorted(path for path in folder.iterdir() if path.name.isdigit())
  return [
    int(json.loads((path / "assets.extra" / "octet.json").read_text())["checkpoint"][15:])
    for path in stamps
  ]


def recorded(folder):
  return json.loads((folder / "exported.json").read_text())["metrics"]["global_step"]


@pytest.mark.parametrize(
  "killed_at", ["before it writes", "while it writes", "before it is recorded"]
)
def test_killed_in_the_export(killed_at, tmp_path):
  export(tmp_path, 10)
  with pytest.raises(Killed):
    export(tmp_path, 20, killed_at)
  assert recorded(tmp_path) == 10
  made = export(tmp_path, 20)
  assert (made is None) == (killed_at == "before it is recorded")
  assert exported(tmp_path) == [10, 20]
  assert recorded(tmp_path) == 20
  assert exporters.newest(str(tmp_path)) == str(sorted(tmp_path.glob("1*"))[-1])
  assert {path.name for path in tmp_path.iterdir() if not path.name.isdigit()} == {"exported.json"}


@pytest.mark.parametrize("owner, name", [(json_form, "write"), (tf.io.gfile, "rmtree")])
@pytest.mark.parametrize("is_done", [False, True])
def test_killed_after_the_export(owner, name, is_done, tmp_path, monkeypatch):
  original = getattr(owner, name)

  def killed(path, *arguments):
    if path.endswith("exporting.json"):
      return original(path, *arguments)
    if is_done:
      original(path, *arguments)
    raise Killed

  export(tmp_path, 10)
  export(tmp_path, 20)
  with monkeypatch.context() as patch:
    patch.setattr(owner, name, killed)
    with pytest.raises(Killed):
      export(tmp_path, 30)
  export(tmp_path, 30)
  assert exported(tmp_path) == [20, 30]
  assert recorded(tmp_path) == 30
  assert not (tmp_path / "exporting.json").exists()


def test_exports_of_others_are_kept_and_not_counted_as_own(tmp_path):
  with pytest.raises(Killed):
    export(tmp_path, 10, "while it writes")
  Exports().export_saved_model(str(tmp_path), checkpoint_path="out/model.ckpt-99")
  assert export(tmp_path, 10) is not None
  assert exported(tmp_path) == [99, 10]
  assert recorded(tmp_path) == 10


def test_where_others_export_too_nothing_of_theirs_is_removed(tmp_path):
  """`--mode=export` writes to the folder of the exporter without a name."""
  latest = exporters.LatestExporter(name="")
  with pytest.raises(Killed):
    export(tmp_path, 10, "before it writes", latest)
  (tmp_path / ".writing-77").mkdir()
  export(tmp_path, 10, exporter=latest)
  assert (tmp_path / ".writing-77").exists()


def test_incompletely_copied_export_is_ignored_and_removed(tmp_path):
  """On an object store, the files of an export come one after the other."""
  with pytest.raises(Killed):
    export(tmp_path, 10, "before it is recorded")
  (path,) = tmp_path.glob("1*")
  begun = exported_records.PendingExport.find(str(tmp_path))
  assert begun.exported() == path.name
  (path / "saved_model.pb").unlink()
  assert begun.exported() is None
  begun.remove_incomplete()
  assert not path.exists()


def test_a_record_whose_model_is_gone_is_not_that_of_the_export(tmp_path):
  path = export(tmp_path, 10)
  tf.io.gfile.rmtree(path)
  with pytest.raises(Killed):
    export(tmp_path, 20, "before it writes")
  assert export(tmp_path, 20) is not None
  assert exported(tmp_path) == [20]


@pytest.mark.parametrize(
  "text", ["{", "[]", '{"checkpoint": "a", "metrics": {}, "there": []}', "3"]
)
def test_a_damaged_note_is_named(text, tmp_path):
  (tmp_path / "exporting.json").write_text(text)
  with pytest.raises(errors.FileDamagedError, match=r"exporting\.json is damaged"):
    export(tmp_path, 10)


def test_a_note_with_another_digit_is_damaged(tmp_path):
  with pytest.raises(Killed):
    export(tmp_path, 10, "while it writes")
  path = tmp_path / "exporting.json"
  path.write_text(path.read_text().replace("0.1", "0.2"))
  with pytest.raises(errors.FileDamagedError, match=r"exporting\.json is damaged \(.*checksum"):
    export(tmp_path, 10)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(errors.OutputError, match=r"Cannot write .*exporting\.json "):
    export(tmp_path / "file" / "below", 10)
