"""The results: as text for the terminal, and as a picture."""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from trainer.cli import formatting
from trainer.io import local_files
from trainer.plot import svg
from trainer.tune import batch_sizes, learning_rates

_COLUMNS = ("batch size", "examples/s", "a step", "memory", "")
_NUMBERS = (0, 1, 2, 3)
_FAINT, _STRONG, _MARK = "#56b4e9", "#2f88c9", "#d55e00"

# Draws a result into matplotlib's axes.
Panel = Callable[[Any], None]


def draw(path: str, panel: Panel) -> None:
  """Draws a result to a PNG.

  Raises:
    OutputError: it cannot write the file.
    SettingError: matplotlib is missing.
  """
  with svg.figure_class() as figure_class:
    figure = figure_class(figsize=(4.6, 3.1), layout="constrained")
    axes = figure.add_subplot()
    panel(axes)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
  local_files.write(path, png.getvalue(), "--picture")


def rates(sweep: learning_rates.Sweep) -> str:
  """Returns a sweep of learning rates as text: its length, a table, and what to set."""
  optimizers = " and ".join(sweep.optimizers)
  described = (
    f"Learning rate: {len(sweep.rates)} of {sweep.wanted_steps} steps of {sweep.batch_size} "
    f"examples, from {sweep.rates[0]:.2g} to {sweep.rates[-1]:.2g}, with {optimizers}."
  )
  rows = [(f"{sweep.lowest:.2g}", "the smoothed loss is the lowest")]
  if sweep.diverged is not None:
    rows.append((f"{sweep.diverged:.2g}", "the training diverges"))
  if sweep.suggestion is None:
    advice = (
      "No suggestion: the loss falls by less than it differs from batch to batch. Try more steps "
      "(--steps), a larger batch, or other rates (--lowest_rate, --highest_rate)."
    )
  else:
    rows.insert(0, (f"{sweep.suggestion:.2g}", "suggested: the smoothed loss falls the fastest"))
    advice = (
      f"Set the learning rate of {optimizers}, or the highest rate of its schedule, to "
      f"{sweep.suggestion:.2g}."
    )
    if sweep.diverged is None and sweep.lowest == sweep.rates[-1]:
      advice += "\nThe loss still falls at the highest rate: try higher ones (--highest_rate)."
  return "\n\n".join([described, formatting.table(None, rows), advice])


def losses(sweep: learning_rates.Sweep) -> Panel:
  """Returns the panel of the loss by the learning rate."""
  finite = [loss for loss in sweep.losses if math.isfinite(loss)]
  low, high = min(sweep.smoothed), max(sweep.smoothed)
  margin = 0.15 * (high - low) or 1.0

  def panel(axes):
    axes.semilogx(sweep.rates[: len(finite)], finite, color=_FAINT, alpha=0.5, label="a batch")
    axes.semilogx(sweep.rates[: len(finite)], sweep.smoothed, color=_STRONG, label="smoothed")
    if sweep.suggestion is not None:
      label = f"suggested: {sweep.suggestion:.2g}"
      axes.axvline(sweep.suggestion, color=_MARK, linestyle=":", label=label)
    axes.set(ylim=(low - margin, high + margin), xlabel="learning rate", ylabel="loss")
    # matplotlib's own labels are formulas, and svg.figure_class takes them for text.
    axes.xaxis.set_major_formatter(lambda rate, _: f"{rate:g}")

  return panel


def sizes(tried: Sequence[batch_sizes.Measured]) -> str:
  """Returns the tried batch sizes as text: a table, and what to set."""
  rows = [
    (
      f"{each.batch_size:,}",
      formatting.three_digits(each.examples_per_second),
      f"{1e3 * each.step_seconds:.3g} ms",
      formatting.memory_size(each.memory_bytes),
      "",
    )
    if each.fits
    else (f"{each.batch_size:,}", "", "", "", f"{each.status}: {each.problem}")
    for each in tried
  ]
  largest = max(each.batch_size for each in tried if each.fits)
  if all(each.fits for each in tried):
    advice = f"{largest:,} examples fit; tune tried no larger batches (--largest)."
  else:
    advice = f"The largest batch that fits has {largest:,} examples."
  return (
    f"{formatting.table(_COLUMNS, rows, _NUMBERS)}\n\n{advice}\n"
    f"Set run.train_batch_size = {largest}, and find the learning rate for it anew."
  )


def speeds(tried: Sequence[batch_sizes.Measured]) -> Panel:
  """Returns the panel of the examples/s by the batch size."""
  fitting = [each for each in tried if each.fits]

  def panel(axes):
    axes.semilogx(
      [each.batch_size for each in fitting],
      [each.examples_per_second for each in fitting],
      base=2,
      color=_STRONG,
      marker="o",
      label="fits",
    )
    axes.set(ylim=(0, None), xlabel="batch size", ylabel="examples/s")
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")

  return panel
