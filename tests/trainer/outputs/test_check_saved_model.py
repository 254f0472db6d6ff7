"""The process that checks SavedModels: its arrays, and the imports that it refuses."""

import ml_dtypes
import numpy as np
import pytest

from trainer.outputs import check_saved_model


def test_arrays_come_back_as_they_were():
  arrays = {
    "texts": np.array([[b"a\0", b""], [b"\xff", b"bc"]], object),
    "file": np.arange(6).reshape(2, 3),
    "half": np.array([0.5, -3], ml_dtypes.bfloat16),
    "none": np.zeros([0, 2], np.float32),
    "is": np.array(True),
  }
  found = check_saved_model.unpack(check_saved_model.pack(arrays))
  assert set(found) == set(arrays)
  for name, array in arrays.items():
    assert found[name].dtype == array.dtype
    assert found[name].tolist() == array.tolist()


def test_the_project_is_refused():
  with pytest.raises(ImportError, match="cannot import trainer.export"):
    check_saved_model.Refusal().find_spec("trainer.export")
  assert check_saved_model.Refusal().find_spec("numpy") is None
