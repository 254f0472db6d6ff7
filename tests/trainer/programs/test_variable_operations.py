"""Each rule gives what TensorFlow's operation leaves in the variables."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from trainer.programs import variable_operations

_SCALARS = {
  "lr_power": -0.5,
  "beta1_power": 0.81,
  "beta2_power": 0.998,
  "use_nesterov": True,
  "multiply_linear_by_lr": True,
}
UPDATES = [name for name in variable_operations.RULES if name.startswith("ResourceApply")]


@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("name", UPDATES)
def test_optimizers(name, switch):
  rule = variable_operations.RULES[name]
  random = np.random.RandomState(0)
  operation = getattr(tf.raw_ops, name)
  arguments = {}
  for argument in inspect.signature(rule.compute).parameters:
    if argument in rule.attributes:
      continue
    value = random.uniform(0.2, 0.9, 7) if argument in (*rule.assigns, "grad", "delta") else 0.3
    arguments[argument] = tf.constant(_SCALARS.get(argument, value), tf.float32)
  attributes = dict.fromkeys(rule.attributes, switch)
  expected = rule.compute(**arguments, **attributes)
  variables = {argument: tf.Variable(arguments[argument]) for argument in rule.assigns}
  handles = {argument: variable.handle for argument, variable in variables.items()}
  operation(**{**arguments, **handles}, **attributes)
  for argument, value in zip(rule.assigns, expected, strict=True):
    np.testing.assert_allclose(value, variables[argument], rtol=2e-6, atol=5e-7, err_msg=argument)
  assert any(not np.array_equal(variables[each], arguments[each]) for each in rule.assigns)


@pytest.mark.parametrize("name", [each for each in variable_operations.RULES if "Scatter" in each])
def test_rows_and_elements(name):
  rule = variable_operations.RULES[name]
  before = tf.constant(np.random.RandomState(0).randn(5, 3), tf.float32)
  variable = tf.Variable(before)
  if "Nd" in name:
    indices, updates = tf.constant([[0, 1], [4, 2]]), tf.constant([7.0, -8.0])
  else:
    indices, updates = tf.constant([0, 4]), tf.constant([[1.0, -2.0, 0.5]] * 2)
  (assigned,) = rule.assigns
  getattr(tf.raw_ops, name)(**{assigned: variable.handle}, indices=indices, updates=updates)
  (value,) = rule.compute(**{assigned: before}, indices=indices, updates=updates)
  np.testing.assert_array_equal(value, variable)
  assert not np.array_equal(before, variable)
