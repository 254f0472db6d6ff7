"""Many steps without variables, as preflight lowers them for a TPU, leave the variables' values
that the steps leave.
"""

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.conformance import cases
from trainer import spec
from trainer.devices import replica
from trainer.inputs import stacks
from trainer.programs import functionalize, step, tpu_lowering

STEPS, BATCH = 5, 16

# Dropout, batch norm and Keras's Adam.
QUICK = [case for case in cases.CASES if case.name == "batch_norm_and_dropout"]


parametrized = pytest.mark.parametrize(
  "case", long.except_for(QUICK, cases.CASES), ids=lambda case: case.name
)


def traced_steps(case, strategy):
  """(program, function): a program, and its steps, traced for a stack of them."""
  program = step.Program(
    spec.ModelFn(case.model_fn),
    strategy=strategy,
    params={},
    batch_sizes={},
    config=trainer.RunConfig(),
  )
  (stack,) = stacks.spec_of(case.train_input_fn({"batch_size": BATCH}).element_spec, STEPS, 1)
  count = tf.TensorSpec([], tf.int32)

  def train_steps(first, count, *flat):
    program.train_steps([tf.nest.pack_sequence_as(stack, flat)], first, count)

  function = tf.function(train_steps, autograph=False)
  return program, function.get_concrete_function(count, count, *tf.nest.flatten(stack))


@parametrized
def test_values_after_many_steps(case):
  program, traced = traced_steps(case, tf.distribute.OneDeviceStrategy("/cpu:0"))
  made = functionalize.Functionalized(traced)
  pure = tf.function(lambda values, given: made.call(values, given), autograph=False)
  stack = traced.structured_input_signature[0][2:]
  given = [tf.constant(1), tf.constant(STEPS - 1), *map(_values, stack)]
  values = pure([_read(made, index) for index in range(len(made.handles))], given)
  traced(*given)
  assert len(values) == len(made.assigned) >= len(program.store.variables)
  assert program.global_step.numpy() == STEPS - 1
  # To the bit where Keras's optimizers assign; TensorFlow's own round in another order.
  for index, value in zip(made.assigned, values, strict=True):
    np.testing.assert_allclose(value, _read(made, index), rtol=1e-5, atol=1e-7)


@pytest.mark.skipif(not tpu_lowering.is_installed(), reason="tensorflow-tpu is not installed")
@parametrized
def test_lowers_as_a_tpu_does(case):
  program, traced = traced_steps(case, replica.OneOfMany(8))
  made = tpu_lowering.Lowering(traced).lower()
  trained = [variable for variable in program.store.variables.values() if variable.trainable]
  assert made.hlo.count(b"all-reduce") >= len(trained)
  assert len(made.aliases) >= len(program.store.variables)


def _values(spec):
  random = np.random.RandomState(1)
  drawn = random.randn(*spec.shape) if spec.dtype.is_floating else random.randint(0, 5, spec.shape)
  return tf.constant(drawn, spec.dtype)


def _read(made, index):
  return tf.raw_ops.ReadVariableOp(resource=made.handles[index], dtype=made.specs[index].dtype)
