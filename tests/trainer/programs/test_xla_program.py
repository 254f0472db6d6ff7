"""Inputs of programs for XLA devices; `test_xla_steps` runs programs."""

import types

import pytest
import tensorflow as tf

from trainer import errors
from trainer.programs import core_results, plan, xla_program
from trainer.settings.kinds import Kind


def spec(dtype):
  return {"image": tf.TensorSpec([4], tf.float32), "id": tf.TensorSpec([4], dtype)}, None


@pytest.mark.parametrize("dtype", [tf.string, tf.variant, tf.resource], ids=str)
def test_a_dtype_that_xla_lacks_is_named_with_its_feature(dtype):
  features, _ = spec(dtype)
  with pytest.raises(errors.InputError, match=rf'features\["id"\] \(eval\).* {dtype.name}'):
    xla_program.check_dtypes(Kind.EVAL, (features,))


@pytest.mark.parametrize("dtype", [tf.int64, tf.bool, tf.uint8, tf.bfloat16], ids=str)
def test_numbers_are_accepted(dtype):
  xla_program.check_dtypes(Kind.TRAIN, (spec(dtype)[0],))


@pytest.mark.parametrize(
  ("fitting", "lengths"),
  [
    ([], [64]),
    ([10], [64, 10]),
    ([10, 4], [64, 10, 4]),  # larger results in another trace
    ([1], [64, 1]),
    ([0], [64, 1]),
  ],
)
def test_too_large_results_give_shorter_programs(monkeypatch, fitting, lengths):
  tried, left = [], list(fitting)

  def trace(program, one):
    tried.append(one.length)
    if left:
      raise core_results.TooLarge(left.pop(0))
    return types.SimpleNamespace(plan=one)

  monkeypatch.setattr(xla_program, "trace", trace)
  found = xla_program.trace_longest(None, plan.Plan(Kind.EVAL, None, 64, 1000), "tpu").plan
  assert tried == lengths
  assert (found.length, found.kind, found.limit_bytes) == (lengths[-1], Kind.EVAL, 1000)


@pytest.mark.parametrize(
  ("layer", "platform", "lengths"),
  [
    (tf.nn.conv2d, "cpu", [64, 1]),
    (tf.nn.depthwise_conv2d, "cpu", [64, 1]),
    (tf.nn.conv2d, "tpu", [64]),
    (None, "cpu", [64]),
  ],
)
def test_convolutions_train_outside_of_loops_on_a_cpu(monkeypatch, layer, platform, lengths):
  """XLA's kernel gradients in a loop took 20 to 90 times as long."""
  tried = []

  @tf.function
  def step(kernel):
    images = tf.ones([1, 4, 4, 1])
    result = images * kernel if layer is None else layer(images, kernel, [1, 1, 1, 1], "SAME")
    return tf.gradients(result, kernel)

  @tf.function
  def steps(kernel):
    return tf.while_loop(
      lambda index, kernel: index < 2, lambda index, kernel: (index + 1, *step(kernel)), [0, kernel]
    )

  def trace(program, one):
    tried.append(one.length)
    concrete = steps.get_concrete_function(tf.TensorSpec([1, 1, 1, 1]))
    return types.SimpleNamespace(plan=one, concrete=concrete)

  monkeypatch.setattr(xla_program, "trace", trace)
  xla_program.trace_longest(None, plan.Plan(Kind.TRAIN, None, 64), platform)
  assert tried == lengths
