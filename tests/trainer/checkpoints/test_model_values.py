"""Which values are evaluated, predicted with and exported: a warm start's until there is a
checkpoint, and moving averages where there are some.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import reader


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
  """The folder of a trained line."""
  folder = tmp_path_factory.mktemp("pretrained")
  programs.estimator(folder).train(programs.train_input, max_steps=20)
  return str(folder)


def warm(model_dir, source, device="cpu"):
  return trainer.Estimator(
    programs.line,
    str(model_dir),
    trainer.RunConfig(device=device),
    train_batch_size=8,
    eval_batch_size=8,
    warm_start_from=source,
  )


def predicted(estimator, **more):
  return np.array([row["y"] for row in estimator.predict(programs.examples(11), **more)])


def exported(estimator, folder):
  estimator.trace("predict", programs.examples(11))  # from which it knows the features
  x, _ = programs.arrays(11)
  serve = tf.saved_model.load(estimator.export_saved_model(str(folder))).signatures[
    "serving_default"
  ]
  return serve(x=tf.constant(x))["y"].numpy()


@pytest.mark.long_on_several_cores
def test_every_method_has_the_values_of_a_warm_start(pretrained, tmp_path, device):
  expected = programs.estimator(pretrained).evaluate(programs.examples(11))
  estimator = warm(tmp_path, pretrained, device)
  result = estimator.evaluate(programs.examples(11))
  assert result["loss"] == pytest.approx(expected["loss"], rel=1e-6)
  assert result["global_step"] == 0
  assert list(tmp_path.iterdir()) == [tmp_path / "eval"]  # nothing but a summary was written
  y = predicted(programs.estimator(pretrained))
  np.testing.assert_allclose(predicted(estimator), y, atol=1e-6)
  np.testing.assert_allclose(
    exported(warm(tmp_path, pretrained, device), tmp_path / "export"), y, atol=1e-6
  )


def test_warm_start_comes_first_and_own_checkpoint_afterwards(pretrained, tmp_path):
  other = programs.estimator(pretrained)
  estimator = warm(tmp_path, pretrained)
  # Which leaves the variables with the same values, and no optimizer.
  estimator.evaluate(programs.examples(11))
  estimator.train(programs.train_input, max_steps=1)
  np.testing.assert_array_equal(
    reader.read(str(tmp_path / "model.ckpt-0"), ["w"])["w"], other.get_variable_value("w")
  )
  assert estimator.get_variable_value("global_step") == 1
  own = estimator.get_variable_value("w")
  again = warm(tmp_path, "/nowhere")  # which is not looked for any more
  again.evaluate(programs.examples(11))
  np.testing.assert_array_equal(again.variables["w"].numpy(), own)


def test_missing_warm_start_is_reported_before_any_write(tmp_path):
  estimator = warm(tmp_path / "run", str(tmp_path / "nowhere"))
  for call in (
    estimator.evaluate,
    estimator.predict,
    functools.partial(estimator.train, max_steps=1),
  ):
    with pytest.raises(errors.CheckpointNotFoundError, match="nowhere"):
      call(programs.train_input)
  assert not (tmp_path / "run").exists()


def test_what_warm_start_from_can_be():
  with pytest.raises(errors.SettingError, match="warm_start_from is 3"):
    warm("/tmp/unused", 3)


def averaging(features, labels, mode, params):
  """programs.line with a moving average of its weights."""
  spec = programs.line(features, labels, mode, params)
  if mode != trainer.ModeKeys.TRAIN:
    return spec
  return trainer.EstimatorSpec(
    mode,
    loss=spec.loss,
    train_op=trainer.minimize(keras.optimizers.SGD(0.01), spec.loss, ema_decay=0.9),
  )


def loss_of(values, w, b):
  x, y = programs.arrays(11)
  return np.mean((x @ values[w] + values[b] - y) ** 2)


@pytest.mark.long_on_several_cores
def test_averages_are_evaluated_predicted_with_and_exported(tmp_path, device):
  estimator = programs.estimator(tmp_path, averaging, device)
  estimator.train(programs.train_input, max_steps=10)
  values = reader.read(estimator.latest_checkpoint(), ["w", "b", "ema/w", "ema/b"])
  expected = loss_of(values, "ema/w", "ema/b")
  assert abs(expected - loss_of(values, "w", "b")) > 1e-3
  x, _ = programs.arrays(11)
  # With the averages among its variables, and with a checkpoint alone.
  for one in (estimator, programs.estimator(tmp_path, averaging)):
    assert one.evaluate(programs.examples(11))["loss"] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(predicted(one), x @ values["ema/w"] + values["ema/b"], atol=1e-5)
    np.testing.assert_allclose(
      exported(one, tmp_path / "export"), x @ values["ema/w"] + values["ema/b"], atol=1e-5
    )
  as_trained = programs.estimator(tmp_path, averaging, evaluate_ema=False)
  assert as_trained.evaluate(programs.examples(11))["loss"] == pytest.approx(
    loss_of(values, "w", "b"), rel=1e-5
  )


@pytest.mark.long_on_several_cores
def test_an_evaluation_of_averages_leaves_the_training_as_it_is(tmp_path, device):
  losses = []

  def evaluate(step, metrics, estimator):
    estimator.save_checkpoint()
    losses.append(estimator.evaluate(programs.examples(11))["loss"])

  evaluated = programs.estimator(
    tmp_path / "evaluated", averaging, device, **programs.fixed_loops(5)
  )
  evaluated.train(programs.train_input, hooks=[evaluate], max_steps=15)
  plain = programs.estimator(tmp_path / "plain", averaging, device, **programs.fixed_loops(5))
  plain.train(programs.train_input, max_steps=15)
  for name in plain.variables:
    np.testing.assert_array_equal(
      evaluated.get_variable_value(name), plain.get_variable_value(name), name
    )
  # In the same process, after an evaluation of averages.
  for each in (evaluated, plain):
    each.train(programs.train_input, max_steps=20)
  np.testing.assert_array_equal(evaluated.get_variable_value("w"), plain.get_variable_value("w"))
  path = plain.checkpoint_path(15)
  assert losses[-1] == plain.evaluate(programs.examples(11), checkpoint_path=path)["loss"]
