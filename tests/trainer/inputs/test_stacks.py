"""The batches of several steps in one stack for each core."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.inputs import groups, stacks

CORES = 2


def reader(batches, steps):
  """Batches of two examples: batch b has the examples 10·b and 10·b + 1."""
  dataset = tf.data.Dataset.range(batches).map(lambda b: ({"x": tf.stack([10 * b, 10 * b + 1])},))
  return stacks.StackReader(stacks.stack(dataset, steps, CORES), tuple)


@pytest.mark.parametrize("batches, real", [(0, []), (1, []), (6, [3]), (7, [3]), (10, [3, 2])])
def test_stacks_have_whole_steps_only(batches, real):
  source, found = reader(batches, 3), []
  while stack := source.current():
    found.append(stack.steps)
    assert [element[0]["x"].shape for element in stack.elements] == [(3, 2), (3, 2)]
    stack.first = stack.steps
  assert found == real


def test_the_cores_take_the_batches_in_turn():
  stack = reader(6, 3).current()
  for core, element in enumerate(stack.elements):
    expected = [[10 * batch, 10 * batch + 1] for batch in range(core, 6, CORES)]
    np.testing.assert_array_equal(element[0]["x"], expected)


def test_what_is_left_of_a_stack_is_used_next():
  source = reader(6, 3)
  source.current().first += 1
  assert source.current().left == 2
  batches = [source.current().batch(1, core) for core in range(CORES)]
  assert [element[0]["x"].numpy().tolist() for element in batches] == [[20, 21], [30, 31]]


def test_the_next_stack_is_fetched_once_one_is_used():
  puts = []
  source = reader(12, 3)
  source._put = puts.append
  source.current()
  source.fetch()
  assert len(puts) == 1
  source.current().first = 3
  source.fetch()
  source.fetch()
  assert len(puts) == 2
  assert source.current().left == 3
  assert len(puts) == 2


def test_groups_in_a_stack():
  """Nine examples in batches of two, for two cores: three groups, two in a stack."""
  dataset = tf.data.Dataset.range(9).batch(2).map(lambda x: ({"x": x},))
  stacked = stacks.stack_groups(groups.group(dataset, 2, CORES), 2)
  source, found = stacks.GroupStackReader(stacked, tuple), []
  while stack := source.current():
    found.append((stack.steps, stack.rows.tolist()))
    for step in range(stack.steps):
      rows = stack.rows[step]
      batches = [stack.batch(step, core, rows[core])[0]["x"] for core in range(CORES)]
      batches = [batch.numpy().tolist() for batch in batches]
      found.append((batches, stack.examples(step)[0]["x"].tolist()))
      for element in stack.elements:
        assert element[0]["x"].shape == (2, 2)
    stack.first = stack.steps
  assert found == [
    (2, [[2, 2], [2, 2]]),
    ([[0, 1], [2, 3]], [0, 1, 2, 3]),
    ([[4, 5], [6, 7]], [4, 5, 6, 7]),
    (1, [[1, 0], [0, 0]]),
    ([[8], []], [8, 0, 0, 0]),
  ]


def test_bytes_of_a_step():
  spec = {"x": tf.TensorSpec([8, 3])}, tf.TensorSpec([8], tf.int64)
  assert stacks.bytes_of_step(spec) == 8 * 3 * 4 + 8 * 8
