"""Values of features become arrays of the signature's types, and nothing changes silently."""

import numpy as np
import pytest

from trainer import errors
from trainer.serving import arrays


def spec(dtype, *shape):
  return {"dtype": dtype, "shape": [None, *shape]}


@pytest.mark.parametrize(
  ("value", "dtype", "expected"),
  [
    ([0, 255], "uint8", np.uint8([0, 255])),
    ([1.0, 2.0], "int32", np.int32([1, 2])),
    ([True, False], "bool", np.bool_([1, 0])),
    (np.float64([0.1]), "float32", np.float32([0.1])),
    ([b"a\0", "é"], "string", np.array([b"a\0", "é"], object)),
  ],
)
def test_values_that_fit(value, dtype, expected):
  made = arrays.make("x", value, spec(dtype))
  assert made.dtype == expected.dtype
  np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize(
  ("value", "dtype", "message"),
  [
    ([1, 300], "uint8", r"uint8\[n\]: 300 at \[1\] is no uint8"),
    ([-1], "uint32", r"-1 at \[0\] is no uint32"),
    ([1, 2.5], "int64", r"2.5 at \[1\] is no int64"),
    ([float("nan")], "int32", r"nan at \[0\] is no int32"),
    (["one", 1], "int32", "it has int, str values"),
    ([None, "a"], "string", r"string\[n\]: it has NoneType values"),
    (["a", 7], "string", "it has int values"),
    ([["a"], ["a", "b"]], "string", "it has list values"),
    ([[1.0]], "float32", r"float32\[n\]; its shape is \[1, 1\]"),
    (1.0, "float32", r"its shape is \[\]"),
  ],
)
def test_values_that_do_not_fit(value, dtype, message):
  with pytest.raises(errors.InputError, match=f"The feature 'x' must be .*{message}"):
    arrays.make("x", value, spec(dtype))
