"""Strategies of tf.distribute, given to RunConfig, as in 2.15."""

import json

import numpy as np
import pytest
import tensorflow

import trainer.compat.v1 as tf
from tests.compat import programs
from trainer import errors
from trainer.compat.estimator import virtual_cores
from trainer.compat.v1 import estimator as tf_estimator
from trainer.compat.v1.contrib import distribute
from trainer.compat.v1.contrib import tpu as contrib_tpu


def test_a_strategy_is_the_device_and_connects_nothing(monkeypatch):
  strategy = distribute.MirroredStrategy(num_gpus=8)
  assert (strategy.device, strategy.num_replicas_in_sync) == ("cpu", 1)
  monkeypatch.setenv("OCTET_DEVICE", "cpu:8")
  assert (strategy.device, strategy.num_replicas_in_sync) == ("cpu:8", 8)
  assert tf.distribute.MirroredStrategy().num_replicas_in_sync == 8
  assert tf.distribute.OneDeviceStrategy("/cpu:0").num_replicas_in_sync == 8
  assert tf.distribute.get_strategy().num_replicas_in_sync == 1  # TensorFlow's own
  with pytest.raises(AttributeError, match="ParameterServerStrategy.*MirroredStrategy"):
    _ = distribute.ParameterServerStrategy


def test_missing_gpus_are_told_if_the_program_names_a_number(monkeypatch, caplog):
  gpus = []
  monkeypatch.setattr(tensorflow.config, "list_physical_devices", lambda kind: gpus)
  assert distribute.MirroredStrategy().device == "cpu"
  assert not caplog.messages
  assert distribute.MirroredStrategy(num_gpus=7).device == "cpu"
  assert caplog.messages == [
    "MirroredStrategy is for 7 devices, and there are 0 GPUs. The machine has one CPU core for it. "
    "OCTET_DEVICE=cpu:7 makes as many virtual cores."
  ]
  gpus += ["a", "b", "c"]
  assert distribute.MirroredStrategy().device == "xla:gpu:3"
  assert distribute.MirroredStrategy(num_gpus=2).device == "xla:gpu:2"
  assert distribute.MirroredStrategy(num_gpus=2).num_replicas_in_sync == 2
  assert len(caplog.messages) == 1


def test_cores_of_octet_device_exist_before_tensorflow_starts(monkeypatch):
  made, config = [], tensorflow.config
  monkeypatch.setattr(config, "get_logical_device_configuration", lambda cpu: None)
  monkeypatch.setattr(
    config, "set_logical_device_configuration", lambda cpu, cores: made.append(len(cores))
  )
  for device in ("", "cpu", "cpu:1", "tpu", "xla:2", "cpu:4"):
    monkeypatch.setenv("OCTET_DEVICE", device)
    virtual_cores.prepare()
  assert made == [4]


def _trained(folder, cores, batch, monkeypatch, make):
  monkeypatch.setenv("OCTET_DEVICE", cores)
  seen = []

  def input_fn():
    x, y = programs.arrays()
    seen.append(batch)
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat()
    return data.batch(batch, drop_remainder=True)

  made = make(str(folder), tf.distribute.MirroredStrategy(), batch)
  made.train(input_fn, steps=4)
  assert seen
  return made.get_variable_value("net/dense/kernel"), tf.train.load_variable(
    made.latest_checkpoint(), "examples_seen"
  )


def _estimator(folder, strategy, batch):
  config = tf_estimator.RunConfig(train_distribute=strategy, save_checkpoints_secs=3600)
  return tf_estimator.Estimator(programs.model_fn, folder, config)


def _tpu_estimator(folder, strategy, batch):
  config = contrib_tpu.RunConfig(train_distribute=strategy, save_checkpoints_secs=3600)
  return contrib_tpu.TPUEstimator(
    programs.tpu_model_fn, folder, config, use_tpu=False, train_batch_size=batch
  )


