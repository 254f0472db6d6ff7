"""The process that checks SavedModels: its arrays, and the imports that it refuses."""

import numpy as np
import pytest

from trainer.outputs import check_saved_model


def test_arrays_come_back_as_they_were(tmp_path):
  import ml_dtypes

  texts = np.empty((2, 2), object)
  texts[:] = [[b"a\0", b""], [b"\xff\xd8\0\0", b"b"]]
  arrays = {
    "z/texts": texts,
    "numbers": np.arange(6).reshape(2, 3),
    "half": np.array([0.5, -3], ml_dtypes.bfloat16),
  }
  np.savez(tmp_path / "file.npz", **check_saved_model.pack(arrays))
  with np.load(tmp_path / "file.npz") as file:
    found = check_saved_model.unpack(file)
  assert set(found) == set(arrays)
  for name, array in arrays.items():
    assert found[name].dtype == array.dtype
    assert found[name].tolist() == array.tolist()


def test_the_project_is_refused():
  with pytest.raises(ImportError, match="cannot import trainer.export"):
    check_saved_model.Refusal().find_spec("trainer.export")
  assert check_saved_model.Refusal().find_spec("numpy") is None
