"""A loss that is no number is said with its step, the tensor it comes from, its batch and the
checkpoint to go back to; or the training goes back.
"""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.loop import non_finite, outer_loop

BAD_STEP = 137


def result(loss, step):
  return outer_loop.LoopResult(10, 10, 1.0, loss, step, 0.0, {}, False)


def test_a_finite_loss_is_nothing_to_say():
  assert non_finite.check_loss(result(0.5, -1), good_step=0) is None


@pytest.mark.parametrize(
  "loss, word", [(math.nan, "NaN"), (math.inf, "infinite"), (-math.inf, "infinite")]
)
def test_the_step_and_the_last_good_checkpoint(loss, word):
  with pytest.raises(non_finite.NonFinite) as found:
    non_finite.check_loss(result(loss, 7), good_step=5)
  text = non_finite.message(found.value, "/m/model.ckpt-5", "Because.")
  assert text.startswith(
    f"The loss became {word} at step 7. Because. The last good checkpoint is /m/model.ckpt-5; "
  )
  assert "There is no checkpoint yet" in non_finite.message(found.value, None, "")


def logarithm(features, labels, mode, params):
  """A line, beside which a logarithm of "x", 2 in all rows but one, is nothing that is added."""
  spec = programs.line({"x": features["x"]}, labels, mode, params)
  loss = spec.loss + 0.0 * tf.reduce_mean(tf.math.log(features["positive"]))
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.001), loss)
  )


def with_bad_row(value):
  """An input_fn whose batch of 8 of step BAD_STEP has the value in row 3 of "positive"."""

  def input_fn(params):
    x, y = programs.arrays(4096)
    positive = np.full(4096, 2, np.float32)
    positive[8 * (BAD_STEP - 1) + 3] = value
    return (
      tf.data.Dataset.from_tensor_slices(({"x": x, "positive": positive}, y))
      .repeat()
      .batch(params["batch_size"], drop_remainder=True)
    )

  return input_fn


def estimator(model_dir, device, **config):
  return programs.estimator(
    model_dir, logarithm, device, save_checkpoints_steps=100, **config, **programs.fixed_loops(50)
  )


@pytest.mark.of_tensorflows_replicas
@pytest.mark.long_on_several_cores
def test_the_step_the_tensor_and_the_batch(tmp_path, device):
  with pytest.raises(errors.NonFiniteError) as raised:
    estimator(tmp_path, device).train(with_bad_row(-1), max_steps=400)
  text = str(raised.value)
  assert (
    f"NaN at step {BAD_STEP}. The first tensor with NaN or infinite values is the output of Log, "
    "float32, (" in text
  )
  assert "test_non_finite.py:" in text
  assert "model.ckpt-100; the training wrote no file since" in text
  batch = np.load(tmp_path / "non_finite" / f"step-{BAD_STEP}.npz")
  rows = np.concatenate([batch[name] for name in batch.files if "positive" in name])
  np.testing.assert_array_equal(rows, [2, 2, 2, -1, 2, 2, 2, 2])
  assert [path.name for path in sorted(tmp_path.glob("model.ckpt-*.index"))] == [
    "model.ckpt-0.index",
    "model.ckpt-100.index",
  ]


def test_an_input_that_is_not_finite_is_named(tmp_path):
  with pytest.raises(
    errors.NonFiniteError, match=r'features\["positive"\] of its batch has NaN or infinite values'
  ):
    estimator(tmp_path, "cpu").train(with_bad_row(np.nan), max_steps=400)


@pytest.mark.long_on_several_cores
def test_rollback_resumes_at_good_checkpoint_with_next_data(tmp_path, device):
  runner = estimator(tmp_path / "rolled", device, on_non_finite="rollback")
  seen = []
  runner.train(with_bad_row(-1), max_steps=250, hooks=[lambda step, metrics, _: seen.append(step)])
  # 150 twice, of which the first was of no use and no hook's business.
  assert seen == [50, 100, 150, 200, 250]
  # The same training by hand: 100 steps, and the others without the 50 batches that were passed
  # over.
  plain = estimator(tmp_path / "plain", device)
  plain.train(with_bad_row(2), max_steps=100)
  plain.train(
    lambda params: with_bad_row(2)(params).skip(150 * 8 // params["batch_size"]), max_steps=250
  )
  np.testing.assert_array_equal(runner.get_variable_value("w"), plain.get_variable_value("w"))


def test_a_rollback_that_does_not_help_ends(tmp_path):
  def always(features, labels, mode, params):
    spec = logarithm(features, labels, mode, params)
    step = tf.compat.v1.train.get_global_step()
    loss = spec.loss + tf.where(step >= 110, float("nan"), 0.0)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=spec.train_op)

  runner = programs.estimator(
    tmp_path,
    always,
    save_checkpoints_steps=100,
    on_non_finite="rollback",
    **programs.fixed_loops(50),
  )
  with pytest.raises(
    errors.NonFiniteError, match=f"went back to that checkpoint {non_finite.ROLLBACKS} times"
  ):
    runner.train(with_bad_row(2), max_steps=400)
