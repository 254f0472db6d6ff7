"""Programs run on eight XLA devices of the CPU, and variables stay there between them."""

import dataclasses

import numpy as np
import pytest

from tests.trainer.pjrt import conftest
from trainer import errors
from trainer.pjrt import program

device_values = pytest.importorskip("trainer.pjrt.device_values")  # where jax is installed
execution = pytest.importorskip("trainer.pjrt.execution")
jaxlib_internals = pytest.importorskip("trainer.pjrt.jaxlib_internals")

COUNT = {program.COUNT: np.int32(20)}

# Takes as many steps as it is told: more than any would, unless the argument says otherwise.
FAILS = """
module @fails attributes {mhlo.num_replicas = 8 : i32} {
  func.func @main(%w: tensor<3xf32>) -> tensor<3xf32> {
    %next = stablehlo.custom_call @octet_no_such_function(%w) : (tensor<3xf32>) -> tensor<3xf32>
    return %next : tensor<3xf32>
  }
}
"""


@pytest.fixture
def values(connected, code):
  made = device_values.DeviceValues(connected)
  made.put(code.variables, conftest.VALUES)
  return made


@pytest.fixture
def executable(connected, code):
  return execution.Executable(code, connected)


def run(executable, values):
  inputs = executable.put_inputs({name: list(each) for name, each in conftest.INPUTS.items()})
  return executable.run(values, inputs, COUNT).read()


def assert_equal(found, expected):
  for name, value in found.items():
    np.testing.assert_array_equal(value, expected[name], strict=True, err_msg=name)


def test_a_run_gives_the_next_values(executable, values):
  results = run(executable, values)
  assert results.keys() == {"total"}
  assert_equal({**values.read(), **results}, conftest.EXPECTED)


def test_variables_stay_on_the_devices(executable, values):
  run(executable, values)
  first = values.read()
  run(executable, values)
  run(executable, values)
  assert_equal(first, conftest.EXPECTED)  # what the host has read is the host's
  assert_equal(
    values.read(),
    {name: 3 * conftest.EXPECTED[name] - 2 * conftest.VALUES[name] for name in ("w", "own", "n")},
  )


def test_the_memory_of_a_variable_is_given_away(executable, values):
  before = dict(values._arrays)
  run(executable, values)
  assert all(array.is_deleted() for array in before.values())


def test_the_hosts_own_values_are_not_overwritten(connected, code, executable):
  given = {name: np.array(value) for name, value in conftest.VALUES.items()}
  values = device_values.DeviceValues(connected)
  values.put(code.variables, given)
  given["w"][:] = -1  # nor read later
  run(executable, values)
  np.testing.assert_array_equal(values.read(["w"])["w"], conftest.EXPECTED["w"])
  np.testing.assert_array_equal(given["own"], conftest.VALUES["own"])


def test_values_can_be_put_between_programs(executable, values, code):
  run(executable, values)
  values.put([code.arguments[0]], {"w": np.zeros(3, np.float32)})
  run(executable, values)
  found = values.read()
  np.testing.assert_array_equal(found["w"], conftest.INPUTS["x"].sum((0, 1)))
  assert found["n"] == 2**40 + 40


def test_devices_may_get_one_and_the_same_object(executable, values):
  inputs = executable.put_inputs({"x": [conftest.INPUTS["x"][0]] * 8})
  total = executable.run(values, inputs, COUNT).read()["total"]
  np.testing.assert_array_equal(total, [conftest.SUMS[0]] * 8)
  x = conftest.INPUTS["x"][0]
  np.testing.assert_array_equal(executable.put_inputs({"x": [x] * 8})["x"], np.concatenate([x] * 8))


def test_one_value_for_all_devices(executable, values, code):
  values.put([code.arguments[1]], {"own": np.float32(5)})
  run(executable, values)
  np.testing.assert_array_equal(values.read(["own"])["own"], conftest.SUMS + 5)
  np.testing.assert_array_equal(values.read_each(["w"])["w"], [conftest.EXPECTED["w"]] * 8)


def test_a_compiled_form_runs_as_the_program_does(connected, code, executable, values):
  loaded = execution.Executable(code, connected, executable.serialize())
  assert_equal({**run(loaded, values), **values.read()}, conftest.EXPECTED)


def test_a_failed_program_loses_its_variables(connected, code, executable, values, monkeypatch):
  import jax

  def fail(*args):
    raise jax.errors.JaxRuntimeError("INTERNAL: the core melted")

  with monkeypatch.context() as patched:
    patched.setattr(jaxlib_internals, "execute", fail)
    with pytest.raises(device_values.ExecutionError, match="the core melted"):
      run(executable, values)
  for use in (values.read, values.wait, lambda: run(executable, values)):
    with pytest.raises(device_values.ExecutionError, match="come from a checkpoint"):
      use()
  values.put(code.variables, conftest.VALUES)
  assert_equal({**run(executable, values), **values.read()}, conftest.EXPECTED)


def test_code_that_cannot_be_compiled_is_told(connected):
  spec = ("w", (3,), "float32")
  fails = conftest.of_text(
    FAILS, (program.Argument(*spec, program.Role.VARIABLE),), (program.Result(*spec, True),)
  )
  with pytest.raises(device_values.ExecutionError, match="XLA cannot compile the program"):
    execution.Executable(fails, connected)


def test_a_program_that_says_other_than_its_code(connected, code):
  arguments = (program.Argument("w", (3,), "int32", program.Role.VARIABLE), *conftest.ARGUMENTS[1:])
  results = (program.Result("w", (3,), "int32", True), *conftest.RESULTS[1:])
  with pytest.raises(errors.SettingError, match="tensor<3xf32> for w, expected int32\\[3\\]"):
    execution.Executable(program.Program(code.code, arguments, results, 8), connected)
  fewer = program.Program(code.code, conftest.ARGUMENTS[:-1], conftest.RESULTS, 8)
  with pytest.raises(errors.SettingError, match="has 5 arguments, expected 4"):
    execution.Executable(fewer, connected)


def test_a_program_for_another_number_of_devices(connected, code):
  other = program.Program(code.code, code.arguments, code.results, 4)
  with pytest.raises(errors.SettingError, match="for 4 devices; this process has 8"):
    execution.Executable(other, connected)


def test_a_variable_without_a_value(executable, connected):
  with pytest.raises(errors.SettingError, match="'w' has no value"):
    run(executable, device_values.DeviceValues(connected))


_PRODUCT = """
func.func @main(%a: tensor<2x2xf32>, %n: tensor<i32>) -> tensor<2x2xf32> {
  %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
    : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %b : tensor<2x2xf32>
}
"""


@pytest.mark.parametrize("full", [False, True])
def test_products_use_all_bits_on_request(connected, monkeypatch, full):
  compiled = []
  monkeypatch.setattr(
    jaxlib_internals, "compile_for", lambda module, *_: compiled.append(str(module))
  )
  code = conftest.of_text(
    _PRODUCT,
    (
      program.Argument("a", (2, 2), "float32", program.Role.VARIABLE),
      program.Argument(program.COUNT, (), "int32", program.Role.SCALAR),
    ),
    (program.Result("a", (2, 2), "float32", True),),
  )
  execution.compile_program(code, dataclasses.replace(connected, full_precision=full))
  assert ("precision = [HIGHEST, HIGHEST]" in compiled[0]) == full


def test_a_program_of_deterministic_devices_compiles(connected, code, values):
  executable = execution.Executable(code, dataclasses.replace(connected, deterministic=True))
  run(executable, values)
  np.testing.assert_array_equal(values.read()["w"], conftest.EXPECTED["w"])
