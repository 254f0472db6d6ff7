"""Advice in words, from the rows: waiting for input, too small batches, the cheapest device.

advice.sentences(summary.Summary(rows, prices))
"""

import itertools
from collections.abc import Iterator

from trainer.compare import results, summary

# A comparison runs its cases one after the other, with as many threads as there are cores. More
# processes than this many times the cores belong to other programs.
_BUSY = 2
# A device that waits for a tenth of its time would gain more than noise from faster input.
_MUCH_WAITING = 0.1
# A batch is too small where a larger one makes an example this many times as fast.
_MUCH_FASTER = 1.5


def sentences(found: summary.Summary) -> list[str]:
  """Returns the advice, the same for the same rows."""
  return [
    *_busy_machines(found),
    *_input_bound(found),
    *_small_batches(found),
    *_padding(found),
    *_deadlines(found),
    *_start(found),
  ]


def _busy_machines(found: summary.Summary) -> Iterator[str]:
  loads: dict[str, list[float]] = {}
  for row in found.good():
    cores = row.machine.get("cpu_cores")
    if cores and (row.load or 0) > _BUSY * cores:
      loads.setdefault(found.label(row), []).append((row.load or 0) / cores)
  for label, each in loads.items():
    yield (
      f"{label}: while Octet measured {len(each)} of the figures, other programs ran there (up to "
      f"{max(each):.1f} processes a core): these figures are too slow. Measure again with another "
      "--output when the machine is idle."
    )


def _on_hardware(found: summary.Summary) -> list[results.Row]:
  """Returns the measured rows without rehearsals: their bottlenecks are not a device's."""
  return [row for row in found.good() if not summary.is_rehearsal(row)]


def _input_bound(found: summary.Summary) -> Iterator[str]:
  for row in _on_hardware(found):
    if (row.input_wait or 0) >= _MUCH_WAITING:
      yield (
        f"The input limits {summary.title(row)} on {found.label(row)}: the device waits for "
        f"{row.input_wait:.0%} of the time. A faster input pipeline (--benchmark_input of "
        "trainer.main names its slowest stage) helps before a faster device does."
      )


def _small_batches(found: summary.Summary) -> Iterator[str]:
  groups: dict[tuple, list[results.Row]] = {}
  for row in _on_hardware(found):
    if row.mode == "train":
      groups.setdefault((row.workload, found.label(row)), []).append(row)
  for (workload, label), rows in groups.items():
    rows.sort(key=lambda row: row.batch_size)
    for small, large in itertools.pairwise(rows):
      ratio = (large.examples_per_second or 0) / (small.examples_per_second or 1)
      if ratio >= _MUCH_FASTER and small.batch_size < large.batch_size:
        yield (
          f"{workload}: a batch of {small.batch_size:,} is too small for {label}: with "
          f"{large.batch_size:,} it does {ratio:.1f} times as many examples a second."
        )


def _padding(found: summary.Summary) -> Iterator[str]:
  for row in found.good(results.ESTIMATED):
    for sentence in row.advice:
      yield f"{summary.title(row)} on {found.label(row)}, by the compiler: {sentence}"


def _deadlines(found: summary.Summary) -> Iterator[str]:
  if found.deadline_seconds is None:
    return
  minutes = f"{found.deadline_seconds / 60:g} minutes"
  for choice in found.choices():
    title = summary.case_title(choice.case)
    if choice.case[1] != "train":
      continue
    for currency, row in choice.in_time.items():
      cost = found.cost(row, "run")
      if cost:
        yield (
          f"{title}: within {minutes}, {found.label(row)} is the cheapest, at {cost[0]:.3g} "
          f"{currency} a run."
        )
    if choice.fastest and (time := summary.seconds_of(choice.fastest, "run")):
      if time[0] > found.deadline_seconds:
        yield f"{title}: no measured device finishes in {minutes}."
      elif not choice.in_time:
        yield f"{title}: the devices within {minutes} have no price in the table (--prices)."


def _start(found: summary.Summary) -> Iterator[str]:
  for row in _on_hardware(found):
    run = summary.seconds_of(row, "run") if row.mode == "train" else None
    if run and row.start_seconds and row.start_seconds > run[0]:
      yield (
        f"{summary.title(row)} on {found.label(row)}: tracing and compiling take "
        f"{row.start_seconds:.3g} s, longer than the {run[0]:.3g} s of the whole training. A "
        "faster device cannot help."
      )
