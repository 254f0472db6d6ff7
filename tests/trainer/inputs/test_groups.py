"""Batches are cut for the cores, and grouped with padding that is counted."""

import time
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer.inputs import groups as groups_lib


def groups(count, per_core, replicas):
  """[(values [replicas, per_core], rows)] of the numbers from 1 to count."""
  dataset = tf.data.Dataset.range(1, count + 1).batch(per_core).map(lambda numbers: (numbers,))
  grouped = groups_lib.group(dataset, per_core, replicas)
  assert grouped.element_spec[0][0].shape == [replicas, per_core]
  assert grouped.element_spec[1].shape == [replicas]
  return [(element[0].numpy().tolist(), rows.numpy().tolist()) for element, rows in grouped]


def ungrouped(group):
  """The examples of a group that are real, in order: an element whose first axis is theirs."""
  element, rows = group
  real = tf.sequence_mask(rows, tf.nest.flatten(element)[0].shape[1])
  return tf.nest.map_structure(lambda tensor: tf.boolean_mask(tensor, real), element)


def test_the_tail_is_padded_and_counted():
  assert groups(7, per_core=2, replicas=3) == [
    ([[1, 2], [3, 4], [5, 6]], [2, 2, 2]),
    ([[7, 0], [0, 0], [0, 0]], [1, 0, 0]),
  ]
  assert groups(3, per_core=2, replicas=1) == [([[1, 2]], [2]), ([[3, 0]], [1])]
  assert groups(4, per_core=2, replicas=2) == [([[1, 2], [3, 4]], [2, 2])]
  assert groups(0, per_core=2, replicas=2) == []


@pytest.mark.parametrize(("per_core", "replicas"), [(4, 1), (2, 3)])
def test_the_examples_of_groups_come_back_without_the_padding(per_core, replicas):
  dataset = tf.data.Dataset.from_tensor_slices(
    (tf.range(11), tf.strings.as_string(tf.range(11)))
  ).batch(per_core)
  elements = [ungrouped(group) for group in groups_lib.group(dataset, per_core, replicas)]
  numbers, texts = (np.concatenate(parts) for parts in zip(*elements, strict=True))
  assert numbers.tolist() == list(range(11))
  assert texts.tolist() == [str(number).encode() for number in range(11)]


def test_strings_are_padded_too():
  dataset = tf.data.Dataset.from_tensor_slices(["a", "b", "c"]).batch(2).map(lambda text: (text,))
  (text,), rows = next(iter(groups_lib.group(dataset, 2, 2)))
  assert text.numpy().tolist() == [[b"a", b"b"], [b"c", b""]]
  assert rows.numpy().tolist() == [2, 1]


def test_broadcast_groups_count_once():
  dataset = tf.data.Dataset.range(1, 4).batch(2).map(lambda numbers: (numbers,))
  found = [
    (element[0].numpy().tolist(), rows.numpy().tolist())
    for element, rows in groups_lib.group(dataset, 2, 2, broadcast=True)
  ]
  assert found == [([[1, 2], [1, 2]], [2, 0]), ([[3, 0], [3, 0]], [1, 0])]


@pytest.mark.parametrize(("replicas", "broadcast"), [(1, False), (2, False), (2, True)])
def test_a_second_evaluation_traces_no_padding(replicas, broadcast):
  dataset = tf.data.Dataset.range(30).batch(13).map(lambda numbers: ({"numbers": numbers},))
  with mock.patch.object(groups_lib, "_padded", wraps=groups_lib._padded) as padded:
    first = list(groups_lib.group(dataset, 13, replicas, broadcast))
    traced = padded.call_count
    second = list(groups_lib.group(dataset, 13, replicas, broadcast))
  assert traced
  assert padded.call_count == traced
  tf.nest.map_structure(np.testing.assert_array_equal, first, second)


def test_host_batches_are_cut_in_order():
  dataset = tf.data.Dataset.range(8).batch(4, drop_remainder=True).map(lambda numbers: (numbers,))
  cut = groups_lib.cut(dataset, 2)
  assert [numbers.numpy().tolist() for (numbers,) in cut] == [[0, 1], [2, 3], [4, 5], [6, 7]]
  assert cut.element_spec[0].shape == [2]


