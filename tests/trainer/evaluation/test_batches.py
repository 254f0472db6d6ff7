"""Evaluations of whole and partial batches: every example counts once."""

import numpy as np
import tensorflow as tf

from trainer.evaluation import batches


class Loops:
  """Device loops that add up the examples themselves; `calls` has what ran."""

  def __init__(self, groups):
    self.groups = iter(groups)
    self.calls, self.seen = [], []
    self.evaluate = self

  def host_metrics(self, name):
    return self

  def warn_of_large_counts(self):
    pass

  def reset(self):
    self.calls.append("reset")

  def _count(self, values):
    self.seen += values.tolist()
    # The sum so far, as a metric on the host has it.
    return {
      "loss_sums": np.array([[values.sum(), len(values)]]),
      "metrics": {"total": tf.constant(sum(self.seen))},
    }

  def run(self, iterator, group, wanted):
    """Runs whole batches, up to `wanted` groups or the first partial batch."""
    steps, rows = 0, 0
    found = {"loss_sums": np.zeros([1, 2])}
    while group is not None and steps < wanted:
      element, counts = group
      counts = counts.numpy()
      if steps and not (counts == 2).all():
        break
      whole = element.numpy()[counts == 2].ravel()
      result = self._count(whole)
      found = {**result, "loss_sums": found["loss_sums"] + result["loss_sums"]}
      steps, rows = steps + 1, rows + len(whole)
      group = next(iterator, None)
    self.calls.append(f"loop of {steps}")
    return {**found, "rows": rows, "steps": steps, "group": group}

  def evaluate_partial(self, batch, name):
    self.calls.append(f"batch of {len(batch)}")
    return self._count(batch.numpy())


def evaluate(*counts, steps=None):
  """Evaluates groups of two cores with batches of up to two examples, numbered from 1 on."""
  element, groups = 1.0, []
  for of_group in counts:
    array = np.zeros([2, 2], np.float32)
    for core, count in enumerate(of_group):
      array[core, :count] = element + np.arange(count)
      element += count
    groups.append((tf.constant(array), tf.constant(of_group)))
  loops = Loops(groups)
  return loops, batches.evaluate(loops, loops, loops.groups, "", steps)


def test_partial_batches_run_alone_after_the_whole_ones():
  loops, result = evaluate((2, 2), (2, 2), (2, 1))
  assert loops.calls == ["reset", "loop of 2", "loop of 1", "batch of 1"]
  assert sorted(loops.seen) == [float(number) for number in range(1, 12)]
  assert result == batches.Result({"loss": 6.0, "total": 66.0}, 11)


def test_a_group_of_partial_batches_alone_needs_no_loop():
  loops, result = evaluate((1, 0), (0, 1))
  assert (loops.calls, result.examples) == (["reset", "batch of 1", "batch of 1"], 2)


def test_padding_ends_the_data():
  _, result = evaluate((2, 2), (0, 0), (2, 2))
  assert result.examples == 4
  assert evaluate((0, 0))[1] == batches.Result({}, 0)


def test_no_more_than_the_steps_are_evaluated(caplog):
  assert evaluate((2, 2), (2, 2), (2, 2), steps=2)[1].examples == 8
  assert not caplog.records
  evaluate((2, 2), (2, 1), steps=3)
  assert "ended after 2 of 3 steps: the input has 7 examples" in caplog.text
