"""Warm-up requests of an export.

`test_preprocessing` reads them by TensorFlow Serving's own messages.
"""

import types

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.outputs import warm_up


def check(signature="serving_default", **inputs):
  return types.SimpleNamespace(signature=signature, inputs=inputs)


def test_rows_are_repeated_or_cut_to_each_size(tmp_path):
  warm_up.write(str(tmp_path), [check(x=np.float32([[1], [2], [3]]))], [1, 3, 7])
  found = [inputs["x"][:, 0].tolist() for _, inputs in warm_up.read(str(tmp_path))]
  assert found == [[1], [1, 2, 3], [1, 2, 3, 1, 2, 3, 1]]


VALUES = {
  "text": np.array([b"", b"\x00\xff", "größe".encode() * 100], object),
  "half": np.array([1.5, np.inf, -0.0], ml_dtypes.bfloat16),
  "large": np.int64([2**62, -1, 0]),
  "flags": np.array([True, False, True]),
  "images": np.arange(3 * 20 * 30, dtype=np.uint8).reshape(3, 20, 30),
  "empty": np.zeros([3, 0], np.float32),
  "größe": np.float64([1, 2, 3]),
}


def test_values_of_any_dtype_and_name_come_back(tmp_path):
  warm_up.write(str(tmp_path), [check("größe", **VALUES)], [3])
  [(signature, inputs)] = warm_up.read(str(tmp_path))
  assert signature == "größe"
  assert inputs.keys() == VALUES.keys()
  for name, value in VALUES.items():
    np.testing.assert_array_equal(inputs[name], value, strict=True, err_msg=name)


def test_an_input_without_rows_keeps_its_shape(tmp_path):
  warm_up.write(str(tmp_path), [check(x=np.ones([2, 3]), rate=np.float32(0.5))], [5])
  [(_, inputs)] = warm_up.read(str(tmp_path))
  assert (inputs["x"].shape, inputs["rate"].shape) == ((5, 3), ())


def test_each_size_has_the_requests_of_all_checks(tmp_path):
  warm_up.write(str(tmp_path), [check("a", x=np.ones(1)), check("b", x=np.ones(1))], [1, 2])
  found = [(name, len(inputs["x"])) for name, inputs in warm_up.read(str(tmp_path))]
  assert found == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_no_more_requests_than_the_server_takes(tmp_path, monkeypatch):
  monkeypatch.setattr(warm_up, "MOST", 3)
  warm_up.write(str(tmp_path), [check(x=np.ones(1))] * 2, [1, 2])
  assert len(warm_up.read(str(tmp_path))) == 3


@pytest.mark.parametrize(("checks", "sizes"), [([], [1]), ([check(x=np.ones(1))], [])])
def test_without_requests_there_is_no_file(tmp_path, checks, sizes):
  warm_up.write(str(tmp_path), checks, sizes)
  assert list(tmp_path.iterdir()) == []
  assert warm_up.read(str(tmp_path)) == []


LOG = warm_up.prediction_log("serving_default", {"x": np.ones(3)})


@pytest.mark.parametrize(
  "records",
  [[LOG[:-3]], [b""], [b"\x08\x01"], [b"\xff" * 4], [LOG, LOG[:5]]],
  ids=["cut off", "empty", "another message", "no message", "the second"],
)
def test_a_damaged_request_is_told_with_its_file(tmp_path, records):
  path = tmp_path / "assets.extra" / warm_up.NAME
  path.parent.mkdir()
  with tf.io.TFRecordWriter(str(path)) as writer:
    for record in records:
      writer.write(record)
  with pytest.raises(errors.InputError, match=f"{warm_up.NAME} is damaged .*export again"):
    warm_up.read(str(tmp_path))
