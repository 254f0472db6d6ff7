"""Timing of an input pipeline by itself."""

import itertools

import pytest
import tensorflow as tf

from trainer import benchmark_input, errors


class Ticks:
  """A clock that goes on by a second each time it is looked at."""

  def __init__(self):
    self._ticks = itertools.count()

  def __call__(self):
    return float(next(self._ticks))


def slow(x):
  # Each number from the last one, so that nothing of it can be left out or done ahead.
  return tf.while_loop(lambda i, _: i < 300, lambda i, total: (i + 1, total * 3 + 1), [0, x])[1]


def quick(x):
  return x + 1


@pytest.mark.parametrize("calls", [None, 2])
def test_the_slowest_stage_is_found(calls):
  numbers = tf.data.Dataset.range(500).repeat().shuffle(10).map(quick, num_parallel_calls=calls)
  dataset = numbers.map(slow, num_parallel_calls=calls).batch(8).map(quick).prefetch(2)
  report = benchmark_input.benchmark(dataset, 8, seconds=0.2)
  assert report.slowest.name.startswith("map slow (test_benchmark_input.py:")
  assert [stage.name.split(" (")[0] for stage in report.stages] == ["range", "shuffle", "map quick", "map slow", "batch", "map quick", "prefetch"]
  assert report.stages[2].examples_per_second > 2 * report.stages[3].examples_per_second
  lines = str(report).splitlines()
  assert [line for line in lines if "<- slowest" in line] == [line for line in lines if "map slow" in line]
  assert "Input alone: " in lines[0]


def test_a_slow_stage_on_batches_is_found():
  dataset = tf.data.Dataset.range(500).repeat().map(quick).batch(8).map(lambda batch: slow(batch[0]))
  assert "lambda" in benchmark_input.benchmark(dataset, 8, seconds=0.2).slowest.name


def test_rates_count_examples():
  # Each batch takes one tick, each round of two seconds two of them; of the stage before, a window of 64.
  dataset = tf.data.Dataset.range(1000).repeat().map(quick).batch(16)
  report = benchmark_input.benchmark(dataset, 16, seconds=8, clock=Ticks())
  assert report.examples_per_second == pytest.approx(16, rel=0.5)
  assert report.stages[1].examples_per_second == pytest.approx(64, rel=0.5)
  assert report.first_batch_seconds == 1


def test_a_small_set_is_begun_anew():
  report = benchmark_input.benchmark(tf.data.Dataset.range(3).batch(2), 2, seconds=40, clock=Ticks())
  assert report.examples_per_second > 0.5


def test_batches_with_a_drop_remainder_and_an_interleave():
  files = tf.data.Dataset.range(4).interleave(lambda number: tf.data.Dataset.range(50).map(lambda i: i + number), cycle_length=2)
  report = benchmark_input.benchmark(files.repeat().enumerate().batch(4, drop_remainder=True), 4, seconds=0.05)
  assert [stage.name.split(" ")[0] for stage in report.stages] == ["interleave", "batch"]


def test_nothing_to_time():
  with pytest.raises(errors.InputError, match="The input is empty"):
    benchmark_input.benchmark(tf.data.Dataset.range(0).batch(2), 2)
