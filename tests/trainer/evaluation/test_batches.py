"""Evaluations of whole and partial batches: every example counts once."""

import numpy as np
import tensorflow as tf

from trainer.evaluation import batches
from trainer.programs import eval_loop


class Evaluation:
  """Evaluates groups of two cores with batches of up to two examples; `calls` has what ran."""

  def __init__(self, groups):
    self.groups = list(groups)
    self.calls, self.seen = [], []
    self.metrics = self

  def reset(self):
    self.calls.append("reset")

  def warn_of_large_counts(self):
    pass

  def _count(self, values):
    self.seen += values
    # The sum so far, as a metric on the host has it.
    return {
      "loss_sums": np.array([[sum(values), len(values)]]),
      "metrics": {"total": tf.constant(sum(self.seen))},
    }

  def start(self, reader, most):
    """Starts on groups up to `most`, or the first one with a partial batch."""
    del reader
    taken = []
    while self.groups and len(taken) < most and sum(map(len, self.groups[0])):
      taken.append(self.groups.pop(0))
      if any(len(batch) == 1 for batch in taken[-1]):
        break
    if not taken:
      return None
    whole = [value for group in taken for batch in group if len(batch) == 2 for value in batch]
    partial = [tf.constant(batch) for batch in taken[-1] if len(batch) == 1]
    number = len(self.calls)
    self.calls.append(f"start of {len(taken)}")

    def count():
      self.calls.append(f"count of {number}")
      return self._count(whole)

    return eval_loop.Part(len(taken), len(whole), count if whole else None, partial)

  def evaluate_partial(self, batch):
    self.calls.append(f"batch of {len(batch)}")
    return self._count(batch.numpy().tolist())


def evaluate(*counts, steps=None):
  """Evaluates groups with these numbers of examples on each core, numbered from 1 on."""
  numbers = iter(range(1, 99))
  groups = [[[float(next(numbers)) for _ in range(n)] for n in of_group] for of_group in counts]
  evaluation = Evaluation(groups)
  return evaluation, batches.evaluate(evaluation, None, steps)


def test_partial_batches_run_alone_after_the_whole_ones():
  evaluation, result = evaluate((2, 2), (2, 1), (2, 2))
  assert evaluation.calls == [
    *("reset", "start of 2", "count of 1", "batch of 1"),
    *("start of 1", "count of 4"),
  ]
  assert evaluation.seen == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]
  assert result == batches.Result({"loss": 6.0, "total": 66.0}, 11)


def test_the_host_counts_while_the_next_groups_run(monkeypatch):
  start = Evaluation.start
  monkeypatch.setattr(Evaluation, "start", lambda self, reader, most: start(self, reader, 1))
  evaluation, _ = evaluate((2, 2), (2, 2))
  assert evaluation.calls == ["reset", "start of 1", "start of 1", "count of 1", "count of 2"]


def test_a_group_of_partial_batches_alone_counts_nothing_else():
  evaluation, result = evaluate((1, 0), (0, 1))
  starts = ["start of 1", "batch of 1"]
  assert (evaluation.calls, result.examples) == (["reset", *starts, *starts], 2)


def test_padding_ends_the_data():
  _, result = evaluate((2, 2), (0, 0), (2, 2))
  assert result.examples == 4
  assert evaluate((0, 0))[1] == batches.Result({}, 0)


def test_no_more_than_the_steps_are_evaluated(caplog):
  assert evaluate((2, 2), (2, 2), (2, 2), steps=2)[1].examples == 8
  assert not caplog.records
  evaluate((2, 2), (2, 1), steps=3)
  assert "ended after 2 of 3 steps: the input has 7 examples" in caplog.text