# ------------------------------------------------------------------- tuning


def tuned(dataset):
  return dataset.options().autotune.enabled


def test_what_the_loops_take_is_not_tuned(tmp_path):
  """Tuning's thread sleeps for up to a minute, and an iterator that ends has to wait for it."""
  estimator = programs.estimator(tmp_path)
  with mock.patch.object(groups_lib.processes, "cpu_count", return_value=16):
    assert tuned(estimator._parts.feeder.for_loop("train", programs.train_input)) is False
    assert tuned(estimator._parts.feeder.for_loop("eval", programs.examples(12))) is False
    assert (
      tuned(
        groups_lib.group(tf.data.Dataset.range(8).batch(2).map(lambda numbers: (numbers,)), 2, 2)
      )
      is False
    )


def test_large_hosts_are_tuned_as_ever():
  with mock.patch.object(groups_lib.processes, "cpu_count", return_value=17):
    assert tuned(groups_lib.without_tuning(tf.data.Dataset.range(8))) is None


@pytest.mark.parametrize("wanted", [True, False])
def test_what_a_dataset_says_of_tuning_is_kept(wanted):
  options = tf.data.Options()
  options.autotune.enabled = wanted
  options.deterministic = False
  with mock.patch.object(groups_lib.processes, "cpu_count", return_value=2):
    dataset = groups_lib.without_tuning(tf.data.Dataset.range(8).with_options(options))
  assert tuned(dataset) is wanted
  assert dataset.options().deterministic is False


def test_training_data_are_read_ahead_once():
  def is_read_ahead(dataset):
    seen = []

    def look(x):
      seen.append(int(x))
      return x

    iterator = iter(
      groups_lib.read_ahead(dataset(lambda x: tf.numpy_function(look, [x], tf.int64)))
    )
    next(iterator)
    deadline = time.monotonic() + 30
    while len(seen) < 2 and time.monotonic() < deadline:
      time.sleep(0.01)
    return len(seen) > 1

  options = tf.data.Options()
  options.deterministic = True
  numbers = tf.data.Dataset.range(10)
  assert is_read_ahead(lambda look: numbers.map(look))
  assert is_read_ahead(lambda look: numbers.map(look).with_options(options))
  ahead = numbers.prefetch(3)
  assert groups_lib.read_ahead(ahead)._input_dataset is ahead
  assert groups_lib.read_ahead(ahead.with_options(options))._input_dataset._input_dataset is ahead


def test_one_core_gets_the_batches_as_they_are():
  dataset = tf.data.Dataset.range(8).batch(4)
  assert groups_lib.cut(dataset, 1) is dataset


def test_all_parts_of_a_batch_are_cut_alike():
  numbers = tf.range(4)
  dataset = tf.data.Dataset.from_tensors(({"x": numbers}, tf.stack([numbers, -numbers], 1)))
  found = [
    (features["x"].numpy().tolist(), y.numpy().tolist())
    for features, y in groups_lib.cut(dataset, 2)
  ]
  assert found == [([0, 1], [[0, 0], [1, -1]]), ([2, 3], [[2, -2], [3, -3]])]


def test_padding_keeps_types_and_structure():
  element = {"flag": [True], "half": tf.constant([1.5], tf.bfloat16)}, (tf.constant([7], tf.uint8),)
  dataset = tf.data.Dataset.from_tensors(element)
  (features, (label,)), rows = next(iter(groups_lib.group(dataset, 3, 1)))
  assert features["flag"].numpy().tolist() == [[True, False, False]]
  assert features["half"].dtype == tf.bfloat16
  assert (label.dtype, label.numpy().tolist()) == (tf.uint8, [[7, 0, 0]])
  assert (rows.dtype, rows.numpy().tolist()) == (tf.int64, [1])


@pytest.mark.parametrize("replicas, broadcast", [(1, False), (2, False), (2, True)])
def test_a_batch_with_more_examples_than_its_size_is_an_error(replicas, broadcast):
  dataset = tf.data.Dataset.range(5).batch(5).map(lambda numbers: (numbers,))
  with pytest.raises(
    tf.errors.InvalidArgumentError, match="more examples than the per-core batch size, 4"
  ):
    list(groups_lib.group(dataset, 4, replicas, broadcast))
