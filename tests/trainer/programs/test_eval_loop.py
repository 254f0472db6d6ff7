"""The loop over whole batches of an evaluation, and where it stops."""

import types

import numpy as np
import pytest
import tensorflow as tf

from trainer.inputs import groups
from trainer.programs import eval_loop
from trainer.tracing import variable_store


class Program:
  """Losses that are the means of the replicas' batches; NaN for a batch of padding alone."""

  def __init__(self):
    self.store = variable_store.VariableStore(tf.distribute.get_strategy())

  def run_step(self, kind, batches):
    losses = tf.stack([tf.reduce_mean(batch[0]) for batch in batches])
    losses = tf.where(losses == 0.0, np.nan, losses)
    return ((losses,), {}), types.SimpleNamespace(metric_fn=None)


def make(values, per_core, replicas):
  """(the loop, its trace, an iterator, its first group) over batches of the values."""
  dataset = tf.data.Dataset.from_tensor_slices((np.float32(values),)).batch(per_core)
  grouped = groups.group(dataset, per_core, replicas)
  loop = eval_loop.EvalLoop(Program(), replicas)
  traced = loop.trace(grouped.element_spec, "")
  iterator = traced.read(grouped)
  return loop, traced, iterator, next(iterator)


def _loss_sum(result):
  ((loss_sum, _),) = result["loss_sums"].numpy()
  return loss_sum


def test_whole_batches_count_and_a_partial_one_stops_the_loop():
  _, traced, iterator, group = make(range(1, 12), 2, 2)  # 1 to 4, 5 to 8, 9 to 10 and 11
  result = traced.run(iterator, group, 9)
  assert (int(result["steps"]), int(result["rows"])) == (2, 8)
  assert _loss_sum(result) == sum(range(1, 9))
  assert result["group"][1].numpy().tolist() == [2, 1]


def test_an_empty_batch_beside_a_whole_one_counts_nothing():
  _, traced, iterator, group = make([1, 3], 2, 2)
  result = traced.run(iterator, group, 9)
  assert (int(result["steps"]), int(result["rows"]), _loss_sum(result)) == (1, 2, 4.0)
  assert result["group"][1].numpy().tolist() == [0, 0]  # the end


def test_a_loop_goes_on_with_the_group_of_the_last():
  _, traced, iterator, group = make(range(1, 9), 2, 1)
  first = traced.run(iterator, group, 3)
  second = traced.run(iterator, first["group"], 3)
  assert [int(each["steps"]) for each in (first, second)] == [3, 1]
  assert _loss_sum(first) + _loss_sum(second) == 36.0


def test_a_large_set_loses_no_small_loss():
  _, traced, iterator, group = make([2.0**25, 1, 1, 1], 1, 1)
  assert _loss_sum(traced.run(iterator, group, 9)) == 2.0**25 + 3


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_partial_batch_counts_once_on_all_replicas(replicas):
  loop, *_ = make([1, 2], 2, replicas)
  result = loop.evaluate_partial((tf.constant([1.0, 2.0, 6.0]),), "")
  assert _loss_sum(result) == 9.0
  assert result["loss_sums"].dtype == tf.float64


def test_evaluations_have_their_own_metrics():
  loop, *_ = make([1], 1, 1)
  assert loop.host_metrics("") is loop.host_metrics("")
  assert loop.host_metrics("") is not loop.host_metrics("test")
