"""Times an input pipeline by itself: examples a second, and the stage that costs the most.

    python -m trainer.main --gin_file=gin_configs/digits.gin --benchmark_input

    print(benchmark_input.benchmark(dataset, batch_size=128))

    Input alone: 59,000 examples/s; the first batch took 0.21 s.
      examples/s up to here   adds µs/example   stage
                    310,000              3.23   shuffle
                     61,000             13.17   map decode (images.py:41)   <- slowest
                     60,500              0.14   batch
                     59,000              0.42   map finish (pipeline.py:63)

The pipeline is run again and again, each time cut off one stage later; what a stage adds to the
time of an example is its cost. Stages run at the same time, so that the cost of a stage that others
hide comes out as nothing.
"""

import dataclasses
import inspect
import os
import re
import time

from trainer import errors
from trainer.config import gin_names
from trainer.inputs import groups
from trainer.internals import tensorflow_internals

# Stages that neither change how many elements there are nor what is in one: their elements count as
# those of the stage that follows.
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
# Where timing them would say nothing.
_NOT_TIMED = ("Prefetch", "Options", "Take", "Skip", "Zip", "Repeat")

_ROUNDS = 4
_WINDOW = 64  # elements


@dataclasses.dataclass(frozen=True)
class Stage:
  """A stage and what the pipeline gives up to and with it.

  Attributes:
    name: what it is, with function and line where it calls one.
    examples_per_second: of the pipeline that ends with it.
    seconds: what it adds to the time of an example; 0 if others hide it.
  """

  name: str
  examples_per_second: float
  seconds: float


@dataclasses.dataclass(frozen=True)
class Report:
  """What was measured.

  Attributes:
    examples_per_second: of the whole pipeline.
    first_batch_seconds: until the first batch was there.
    stages: list of Stages, in the order of the data.
  """

  examples_per_second: float
  first_batch_seconds: float
  stages: list

  @property
  def slowest(self):
    """The Stage that costs the most."""
    return max(self.stages, key=lambda stage: stage.seconds)

  def __str__(self):
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
def benchmark(dataset, batch_size, seconds=3.0, clock=time.perf_counter):
  """Times a dataset and its stages.

  Args:
    dataset: tf.data.Dataset whose elements are batches.
    batch_size: examples in an element.
    seconds: how long the pipeline is run up to each of its stages; in each of several rounds at
      least for one element.
    clock: function that gives the time in seconds.

  Returns:
    A Report.

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
  """(elements a second, seconds until the first).

  Of several rounds the fastest: what else the machine does makes a round slower, never faster.

  Where elements are single examples, they are taken by the window, without which Python would be
  what is timed.
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
        iterator = iter(dataset)  # a set that is small can be timed too
      else:
        count += elements
    best = max(best, count / max(now - start, 1e-9))
  return best, first


def _chain(dataset, batch_size):
  """[(dataset, examples in an element)] of the stages that can be timed, in the order of the data.

  It goes back from the end to the first stage whose elements cannot be told apart into examples: an
  interleave, an unbatch, a filter, a source.
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
      # Enumerate zips with a counter.
      sources = [one for one in sources if tensorflow_internals.inputs_of(one)] or sources[-1:]
    if len(sources) != 1:
      break
    dataset = sources[0]
  return chain[::-1]


def _kind(dataset):
  """ "Map" of a _ParallelMapDataset."""
  return re.sub(r"^_?(Parallel)?|(Dataset)?(V\d)?$", "", type(dataset).__name__)


def _name(dataset):
  kind = _kind(dataset)
  words = re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()
  function = tensorflow_internals.function_of(dataset)
  function = function and inspect.unwrap(function)  # out of do_not_convert and the like
  code = getattr(function, "__code__", None)
  if code is None:
    return words
  return f"{words} {function.__name__} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
