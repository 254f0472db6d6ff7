"""A program's parts fit each other."""

import dataclasses

import numpy as np
import pytest

from tests.trainer.pjrt import conftest
from trainer import errors
from trainer.pjrt import program


def test_results_take_the_memory_of_their_variables(untested_code):
  assert untested_code.aliases == [(0, 0), (1, 1), (3, 2)]
  assert [each.name for each in untested_code.variables] == ["w", "own", "n"]


@pytest.mark.parametrize(
  "name, value, problem",
  [
    ("own", np.zeros(3, np.float32), "own is float32[3], expected float32[8]"),
    ("w", np.zeros(3, np.float64), "variable w is float64[3], expected float32[3]"),
    (program.COUNT, None, "no value for the scalar :count"),
  ],
)
def test_values_are_checked(name, value, problem):
  arguments = tuple(each for each in conftest.ARGUMENTS if each.role != program.Role.INPUT)
  values = {**conftest.VALUES, name: value}
  with pytest.raises(errors.SettingError) as caught:
    program.check_values(arguments, 8, values, "The file")
  assert str(caught.value).startswith("The file")
  assert problem in str(caught.value)


def test_bfloat16_is_a_dtype_of_values():
  argument = dataclasses.replace(conftest.ARGUMENTS[0], dtype="bfloat16")
  program.check_values((argument,), 8, {"w": np.zeros(3, "bfloat16")}, "The file")
