"""Safetensors files: what is written is what the package reads, and damage is told."""

import json
import sys

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from trainer import errors
from trainer.checkpoints import safetensors_file, weight_sources

VALUES = {
  "dense/kernel": np.arange(6, dtype=np.float32).reshape(3, 2).T,  # no contiguous memory
  "dense/bias": np.array([1.5, -2], ml_dtypes.bfloat16),
  "count": np.asarray(7, np.int64),
}


def test_the_package_itself_reads_what_was_written(tmp_path):
  path = str(tmp_path / "a.safetensors")
  safetensors_file.write(path, VALUES)
  with safetensors.safe_open(path, framework="np") as file:
    assert sorted(file.keys()) == sorted(VALUES)
    assert file.metadata() == {"format": "tf"}
    for name, value in VALUES.items():
      found = file.get_tensor(name)
      assert (found.dtype, found.shape) == (value.dtype, value.shape)
      np.testing.assert_array_equal(found, value)


def test_the_same_values_are_the_same_bytes(tmp_path):
  for name in "ab":
    safetensors_file.write(str(tmp_path / f"{name}.safetensors"), VALUES)
  first, second = ((tmp_path / f"{name}.safetensors").read_bytes() for name in "ab")
  assert first == second


def test_shapes_and_the_values_that_are_asked_for(tmp_path):
  path = str(tmp_path / "a.safetensors")
  safetensors_file.write(path, VALUES)
  with safetensors_file.opened(path) as file:
    assert file.shapes == {
      "dense/kernel": ((2, 3), "float32"),
      "dense/bias": ((2,), "bfloat16"),
      "count": ((), "int64"),
    }
    found = file.read(["dense/bias"])
  assert list(found) == ["dense/bias"]
  np.testing.assert_array_equal(found["dense/bias"], VALUES["dense/bias"])


def with_index(folder, files):
  for name, values in files.items():
    safetensors.numpy.save_file(values, folder / name)
  index = folder / "model.safetensors.index.json"
  of_names = {name: file for file, values in files.items() for name in values}
  index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": of_names}))
  return str(index)


def test_the_files_of_an_index_are_one_source(tmp_path):
  files = {"1.safetensors": {"a": np.ones(2)}, "2.safetensors": {"b": np.zeros([2, 1])}}
  found = weight_sources.read(
    with_index(tmp_path, files), lambda source: (source.shapes, source.read(["a", "b"]))
  )
  assert found[0] == {"a": ((2,), "float64"), "b": ((2, 1), "float64")}
  np.testing.assert_array_equal(found[1]["a"], [1, 1])


def test_an_index_that_leads_elsewhere_is_refused(tmp_path):
  folder = tmp_path / "model"
  folder.mkdir()
  index = with_index(folder, {"../1.safetensors": {"a": np.ones(2)}})
  with (
    pytest.raises(errors.CheckpointDamagedError, match=r"names the file '\.\./1\.safetensors'"),
    safetensors_file.opened(index),
  ):
    pass


@pytest.mark.parametrize("cut", [0, 7, 60, -4])
def test_a_file_that_was_cut_off_is_damaged(cut, tmp_path):
  path = tmp_path / "a.safetensors"
  safetensors_file.write(str(path), VALUES)
  path.write_bytes(path.read_bytes()[:cut])
  with (
    pytest.raises(errors.CheckpointDamagedError, match="Cannot read .* as a safetensors file"),
    safetensors_file.opened(str(path)),
  ):
    pass


@pytest.mark.parametrize("name", ["nowhere.safetensors", "nowhere.safetensors.index.json"])
def test_nothing_is_there(name, tmp_path):
  with pytest.raises(errors.CheckpointNotFoundError, match="There is no file"):
    weight_sources.read(str(tmp_path / name), lambda source: source.shapes)


def test_a_dtype_that_tensorflow_does_not_have_is_told(tmp_path):
  header = json.dumps({"a": {"dtype": "F8_E5M2", "shape": [2], "data_offsets": [0, 2]}}).encode()
  path = tmp_path / "a.safetensors"
  path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
  with (
    pytest.raises(errors.CheckpointError, match="a has the dtype F8_E5M2.*expected BOOL"),
    safetensors_file.opened(str(path)),
  ):
    pass


def test_texts_are_refused(tmp_path):
  with pytest.raises(errors.SettingError, match="words is text"):
    safetensors_file.write(str(tmp_path / "a.safetensors"), {"words": np.array(["a"])})
  assert not list(tmp_path.iterdir())


def test_without_the_package_the_command_that_brings_it_is_told(monkeypatch, tmp_path):
  monkeypatch.setitem(sys.modules, "safetensors", None)
  with pytest.raises(errors.SettingError, match=r"pip install .*\[safetensors\]"):
    safetensors_file.write(str(tmp_path / "a.safetensors"), VALUES)
