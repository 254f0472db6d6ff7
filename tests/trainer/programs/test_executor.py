"""Small steps run in a single thread: which they are, and that numbers and errors stay what
they were.
"""

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.programs import executor


def graph_of(fn, *specs):
  return tf.function(fn, autograph=False).get_concrete_function(*specs).graph


def matrix(rows, columns):
  return tf.TensorSpec([rows, columns], tf.float32)


def test_a_small_product_is_light():
  assert executor.is_light(graph_of(tf.matmul, matrix(32, 128), matrix(128, 64)))


@pytest.mark.parametrize(
  "fn, specs",
  [
    (tf.matmul, (matrix(512, 512), matrix(512, 512))),  # 268 million operations
    (tf.matmul, (matrix(None, 8), matrix(8, 8))),  # nobody knows how many
    (lambda x: tf.tanh(x) + 1, (matrix(4096, 4096),)),
    (
      lambda x: tf.nn.conv2d(x[tf.newaxis, :, :, tf.newaxis], tf.ones([3, 3, 1, 1]), 1, "SAME"),
      (matrix(8, 8),),
    ),
    (
      lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) < 9, lambda y: [y + 1], [x]),
      (matrix(2, 2),),
    ),
  ],
)
def test_what_is_large_or_unknown_is_not(fn, specs):
  assert not executor.is_light(graph_of(fn, *specs))


def trained(folder, single_thread):
  estimator = programs.estimator(folder)
  source = estimator.trace("train", programs.train_input)
  assert source.traced.is_single_threaded == single_thread
  estimator.train(source, steps=20)
  return {name: variable.numpy() for name, variable in estimator.variables.items()}


def test_executors_agree_closely_and_each_repeats_its_bits(tmp_path, monkeypatch):
  single = [trained(tmp_path / f"single{i}", True) for i in range(2)]
  monkeypatch.setattr(executor, "LIGHT_FLOPS", 0)
  usual = [trained(tmp_path / f"usual{i}", False) for i in range(2)]
  for name in single[0]:
    np.testing.assert_array_equal(single[0][name], single[1][name], name)
    np.testing.assert_array_equal(usual[0][name], usual[1][name], name)
    # Whether their bits are equal hangs on the processor: 6e-8 apart on an AMD EPYC, equal on an
    # Intel Xeon.
    np.testing.assert_allclose(single[0][name], usual[0][name], rtol=0, atol=1e-6, err_msg=name)


def test_several_cores_have_the_usual_executor(tmp_path):
  estimator = programs.estimator(tmp_path, device="cpu:2")
  assert not estimator.trace("train", programs.train_input).traced.is_single_threaded


@pytest.mark.parametrize("every, is_light", [(1, True), (2, False)])
def test_a_host_call_of_each_step_keeps_it_light(tmp_path, every, is_light):
  last = tf.Variable(0.0)

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    spec.host_call = lambda x: last.assign(x[0, 0]), [features["x"]]
    return spec

  config = trainer.TPUConfig(host_call_every_n_steps=every)
  estimator = programs.estimator(tmp_path, model_fn, tpu_config=config)
  source = estimator.trace("train", programs.train_input)
  assert source.traced.is_single_threaded == is_light
  estimator.train(source, steps=2)
  assert last.numpy() == programs.arrays(9)[0][8, 0]  # the first example of the second batch


@pytest.mark.parametrize("light", [True, False])
def test_an_error_of_the_step_is_told_from_one_of_the_input(tmp_path, monkeypatch, light):
  monkeypatch.setattr(executor, "LIGHT_FLOPS", 10**7 if light else 0)

  def model_fn(features, labels, mode, params):
    with tf.control_dependencies([tf.debugging.assert_less(labels, -1e9, "this step never works")]):
      return programs.line(features, tf.identity(labels), mode, params)

  with pytest.raises(
    errors.ModelFnError, match="model_fn failed in a step, mode 'train'.*this step never works"
  ) as caught:
    programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=2)
  assert "test_executor.py:" in str(caught.value)
