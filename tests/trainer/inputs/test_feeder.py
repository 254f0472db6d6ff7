"""From an input_fn to what a device loop reads."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.inputs import devices
from trainer import errors, run_config
from trainer.inputs import feeder

PER_CORE = 2


def make(local_replicas=1, hosts=1, host=0, stage=None, **tpu_config):
  config = run_config.RunConfig(tpu_config=run_config.TPUConfig(**tpu_config))
  device = devices.Device(local_replicas * hosts, local_replicas, hosts, host)
  arguments = {} if stage is None else {"stage": stage}
  return feeder.Feeder(device, lambda kind: PER_CORE, config, {"depth": 3}, **arguments)


def numbers(count, repeat=False):
  def input_fn(params):
    dataset = tf.data.Dataset.range(count)
    dataset = dataset.repeat() if repeat else dataset
    return dataset.batch(params["batch_size"], drop_remainder=repeat).map(
      lambda batch: ({"x": batch}, batch)
    )

  return input_fn


def test_input_fn_gets_params_and_per_core_batch_size():
  seen = {}

  def input_fn(params):
    seen.update(params)
    return numbers(8)(params)

  dataset, batch_size = make().batches("eval", input_fn)
  assert (seen, batch_size) == ({"depth": 3, "batch_size": PER_CORE}, PER_CORE)
  features, labels = next(iter(dataset))
  np.testing.assert_array_equal(labels, [0, 1])
  np.testing.assert_array_equal(features["x"], [0, 1])


@pytest.mark.parametrize("kind, expected", [("train", 8), ("eval", 2)])
def test_a_training_may_get_the_batch_of_its_host(kind, expected):
  feed = make(4, per_host_input_for_training=run_config.InputPipelineConfig.PER_HOST_V1)
  assert feed.batches(kind, numbers(16, repeat=True))[1] == expected
  for element in feed.for_loop("train", numbers(16, repeat=True)).take(1):
    assert element[1].shape == (PER_CORE,)  # cut for the cores


def test_hosts_share_training_data_and_each_evaluates_all():
  def firsts(kind, host):
    dataset, _ = make(hosts=2, host=host).batches(kind, numbers(8, repeat=kind == "train"))
    return [int(labels[0]) for _, labels in dataset.take(2)]

  assert [firsts("train", host) for host in (0, 1)] == [[0, 4], [2, 6]]
  assert [firsts("eval", host) for host in (0, 1)] == [[0, 2], [0, 2]]


def test_hosts_share_the_groups_of_an_evaluation():
  device = devices.Device(4, 2, hosts=2, host=1)
  feed = feeder.Feeder(device, lambda kind: PER_CORE, run_config.RunConfig(), {})
  element, rows = next(iter(feed.for_loop("eval", numbers(10))))
  assert element[1].shape == (4, PER_CORE)
  assert rows.numpy().tolist() == [PER_CORE] * 4
  assert element[1].numpy().tolist()[:2] == [[0, 1], [2, 3]]


def test_a_training_begins_at_an_example():
  dataset, _ = make().batches("train", numbers(8, repeat=True), start=4)
  assert next(iter(dataset))[1].numpy().tolist() == [4, 5]


def test_evaluation_reads_groups_with_the_tail_padded():
  (element, rows), *others = make(2).for_loop("eval", numbers(3))
  assert (rows.numpy().tolist(), others) == ([2, 1], [])
  assert element[1].numpy().tolist() == [[0, 1], [2, 0]]


def test_export_prefers_features_of_evaluation_to_training():
  feed = make()
  assert feed.feature_dataset == (None, None)
  kinds = []
  for kind in ("train", "eval", "train", "predict"):
    feed.for_loop(kind, numbers(8, repeat=True))
    kinds.append(feed.feature_dataset[0])
  assert kinds == ["train", "eval", "eval", "predict"]


def test_shapes_are_checked():
  with pytest.raises(errors.InputError, match="batch with drop_remainder=True"):
    make().batches("train", numbers(8))


def test_each_call_is_a_stage():
  stages = []

  @contextlib.contextmanager
  def stage(name):
    stages.append(name)
    yield

  make(stage=stage).batches("eval", numbers(8))
  (name,) = stages
  assert name.startswith("eval input_fn ")
