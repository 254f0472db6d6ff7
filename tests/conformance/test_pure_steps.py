"""Many steps without variables, as they are lowered for XLA devices, leave the variables' values
that the steps leave.
"""

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.conformance import cases
from trainer import spec
from trainer.programs import functionalize, plan, portable_operations, step
from trainer.settings.kinds import Kind

STEPS, BATCH = 5, 16

# Dropout, batch norm and Keras's Adam.
QUICK = [case for case in cases.CASES if case.name == "batch_norm_and_dropout"]


parametrized = pytest.mark.parametrize(
  "case", long.except_for(QUICK, cases.CASES), ids=lambda case: case.name
)


def traced_steps(case, strategy):
  """(step.Program, plan, concrete function of several steps), which TensorFlow can run."""
  program = step.Program(
    spec.ModelFn(case.model_fn),
    strategy=strategy,
    params={},
    batch_sizes={},
    config=trainer.RunConfig(),
  )
  element = case.train_input_fn({"batch_size": BATCH}).element_spec
  planned = plan.Plan(Kind.TRAIN, element, STEPS)

  def run(*flat):
    program.run_stack(planned, *tf.nest.pack_sequence_as(planned.arguments, flat))

  function = tf.function(run, autograph=False)
  return program, planned, function.get_concrete_function(*tf.nest.flatten(planned.arguments))


@parametrized
def test_values_after_many_steps(case, monkeypatch):
  monkeypatch.setattr(portable_operations, "RULES", {})  # TensorFlow's own random numbers
  program, planned, concrete = traced_steps(case, tf.distribute.OneDeviceStrategy("/cpu:0"))
  made = functionalize.Functionalized(concrete)
  pure = tf.function(lambda values, given: made.call(values, given), autograph=False)
  *stack, _, _ = tf.nest.flatten(planned.arguments)
  given = [*map(_values, stack), tf.constant(1), tf.constant(STEPS - 1)]
  values = pure([_read(made, index) for index in range(len(made.handles))], given)
  concrete(*given)
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