@pytest.mark.parametrize("make", [_estimator, _tpu_estimator])
def test_each_core_takes_a_batch_of_the_input_fn(tmp_path, monkeypatch, make):
  one, seen = _trained(tmp_path / "one", "cpu", 16, monkeypatch, make)
  two, seen_by_two = _trained(tmp_path / "two", "cpu:2", 8, monkeypatch, make)
  np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
  assert seen == seen_by_two == 64


@pytest.mark.parametrize(("eval_distribute", "seen"), [(True, 32), (False, 16)])
def test_eval_distribute_evaluates_a_batch_on_each_core(
  tmp_path, monkeypatch, eval_distribute, seen
):
  monkeypatch.setenv("OCTET_DEVICE", "cpu:2")

  def model_fn(features, labels, mode):
    spec = programs.model_fn(features, labels, mode)
    number = tf.metrics.mean(features["number"])
    return spec._replace(eval_metric_ops={"number": number} if mode == "eval" else None)

  def input_fn():
    x, y = programs.arrays()
    numbers = np.arange(programs.EXAMPLES, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x, "number": numbers}, y)).batch(8)

  strategy = distribute.TPUStrategy(None, steps_per_run=2)
  config = tf_estimator.RunConfig(
    train_distribute=strategy, eval_distribute=strategy if eval_distribute else None
  )
  made = tf_estimator.Estimator(model_fn, tmp_path, config)
  made.train(input_fn, steps=1)
  assert made.evaluate(input_fn, steps=2)["number"] == pytest.approx((seen - 1) / 2)


def test_the_strategy_of_a_tpu_is_for_a_config_alone(monkeypatch):
  strategy = distribute.TPUStrategy()
  assert strategy.device == "auto"
  with pytest.raises(errors.SettingError, match=r"RunConfig\(train_distribute=...\) alone"):
    strategy.scope()
  monkeypatch.setenv("OCTET_DEVICE", "cpu:2")
  assert (strategy.device, strategy.num_replicas_in_sync) == ("cpu:2", 2)


def test_a_model_fn_has_a_strategy_only_by_its_config(tmp_path):
  """In 2.15, an evaluation without eval_distribute had none, and programs ask for their metrics."""
  told = set()

  def model_fn(features, labels, mode):
    told.add((mode, distribute.has_distribution_strategy(), tf.distribute.has_strategy()))
    return programs.model_fn(features, labels, mode)

  def input_fn():
    x, y = programs.arrays()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(16)

  strategy = distribute.OneDeviceStrategy("device:CPU:0")
  config = tf_estimator.RunConfig(train_distribute=strategy, save_checkpoints_secs=3600)
  made = tf_estimator.Estimator(model_fn, tmp_path, config)
  made.train(input_fn, steps=1)
  made.evaluate(input_fn)
  assert told == {("train", True, True), ("eval", False, False)}
  assert not tf.distribute.has_strategy()


def test_several_workers_have_xla_devices(monkeypatch):
  gpus, cluster = [], {"worker": ["a:1", "b:1"]}
  monkeypatch.setattr(tensorflow.config, "list_physical_devices", lambda kind: gpus)
  monkeypatch.setenv(
    "TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})
  )
  made = (distribute.CollectiveAllReduceStrategy(), tf.distribute.MirroredStrategy())
  assert [strategy.device for strategy in made] == ["xla:1", "xla:1"]
  assert tf_estimator.RunConfig().octet().device == "xla:1"
  gpus += ["a", "b"]
  assert [strategy.device for strategy in made] == ["xla:gpu:2", "xla:gpu:2"]
  assert tf_estimator.RunConfig().octet().device == "xla:gpu:1"


@pytest.mark.parametrize(
  "task, is_chief", [("chief", True), ("worker", False), ("evaluator", False)]
)
def test_a_config_knows_the_chief_of_a_cluster(monkeypatch, task, is_chief):
  jobs = {"chief": ["a:1"], "worker": ["b:1"], "evaluator": ["c:1"]}
  monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": {"type": task}}))
  assert tf.estimator.RunConfig().is_chief == is_chief
