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
from trainer.inputs import stacks
from trainer.loop import step
from trainer.preflight import purify

STEPS, BATCH = 5, 16

# Dropout, batch norm and Keras's Adam.
QUICK = [case for case in cases.CASES if case.name == "batch_norm_and_dropout"]


@pytest.mark.parametrize("case", long.except_for(QUICK, cases.CASES), ids=lambda case: case.name)
def test_values_after_many_steps(case):
  program = step.Program(
    spec.ModelFn(case.model_fn),
    strategy=tf.distribute.OneDeviceStrategy("/cpu:0"),
    params={},
    batch_sizes={},
    config=trainer.RunConfig(),
  )
  (stack,) = stacks.spec_of(case.train_input_fn({"batch_size": BATCH}).element_spec, STEPS, 1)
  count = tf.TensorSpec([], tf.int32)

  def train_steps(first, count, *flat):
    program.train_steps([tf.nest.pack_sequence_as(stack, flat)], first, count)

  traced = tf.function(train_steps, autograph=False).get_concrete_function(
    count, count, *tf.nest.flatten(stack)
  )
  made = purify.Pure(traced)
  pure = tf.function(lambda values, given: made.run(values, given), autograph=False)
  given = [tf.constant(1), tf.constant(STEPS - 1), *map(_values, tf.nest.flatten(stack))]
  values = pure([_read(made, index) for index in range(len(made.handles))], given)
  traced(*given)
  assert len(values) == len(made.assigned) >= len(program.store.variables)
  assert program.global_step.numpy() == STEPS - 1
  # To the bit where Keras's optimizers assign; TensorFlow's own round in another order.
  for index, value in zip(made.assigned, values, strict=True):
    np.testing.assert_allclose(value, _read(made, index), rtol=1e-5, atol=1e-7)


def _values(spec):
  random = np.random.RandomState(1)
  drawn = random.randn(*spec.shape) if spec.dtype.is_floating else random.randint(0, 5, spec.shape)
  return tf.constant(drawn, spec.dtype)


def _read(made, index):
  return tf.raw_ops.ReadVariableOp(resource=made.handles[index], dtype=made.specs[index].dtype)
