import os
import traceback

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import in_memory

COUNT = 37


def batches(batch_size=8, training=True, seed=1, preprocess=None):
  tf.random.set_seed(seed)
  rows = np.arange(COUNT, dtype=np.int32)
  return in_memory.batches(
    {"twice": 2 * rows}, rows, batch_size, training=training, preprocess=preprocess
  )


def labels(dataset, count=None):
  return np.concatenate(
    [batch[1] for batch in dataset.take(-1 if count is None else count).as_numpy_iterator()]
  )


@pytest.mark.parametrize("batch_size", [1, 8, COUNT, 50, 100])
def test_epochs_are_whole_and_differ(batch_size):
  seen = labels(batches(batch_size), 4 * COUNT)
  epochs = seen[: len(seen) // COUNT * COUNT].reshape(-1, COUNT)
  np.testing.assert_array_equal(np.sort(epochs), np.tile(np.arange(COUNT), (len(epochs), 1)))
  assert len({tuple(epoch) for epoch in epochs}) == len(epochs)


def test_the_seed_gives_the_order():
  first, same, other = (labels(batches(seed=seed), 20) for seed in (1, 1, 2))
  np.testing.assert_array_equal(first, same)
  assert (first != other).any()


def test_orders_are_even():
  """Each example is as likely in each place: chi-square, whose mean here is 36 × 36."""
  epochs = labels(batches(COUNT), 2000).reshape(-1, COUNT)
  counts = np.stack([np.bincount(places, minlength=COUNT) for places in epochs.T])
  expected = len(epochs) / COUNT
  degrees = (COUNT - 1) ** 2
  assert abs(((counts - expected) ** 2 / expected).sum() / degrees - 1) < 0.2


def test_evaluation_is_once_and_in_order():
  dataset = batches(training=False)
  np.testing.assert_array_equal(labels(dataset), np.arange(COUNT))
  assert [len(batch[1]) for batch in dataset] == [8, 8, 8, 8, 5]


def test_features_stay_with_their_labels():
  for features, numbers in batches().take(10).as_numpy_iterator():
    np.testing.assert_array_equal(features["twice"], 2 * numbers)


def test_only_preprocess_goes_through_autograph():
  frames = []

  def preprocess(features, numbers):
    frames.extend(traceback.extract_stack())
    if tf.reduce_sum(numbers) > 0:
      numbers = -numbers
    return features, numbers

  _, numbers = next(iter(batches(preprocess=preprocess)))
  assert (numbers.numpy() <= 0).all()
  assert ("in_memory.py", "gather") in [
    (os.path.basename(frame.filename), frame.name) for frame in frames
  ]


def test_preprocess_is_given_whole_batches():
  shapes = []

  def preprocess(features, numbers):
    shapes.append((features["twice"].shape[0], numbers.shape[0]))
    return {"half": tf.cast(features["twice"], tf.float32) / 4}, numbers

  features, numbers = next(iter(batches(preprocess=preprocess)))
  np.testing.assert_array_equal(features["half"], numbers.numpy() / 2)
  assert set(shapes) == {(8, 8)}


def test_training_is_static_and_known_to_be_endless():
  dataset = batches()
  assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
  assert dataset.element_spec == (
    {"twice": tf.TensorSpec([8], tf.int32)},
    tf.TensorSpec([8], tf.int32),
  )
  assert batches(training=False).cardinality() == 5


@pytest.mark.parametrize("symbolic", [False, True])
def test_the_position_can_be_saved(tmp_path, symbolic):
  options = tf.data.Options()
  options.experimental_symbolic_checkpoint = symbolic
  iterator = iter(batches().with_options(options))
  for _ in range(7):
    next(iterator)
  path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "position"))
  expected = [next(iterator)[1].numpy() for _ in range(20)]
  resumed = iter(batches().with_options(options))
  tf.train.Checkpoint(iterator=resumed).restore(path)
  np.testing.assert_array_equal([next(resumed)[1].numpy() for _ in range(20)], expected)
