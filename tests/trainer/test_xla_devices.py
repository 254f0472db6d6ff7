"""Whole runs on eight XLA devices: what is due at boundaries, and what comes back after an end."""

import signal

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import runtimes
from tests.trainer import programs
from tests.trainer.loop import test_preemption
from trainer import errors, testing
from trainer.pjrt import devices

runtimes.require_jax()

XLA = "xla:8"


def test_train_and_evaluate_stops_early_and_exports_the_best(tmp_path):
  """After a warm start from a checkpoint of one core, with a hook."""
  seen, after = [], []

  cpu = programs.estimator(tmp_path / "cpu").train(programs.train_input, max_steps=10)
  estimator = trainer.Estimator(
    programs.line,
    str(tmp_path / "xla"),
    trainer.RunConfig(device=XLA, save_checkpoints_steps=10),
    train_batch_size=8,
    eval_batch_size=8,
    warm_start_from=str(tmp_path / "cpu"),
  )

  def hook(step, metrics, estimator):
    if not seen:
      after.append(estimator.variables["w"].numpy())
    seen.append(step)

  trainer.train_and_evaluate(
    estimator,
    trainer.TrainSpec(
      programs.train_input,
      max_steps=60,
      hooks=[hook, trainer.EarlyStopping(patience=2, min_delta=1000.0)],
    ),
    trainer.EvalSpec(
      programs.examples(11), exporters=[trainer.BestExporter(metric="loss", mode="min")]
    ),
  )
  assert estimator.latest_step() == 30
  assert seen[-1] == 30
  # It began where the training on one core had ended.
  assert np.abs(after[0] - cpu.variables["w"].numpy()).max() < np.abs(after[0]).max() / 2
  assert len(list((tmp_path / "xla" / "export").glob("*/[0-9]*"))) >= 1


def test_a_signal_saves_and_the_next_run_comes_to_the_same_bits(tmp_path):
  def train(folder, until, hooks=()):
    estimator = programs.estimator(tmp_path / folder, device=XLA, **programs.fixed_loops(1))
    return estimator.train(programs.train_input, max_steps=until, hooks=list(hooks))

  with test_preemption.left(signal.SIGTERM):
    train("cut", 8, [test_preemption.sending(signal.SIGTERM, at=3)])
  resumed, whole = train("cut", 8), train("whole", 8)
  testing.assert_same_values(testing.values(resumed), testing.values(whole))


def test_dynamic_batch_shape_is_refused_before_compilation(tmp_path):
  def input_fn(params):
    return programs.train_input(params).map(
      lambda features, y: ({"x": features["x"][:, : tf.cast(y[0], tf.int32)]}, y)
    )

  with pytest.raises(errors.OctetError, match="shape"):
    programs.estimator(tmp_path, device=XLA).train(input_fn, max_steps=1)
  assert not list(tmp_path.glob("model.ckpt*"))


def test_more_devices_than_this_process_has_are_refused(tmp_path):
  count = devices.connect("cpu", 8).count * 2
  with pytest.raises(errors.SettingError, match=f"{count} XLA devices .* this process has 8"):
    programs.estimator(tmp_path, device=f"xla:{count}")


def test_a_look_up_table_is_refused_with_its_place(tmp_path):
  def model_fn(features, labels, mode, params):
    table = tf.lookup.StaticHashTable(
      tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1], tf.int64), tf.constant([1.0, 2.0])),
      0.0,
    )
    features = {"x": features["x"] + table.lookup(tf.zeros([1, 1], tf.int64))}
    return programs.line(features, labels, mode, params)

  with pytest.raises(errors.OctetError, match="test_xla_devices.py:.*input_fn"):
    programs.estimator(tmp_path, model_fn, XLA).train(programs.train_input, max_steps=1)
