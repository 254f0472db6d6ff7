"""Random numbers, resizes and masks of TensorFlow's, on eight XLA devices of PJRT's CPU client."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.pjrt import conftest
from tests.trainer.programs import pure
from trainer.internals import tensorflow_internals
from trainer.pjrt import program

device_values = pytest.importorskip("trainer.pjrt.device_values")  # where jax is installed
execution = pytest.importorskip("trainer.pjrt.execution")
jaxlib_internals = pytest.importorskip("trainer.pjrt.jaxlib_internals")

COUNT = 20_000


def run(connected, function, *inputs):
  """The results of a function on eight devices, each [8, ...], given inputs of the same form."""
  specs = [tf.TensorSpec(each.shape[1:], each.dtype) for each in inputs]
  return compiled_for(connected, function, specs)(*inputs)


def compiled_for(connected, function, specs):
  """`run` of a function that is compiled once, for inputs of the devices' specs."""
  compiled = pure.compiled(function, *specs)
  outputs = compiled.get_concrete_function(*specs).outputs
  hlo = compiled.experimental_get_compiler_ir(*specs)(stage="hlo_serialized")
  code = program.Program(
    jaxlib_internals.stablehlo_of_hlo(hlo),
    tuple(
      program.Argument(f"{index}", tuple(spec.shape), spec.dtype.name, program.Role.INPUT)
      for index, spec in enumerate(specs)
    ),
    tuple(
      program.Result(f"{index}", tuple(output.shape), output.dtype.name, False)
      for index, output in enumerate(outputs)
    ),
    conftest.REPLICAS,
  )
  executable = execution.Executable(code, connected)

  def call(*inputs):
    given = executable.put_inputs({f"{index}": list(each) for index, each in enumerate(inputs)})
    results = executable.run(device_values.DeviceValues(connected), given, {}).read()
    return [results[f"{index}"] for index in range(len(outputs))]

  return call


def test_random_numbers_differ_between_cores_and_steps(connected):
  def function(step):
    seed = tf.stack([step, tensorflow_internals.xla_replica_id()])
    ones = tf.ones([COUNT])
    return tf.nn.experimental.stateless_dropout(ones, 0.25, seed=seed), tf.random.stateless_normal(
      [COUNT], seed
    )

  draw = compiled_for(connected, function, [tf.TensorSpec([], tf.int32)])
  steps = [draw(np.full(conftest.REPLICAS, step, np.int32)) for step in (5, 6)]
  again = run(connected, function, np.full(conftest.REPLICAS, 5, np.int32))
  for first, second in zip(steps[0], again, strict=True):
    np.testing.assert_array_equal(first, second)
  masks = np.concatenate([dropped == 0 for dropped, _ in steps])
  np.testing.assert_allclose(masks.mean(1), 0.25, atol=0.02)
  normal = np.concatenate([drawn for _, drawn in steps])
  for values in (masks, normal):
    correlations = np.corrcoef(values)
    for one, other in itertools.combinations(range(len(values)), 2):
      assert abs(correlations[one, other]) < 6 / COUNT**0.5


def test_resizes_and_their_gradients(connected):
  images = np.random.RandomState(0).randn(conftest.REPLICAS, 2, 6, 5, 3).astype(np.float32)

  def function(images):
    with tf.GradientTape() as tape:
      tape.watch(images)
      large = tf.image.resize(images, [9, 10])
      small = tf.image.resize(large, [4, 3], "bicubic") + tf.image.resize(large, [4, 3], "nearest")
      loss = tf.reduce_sum(tf.square(small))
    return small, tape.gradient(loss, images)

  found = run(connected, function, images)
  for core in range(conftest.REPLICAS):
    for each, value in zip(found, function(tf.constant(images[core])), strict=True):
      np.testing.assert_allclose(each[core], value, rtol=1e-5, atol=1e-5)


def test_a_sum_over_a_mask(connected):
  random = np.random.RandomState(0)
  x = random.randn(conftest.REPLICAS, 100, 3).astype(np.float32)
  mask = random.rand(conftest.REPLICAS, 100) > 0.5

  def function(x, mask):
    with tf.GradientTape() as tape:
      tape.watch(x)
      mean = tf.reduce_mean(tf.square(tf.boolean_mask(x, mask)))
    return mean, tape.gradient(mean, x)

  found = run(connected, function, x, mask)
  for core in range(conftest.REPLICAS):
    for each, value in zip(found, function(tf.constant(x[core]), mask[core]), strict=True):
      np.testing.assert_allclose(each[core], value, rtol=1e-5, atol=1e-6)
