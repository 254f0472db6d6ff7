"""Programs in StableHLO, and eight XLA devices of the CPU for the whole session."""

import numpy as np
import pytest

from trainer import errors
from trainer.pjrt import devices, installed, program

REPLICAS = 8

# w and own are variables: w += mean of the devices' sums of x, own += the device's own sum, n += 1.
TEXT = """
module @steps attributes {mhlo.num_replicas = 8 : i32} {
  func.func @main(%w: tensor<3xf32>, %own: tensor<f32>, %n: tensor<i64>, %x: tensor<2x3xf32>,
                  %count: tensor<i32>) -> (tensor<3xf32>, tensor<f32>, tensor<f64>, tensor<i64>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
    %all = "stablehlo.all_reduce"(%sum) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) {replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>}
      : (tensor<3xf32>) -> tensor<3xf32>
    %next = stablehlo.add %w, %all : tensor<3xf32>
    %mine = stablehlo.reduce(%sum init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
    %owned = stablehlo.add %own, %mine : tensor<f32>
    %wide = stablehlo.convert %mine : (tensor<f32>) -> tensor<f64>
    %steps = stablehlo.convert %count : (tensor<i32>) -> tensor<i64>
    %m = stablehlo.add %n, %steps : tensor<i64>
    return %next, %owned, %wide, %m : tensor<3xf32>, tensor<f32>, tensor<f64>, tensor<i64>
  }
}
"""

ARGUMENTS = (
  program.Argument("w", (3,), "float32", program.Role.VARIABLE),
  program.Argument("own", (), "float32", program.Role.OWN_VARIABLE),
  program.Argument("n", (), "int64", program.Role.VARIABLE),
  program.Argument("x", (2, 3), "float32", program.Role.INPUT),
  program.Argument(program.COUNT, (), "int32", program.Role.SCALAR),
)
RESULTS = (
  program.Result("w", (3,), "float32", True),
  program.Result("own", (), "float32", True),
  program.Result("total", (), "float64", False),
  program.Result("n", (), "int64", True),
)
INPUTS = {"x": np.arange(48, dtype=np.float32).reshape(REPLICAS, 2, 3)}
VALUES = {
  "w": np.float32([1, 2, 3]),
  "own": np.arange(REPLICAS, dtype=np.float32),
  "n": np.array(2**40),
  program.COUNT: np.array(20, np.int32),
}
SUMS = INPUTS["x"].sum((1, 2))
EXPECTED = {
  "w": VALUES["w"] + INPUTS["x"].sum((0, 1)),
  "own": VALUES["own"] + SUMS,
  "total": SUMS.astype(np.float64),
  "n": np.array(2**40 + 20),
}


def of_text(text=TEXT, arguments=ARGUMENTS, results=RESULTS, replicas=REPLICAS):
  """The Program of a text."""
  return program.Program(text.encode(), arguments, results, replicas)


@pytest.fixture(name="connected", scope="session")
def connect():
  """Eight devices; the tests that want them are left out without jax."""
  try:
    installed.require()
  except errors.VersionError as error:
    pytest.skip(str(error))
  return devices.connect("cpu", REPLICAS)


@pytest.fixture
def code(connected):
  del connected
  return of_text()


@pytest.fixture
def untested_code():
  """A program whose code no compiler reads: for what works without jax."""
  return program.Program(b"code", ARGUMENTS, RESULTS, REPLICAS)
