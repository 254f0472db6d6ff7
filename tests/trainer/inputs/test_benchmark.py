"""Timing of an input pipeline by itself."""

import itertools
import subprocess
import sys

import pytest
import tensorflow as tf

from trainer import errors
from trainer.config import files as config_files
from trainer.inputs import benchmark


class Ticks:
  """A clock that goes on by a second each time it is looked at."""

  def __init__(self):
    self._ticks = itertools.count()

  def __call__(self):
    return float(next(self._ticks))


class Work:
  """A clock that goes on by what is done: `cost` seconds for each call of a function, a
  hundredth for a look at it.
  """

  def __init__(self):
    self.seconds = 0.0

  def __call__(self):
    self.seconds += 0.01
    return self.seconds

  def doing(self, cost, value):
    def count(value):
      self.seconds += cost
      return value

    result = tf.numpy_function(count, [value], tf.int64)
    result.set_shape(value.shape)
    return result


def numbers():
  """The numbers from 0 on, without the prefetch that tf.data puts behind a pipeline: a thread
  that works ahead makes `Work` go on at any moment.
  """
  options = tf.data.Options()
  options.experimental_optimization.inject_prefetch = False
  return tf.data.Dataset.range(500).with_options(options).repeat()


def test_the_slowest_stage_is_found():
  clock = Work()

  def quick(x):
    return clock.doing(0.001, x)

  def slow(x):
    return clock.doing(1.0, x)

  report = benchmark.benchmark(
    numbers().shuffle(10).map(quick).map(slow).batch(8).map(quick), 8, seconds=4, clock=clock
  )
  assert report.slowest.name.startswith("map slow (test_benchmark.py:")
  assert [stage.name.split(" (")[0] for stage in report.stages] == [
    "range",
    "shuffle",
    "map quick",
    "map slow",
    "batch",
    "map quick",
  ]
  assert report.stages[2].examples_per_second > 100 * report.stages[3].examples_per_second
  assert report.slowest.seconds == pytest.approx(1.0, rel=0.01)
  lines = str(report).splitlines()
  assert [line for line in lines if "<- slowest" in line] == [
    line for line in lines if "map slow" in line
  ]
  assert "Input alone: " in lines[0]


def test_a_slow_stage_on_batches_is_found():
  clock = Work()
  dataset = numbers().map(lambda x: x + 1).batch(8).map(lambda batch: clock.doing(1.0, batch))
  report = benchmark.benchmark(dataset, 8, seconds=4, clock=clock)
  assert report.slowest.name.startswith("map <lambda> (")
  assert report.slowest is report.stages[-1]
  assert report.slowest.seconds == pytest.approx(1 / 8, rel=0.05)


def test_stages_with_threads_of_their_own():
  dataset = (
    tf.data.Dataset.range(500)
    .repeat()
    .map(lambda x: x + 1, num_parallel_calls=2)
    .batch(8, num_parallel_calls=2)
    .prefetch(2)
  )
  report = benchmark.benchmark(dataset, 8, seconds=4, clock=Ticks())
  assert [stage.name.split(" (")[0] for stage in report.stages] == [
    "range",
    "map <lambda>",
    "batch",
    "prefetch",
  ]


def test_rates_count_examples():
  # Each batch takes one tick, each round of two seconds two of them; of the stage before, a window
  # of 64.
  dataset = tf.data.Dataset.range(1000).repeat().map(lambda x: x + 1).batch(16)
  report = benchmark.benchmark(dataset, 16, seconds=8, clock=Ticks())
  assert report.examples_per_second == pytest.approx(16, rel=0.5)
  assert report.stages[1].examples_per_second == pytest.approx(64, rel=0.5)
  assert report.first_batch_seconds == 1


def test_a_small_set_is_begun_anew():
  report = benchmark.benchmark(tf.data.Dataset.range(3).batch(2), 2, seconds=40, clock=Ticks())
  assert report.examples_per_second > 0.5


def test_batches_with_a_drop_remainder_and_an_interleave():
  files = tf.data.Dataset.range(4).interleave(
    lambda number: tf.data.Dataset.range(50).map(lambda i: i + number), cycle_length=2
  )
  report = benchmark.benchmark(
    files.repeat().enumerate().batch(4, drop_remainder=True), 4, seconds=0.05
  )
  assert [stage.name.split(" ")[0] for stage in report.stages] == ["interleave", "batch"]


def test_nothing_to_time():
  with pytest.raises(errors.InputError, match="The input is empty"):
    benchmark.benchmark(tf.data.Dataset.range(0).batch(2), 2)


@pytest.mark.long
def test_the_flag_times_both_inputs_and_does_nothing_else(tmp_path):
  # A model_fn that cannot be called, so that a trace would fail.
  arguments = [
    "--gin_file=gin_configs/digits.gin",
    "--gin_bindings=digits_mlp.model_fn.hidden_units = None",
    "--gin_bindings=benchmark_input.benchmark.seconds = 0.05",
    f"--model_dir={tmp_path / 'model'}",
    "--device=cpu:8",
    "--benchmark_input",
  ]
  command = [sys.executable, "-m", "trainer.main", *arguments]
  done = subprocess.run(
    command,
    cwd=config_files.ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    timeout=200,
    check=False,
  )
  assert done.returncode == 0, done.stdout
  train, evaluation = done.stdout.split("The train input. Input alone: ")[1].split(
    "The eval input. Input alone: "
  )
  for report in (train, evaluation):
    assert "map gather (in_memory.py:" in report
    assert report.count("<- slowest") == 1
  assert "The training ran no step and wrote no file." in evaluation
  assert list(tmp_path.iterdir()) == []
