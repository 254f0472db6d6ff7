"""An exporter whose process is killed at any point exports each model once in the end."""

import itertools
import json
import os
import shutil

import pytest

from trainer.outputs import exported_records, exporters, numbered_exports


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
    for name, source in (assets_extra or {}).items():
      shutil.copy(source, os.path.join(aside, "assets.extra", name))
    self._point("while it writes")
    with open(os.path.join(aside, "saved_model.pb"), "w") as file:
      file.write("A stand-in.")
    os.rename(aside, path)
    self._point("after it writes")
    return path

  def _point(self, name):
    if name == self._killed_at:
      raise Killed


def export(folder, step, killed_at=None):
  return exporters.LatestExporter(exports_to_keep=2).export(
    Exports(killed_at),
    str(folder),
    f"out/model.ckpt-{step}",
    {"loss": 1.0 / step, "global_step": step},
    False,
  )


def record_of(path):
  return json.loads((path / "assets.extra" / "exported.json").read_text())


def exported(folder):
  """The checkpoints' steps of the SavedModels in a folder, the oldest first."""
  return [record_of(folder / name)["global_step"] for name in numbered_exports.names(str(folder))]


@pytest.mark.parametrize("killed_at", ["before it writes", "while it writes", "after it writes"])
def test_killed_in_the_export(killed_at, tmp_path):
  export(tmp_path, 10)
  with pytest.raises(Killed):
    export(tmp_path, 20, killed_at)
  made = export(tmp_path, 20)
  assert (made is None) == (killed_at == "after it writes")
  assert exported(tmp_path) == [10, 20]
  assert exporters.newest(str(tmp_path)) == str(sorted(tmp_path.glob("1*"))[-1])


def test_killed_before_old_exports_are_removed(tmp_path):
  export(tmp_path, 10)
  export(tmp_path, 20)
  with pytest.raises(Killed):
    export(tmp_path, 30, "after it writes")
  assert exported(tmp_path) == [10, 20, 30]
  assert export(tmp_path, 30) is None
  assert exported(tmp_path) == [20, 30]


def test_exports_of_others_do_not_count(tmp_path):
  """`--mode=export` writes to the folder of the exporter without a name."""
  export(tmp_path, 10)
  Exports().export_saved_model(str(tmp_path), checkpoint_path="out/model.ckpt-99")
  assert exported_records.read(str(tmp_path))["metrics"]["global_step"] == 10


def test_an_export_without_its_last_file_does_not_count(tmp_path):
  """On an object store, the files of an export come one after the other."""
  export(tmp_path, 10)
  os.remove(os.path.join(export(tmp_path, 20), "saved_model.pb"))
  assert exported_records.read(str(tmp_path))["metrics"]["global_step"] == 10


def test_record_of_version_0_1_0_counts_until_the_next(tmp_path):
  old = {"folder": "7", "metrics": {"global_step": 10, "loss": 0.1}}
  (tmp_path / "exported.json").write_text(json.dumps(old))
  assert exported_records.read(str(tmp_path)) == old
  assert export(tmp_path, 10) is None
  export(tmp_path, 20)
  assert exported_records.read(str(tmp_path))["metrics"]["global_step"] == 20
