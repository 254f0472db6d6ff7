"""Several data sets in one training."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import in_memory, mixture
from tests import long
from tests.input_pipelines import tiny_data
from trainer import errors


def numbers(params, first, count, training=True, start=0, input_context=None):
  """Examples that are numbers from `first` on; each host has its part."""
  hosts = input_context.num_input_pipelines if input_context else 1
  host = input_context.input_pipeline_id if input_context else 0
  own = np.arange(first, first + count)[host::hosts]
  return in_memory.batches(
    {"x": own}, own, params["batch_size"], training=training, start=start // hosts
  )


PARTS = [functools.partial(numbers, first=first, count=20) for first in (0, 100, 200)]


def examples(count, parts=PARTS, weights=(3, 1, 0), batch_size=8, **arguments):
  tf.random.set_seed(5)
  dataset = mixture.input_fn({"batch_size": batch_size}, list(parts), list(weights), **arguments)
  batches = dataset.take(-(-count // batch_size))
  return np.concatenate([labels for _, labels in batches])[:count]


def test_the_sets_have_their_shares_and_are_spread_evenly():
  found = examples(4000) // 100
  assert np.bincount(found).tolist() == [3000, 1000]
  assert (np.bincount(found[:40], minlength=2) == [30, 10]).all()
  for place in range(0, 4000, 40):
    assert (found[place : place + 40] == 1).sum() == 10


def test_small_weights_and_thirds():
  found = examples(3000, weights=(1, 1, 1)) // 100
  assert np.ptp(np.bincount(found)) <= 3
  found = examples(1000, weights=(1e6, 1.0, 1.0)) // 100
  assert np.bincount(found).tolist() == [998, 1, 1]


def test_each_set_is_whole_in_each_of_its_epochs():
  found = examples(160)
  own = found[found < 100]
  assert sorted(own[:20]) == sorted(own[20:40]) == list(range(20))
  other = found[found >= 100]
  assert sorted(other[:20]) == list(range(100, 120))


def test_batches_are_the_same_on_any_number_of_cores():
  whole = examples(240, batch_size=240)
  for batch_size in (8, 7):
    np.testing.assert_array_equal(examples(240, batch_size=batch_size), whole)


@pytest.mark.parametrize("start", long.except_for([8, 1237], [0, 8, 1000, 1237]))
def test_each_set_goes_on_at_its_place(start):
  np.testing.assert_array_equal(examples(64, start=start), examples(start + 64)[start:])


def test_a_part_without_start_is_read_from_its_beginning():
  part = lambda params: numbers(params, 0, 20)
  whole = examples(80, [part, PARTS[1]], (1, 1))
  np.testing.assert_array_equal(examples(40, [part, PARTS[1]], (1, 1), start=40), whole[40:])


def test_hosts_read_their_parts_in_the_same_pattern():
  shares = [
    examples(64, weights=(1, 1, 0), input_context=tiny_data.context(host, 2), start=40)
    for host in range(2)
  ]
  assert (shares[0] // 100 == shares[1] // 100).all()
  assert not set(shares[0]) & set(shares[1])
  seen = [
    examples(64, weights=(1, 1, 0), input_context=tiny_data.context(host, 2))[20:]
    for host in range(2)
  ]
  np.testing.assert_array_equal(shares[1][:44], seen[1])


@pytest.mark.parametrize(
  ("parts", "weights", "message"),
  [
    (PARTS, [1, 1], "weights has 2 numbers for 3 parts"),
    ([], [], "weights has 0 numbers for 0 parts"),
    (PARTS, [1, -1, 1], r"weights is \[1, -1, 1\]: expected numbers of at least 0, not all 0"),
    (PARTS, [0, 0, 0.0], "not all 0"),
    (PARTS, [1, float("nan"), 0], "not all 0"),
    (
      [PARTS[0], functools.partial(PARTS[1], training=False)],
      [1, 1],
      r"parts\[1\] ends after 3 batches: expected an endless dataset",
    ),
    (
      [PARTS[0], lambda params: tf.data.Dataset.from_tensors(({"y": [1.0]}, [1])).repeat()],
      [1, 1],
      r"The examples of mixture.input_fn.parts\[0\] are .*'x'.*, the examples of .*\[1\] are .*'y'",
    ),
  ],
)
def test_mixtures_that_cannot_be(parts, weights, message):
  with pytest.raises(errors.SettingError, match=message):
    examples(8, parts, weights)


def test_a_set_without_examples():
  empty = lambda params: tf.data.Dataset.from_tensor_slices(([], [])).batch(params["batch_size"])
  with pytest.raises(errors.InputError, match=r"mixture.input_fn.parts\[1\] has no example"):
    examples(8, [PARTS[0], empty], [1, 1])
