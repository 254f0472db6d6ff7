"""The loop over whole batches of an evaluation, and where it stops."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.inputs import groups
from trainer.programs import eval_loop, host_metrics
from trainer.tracing import variable_store


def _metrics(losses):
  mean = keras.metrics.Mean()
  mean.update_state(losses)
  return {"mean": mean}


class Program:
  """Losses that are the means of the replicas' batches; NaN for a batch of padding alone."""

  def __init__(self):
    self.store = variable_store.VariableStore(tf.distribute.get_strategy())

  def run_step(self, kind, batches):
    losses = tf.stack([tf.reduce_mean(batch[0]) for batch in batches])
    losses = tf.where(losses == 0.0, np.nan, losses)
    return ((losses,), [losses]), types.SimpleNamespace(metric_fn=_metrics)


def make(values, per_core, replicas):
  """(the evaluation, a reader) of batches of the values."""
  dataset = tf.data.Dataset.from_tensor_slices((np.float32(values),)).batch(per_core)
  grouped = groups.group(dataset, per_core, replicas)
  program = Program()
  metrics = host_metrics.HostMetrics(program.store)
  traced = eval_loop.TracedEvaluation(program, replicas, grouped.element_spec, metrics)
  return traced, traced.read(grouped)


def _loss_sum(result):
  ((loss_sum, _),) = result["loss_sums"].numpy()
  return loss_sum


def _numbers(part):
  """(groups, examples, sum of the losses, partial batches)."""
  return (
    part.groups,
    part.examples,
    part.count and _loss_sum(part.count()),
    [batch[0].numpy().tolist() for batch in part.partial],
  )


def test_whole_batches_run_up_to_a_partial_one():
  traced, reader = make(range(1, 12), 2, 2)  # 1 to 4, 5 to 8, 9 to 10 and 11
  assert _numbers(traced.start(reader, 9)) == (2, 8, sum(range(1, 9)), [])
  assert _numbers(traced.start(reader, 9)) == (1, 2, 19.0, [[11.0]])
  assert traced.start(reader, 9) is None


def test_an_empty_batch_beside_a_whole_one_counts_nothing():
  traced, reader = make([1, 3], 2, 2)
  assert _numbers(traced.start(reader, 9)) == (1, 2, 4.0, [])
  assert traced.start(reader, 9) is None


def test_a_group_of_a_partial_batch_alone_has_nothing_to_count():
  traced, reader = make([1], 2, 2)
  assert _numbers(traced.start(reader, 9)) == (1, 0, None, [[1.0]])
  assert traced.start(reader, 9) is None


def test_a_loop_goes_on_with_the_group_of_the_last():
  traced, reader = make(range(1, 9), 2, 1)
  parts = [_numbers(traced.start(reader, 3)) for _ in range(2)]
  assert [part[:2] for part in parts] == [(3, 6), (1, 2)]
  assert sum(part[2] for part in parts) == 36.0


def test_a_large_set_loses_no_small_loss():
  traced, reader = make([2.0**25, 1, 1, 1], 1, 1)
  assert _numbers(traced.start(reader, 9))[2] == 2.0**25 + 3


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_partial_batch_counts_once_on_all_replicas(replicas):
  traced, _ = make([1, 2], 2, replicas)
  result = traced.evaluate_partial((tf.constant([1.0, 2.0, 6.0]),))
  assert _loss_sum(result) == 9.0
  assert result["loss_sums"].dtype == tf.float64


def test_the_numbers_of_an_evaluation_are_its_scalars():
  assert make([1], 1, 1)[0].metric_names() == ["loss", "mean"]
