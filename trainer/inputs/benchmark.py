"""Times an input pipeline without a model: examples per second, and the most expensive stage.

    python -m trainer.main --gin_file=gin_configs/digits.gin --benchmark_input

    print(benchmark.benchmark(dataset, batch_size=128))

    Input alone: 59,000 examples/s; the first batch took 0.21 s.
      examples/s up to here   adds µs/example   stage
                    310,000              3.23   shuffle
                     61,000             13.17   map decode (images.py:41)   <- slowest
                     60,500              0.14   batch
                     59,000              0.42   map finish (pipeline.py:63)

The benchmark runs the pipeline up to its first stage, then up to its second one, and so on. The
time that a stage adds to an example is its cost. Stages run at the same time, so a stage that
others hide costs nothing.
"""

import dataclasses
import inspect
import os
import re
import time
from collections.abc import Callable

import tensorflow as tf

from trainer import errors
from trainer.config import gin_names
from trainer.inputs import groups
from trainer.internals import tensorflow_internals

# Stages whose elements hold as many examples as the elements of their input.
_ONE_TO_ONE = (
  "Map",
  "Prefetch",
  "Shuffle",
  "Repeat",
  "Take",
  "Skip",
  "Zip",
  "Options",
  "Cache",
  "Scan",
  "Shard",
  "IgnoreErrors",
  "AssertCardinality",
)
# Stages whose own time says nothing: they do no work, or change how often others work.
_NOT_TIMED = ("Prefetch", "Options", "Take", "Skip", "Zip", "Repeat")

_ROUNDS = 4  # the fastest one counts
_WINDOW = 64  # elements that Python takes at once, where elements are single examples


@dataclasses.dataclass(frozen=True)
class Stage:
  """The measurement of one stage.

  Attributes:
    name: the kind of stage, with the function that it calls and the line.
    examples_per_second: the speed of the pipeline that ends with this stage.
    seconds: the time that the stage adds to an example; 0 if other stages hide it.
  """

  name: str
  examples_per_second: float
  seconds: float


@dataclasses.dataclass(frozen=True)
class Report:
  """The measurement of a pipeline. Its text is a table.

  Attributes:
    examples_per_second: the speed of the whole pipeline.
    first_batch_seconds: the time until the first batch.
    stages: the stages in the order in which data passes them.
  """

  examples_per_second: float
  first_batch_seconds: float
  stages: list[Stage]

  @property
  def slowest(self) -> Stage:
    """The stage that adds the most time."""
    return max(self.stages, key=lambda stage: stage.seconds)

  def __str__(self) -> str:
    width = max(len(stage.name) for stage in self.stages)
    lines = [
      f"Input alone: {self.examples_per_second:,.0f} examples/s; the first batch took "
      f"{self.first_batch_seconds:.2f} s."
    ]
    lines.append("  examples/s up to here   adds µs/example   stage")
    for stage in self.stages:
      mark = "   <- slowest" if stage is self.slowest else ""
      lines.append(
        f"  {stage.examples_per_second:>21,.0f}   {stage.seconds * 1e6:>15.2f}   "
        f"{stage.name:<{width}}{mark}".rstrip()
      )
    return "\n".join(lines)


@gin_names.configurable(module="trainer.benchmark_input", allowlist=["seconds"])
def benchmark(
  dataset: tf.data.Dataset,
  batch_size: int,
  seconds: float = 3.0,
  clock: Callable[[], float] = time.perf_counter,
) -> Report:
  """Times a dataset and its stages.

  Args:
    dataset: a dataset of batches.
    batch_size: number of examples in an element.
    seconds: how long to run the pipeline up to each stage, in several rounds. Each round takes at
      least one element.
    clock: returns the time in seconds.

  Raises:
    InputError: the dataset is empty.
  """
  stages, before = [], 0.0
  for stage, examples in _chain(dataset, batch_size):
    rate, first = _run(groups.without_tuning(stage), seconds, clock, single=examples <= 1)
    each = 1 / (rate * examples)
    stages.append(Stage(_name(stage), rate * examples, max(0.0, each - before)))
    before = max(before, each)
  return Report(stages[-1].examples_per_second, first, stages)


def _run(dataset, seconds, clock, single):
  """Runs a dataset; returns (elements per second, seconds until the first element).

  The fastest of several rounds counts: other work on the machine can only make a round slower.

  If the elements are single examples, the benchmark takes them in windows. Otherwise it would time
  Python's loop, not the pipeline.
  """
  elements = 1
  if single:
    windows = dataset.window(_WINDOW, drop_remainder=True)
    if next(iter(windows), None) is not None:
      dataset, elements = windows, _WINDOW
  begin = clock()
  iterator = iter(dataset)
  if next(iterator, None) is None:
    raise errors.InputError("The input is empty: there is nothing to time.")
  first, best = clock() - begin, 0.0
  for _ in range(_ROUNDS):
    start, count = clock(), 0
    while (now := clock()) - start < seconds / _ROUNDS or not count:
      if next(iterator, None) is None:
        iterator = iter(dataset)  # a small dataset ends early: start it again
      else:
        count += elements
    best = max(best, count / max(now - start, 1e-9))
  return best, first


def _chain(dataset, batch_size):
  """Lists the stages to time as (dataset, examples in an element), in the order of the data.

  It walks back from the end, to the first stage for which the number of examples in its inputs is
  unknown: an interleave, an unbatch, a filter or a source.
  """
  chain, examples = [], batch_size
  while True:
    kind = _kind(dataset)
    if kind not in _NOT_TIMED or not chain:
      chain.append((dataset, examples))
    if kind == "Batch":
      examples /= int(tensorflow_internals.batch_size_of(dataset))
    elif kind not in _ONE_TO_ONE:
      break
    sources = tensorflow_internals.inputs_of(dataset)
    if len(sources) > 1:
      # `enumerate` zips the data with a counter, which has no inputs of its own.
      sources = [one for one in sources if tensorflow_internals.inputs_of(one)] or sources[-1:]
    if len(sources) != 1:
      break
    dataset = sources[0]
  return chain[::-1]


def _kind(dataset):
  """Returns the kind of a stage: "Map" for a _ParallelMapDataset."""
  return re.sub(r"^_?(Parallel)?|(Dataset)?(V\d)?$", "", type(dataset).__name__)


def _name(dataset):
  kind = _kind(dataset)
  words = re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()
  function = tensorflow_internals.function_of(dataset)
  function = function and inspect.unwrap(function)  # the user's function inside of wrappers
  code = getattr(function, "__code__", None)
  if code is None:
    return words
  return f"{words} {function.__name__} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
