"""The results: as text for the terminal, as JSON, and as a picture."""

import dataclasses
import functools
import io
import math
from typing import Any

from trainer.cli import formatting
from trainer.io import local_files
from trainer.plot import svg
from trainer.tune import batch_sizes, learning_rates

_COLUMNS = ("batch size", "examples/s", "a step", "memory", "")
_NUMBERS = (0, 1, 2, 3)
_FAINT, _STRONG, _MARK = "#56b4e9", "#2f88c9", "#d55e00"
_INCHES = (4.6, 3.1)


@dataclasses.dataclass(frozen=True)
class Report:
  """The results for an experiment.

  Attributes:
    name: of the experiment, such as its gin file.
    about: the device, the precision and the seed.
    sweep: of learning rates, or None.
    rate_bindings: the gin bindings that set the learning rate.
    search: of batch sizes, or None.
    size_bindings: the gin bindings that set the largest and the fastest batch size.
  """

  name: str
  about: str
  sweep: learning_rates.Sweep | None = None
  rate_bindings: tuple[str, ...] = ()
  search: batch_sizes.Search | None = None
  size_bindings: tuple[str, ...] = ()

  def text(self) -> str:
    """Returns the report for the terminal."""
    parts = [self.about]
    if self.sweep is not None:
      parts += [
        f"Learning rate: {described(self.sweep)}",
        formatting.table(None, rates(self.sweep)),
        rate_advice(self.sweep, self.rate_bindings),
      ]
    if self.search is not None:
      parts += [
        "Batch size of the training:",
        formatting.table(_COLUMNS, rows(self.search), _NUMBERS),
        size_advice(self.search, self.size_bindings),
      ]
    return "\n\n".join(parts)

  def as_dict(self) -> dict[str, Any]:
    """Returns the report for JSON; a loss of NaN or infinity is null."""
    found: dict[str, Any] = {"name": self.name, "about": self.about}
    if self.sweep is not None:
      numbers = dataclasses.asdict(self.sweep)
      numbers["losses"] = [loss if math.isfinite(loss) else None for loss in numbers["losses"]]
      found["learning_rate"] = {**numbers, "bindings": list(self.rate_bindings)}
    if self.search is not None:
      found["batch_size"] = {
        "largest": self.search.largest.batch_size,
        "fastest": self.search.fastest.batch_size,
        "bindings": list(self.size_bindings),
        "limit_bytes": self.search.limit_bytes,
        "tried": [dataclasses.asdict(each) for each in self.search.tried],
      }
    return found

  def draw(self, path: str) -> None:
    """Draws the loss by the learning rate, and the speed by the batch size, to a PNG.

    Raises:
      OutputError: it cannot write the file.
      SettingError: matplotlib is missing.
    """
    panels = [
      functools.partial(draw, found)
      for draw, found in ((_draw_losses, self.sweep), (_draw_speeds, self.search))
      if found is not None
    ]
    with svg.figure_class() as figure_class:
      figure = figure_class(figsize=(_INCHES[0] * len(panels), _INCHES[1]), layout="constrained")
      for draw, axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize="small")
      png = io.BytesIO()
      figure.savefig(png, format="png", dpi=150)
    local_files.write(path, png.getvalue(), "--picture")


def described(sweep: learning_rates.Sweep) -> str:
  """Returns a sentence on the sweep of the rates."""
  done = len(sweep.rates)
  return (
    f"{done} of {sweep.wanted_steps} steps of {sweep.batch_size} examples, from "
    f"{sweep.rates[0]:.2g} to {sweep.rates[-1]:.2g}, with {' and '.join(sweep.optimizers)}."
  )


def rates(sweep: learning_rates.Sweep) -> list[tuple[str, str]]:
  """Returns rows of a rate and its effect."""
  found = []
  if sweep.suggestion is not None:
    found.append((f"{sweep.suggestion:.2g}", "suggested: the smoothed loss falls the fastest"))
  found.append((f"{sweep.lowest:.2g}", "the smoothed loss is the lowest"))
  if sweep.diverged is not None:
    found.append((f"{sweep.diverged:.2g}", "the training diverges"))
  return found


def rate_advice(sweep: learning_rates.Sweep, bindings: tuple[str, ...]) -> str:
  """Returns the advice on the learning rate."""
  if sweep.suggestion is None:
    return (
      "No suggestion: the loss falls by less than it differs from batch to batch. Try more steps "
      "(--steps), a larger batch, or other rates (--lowest_rate, --highest_rate)."
    )
  ends = "" if sweep.diverged is not None else _still_falls(sweep)
  if not bindings:
    return (
      f"No gin binding sets the learning rate: {sweep.suggestion:.2g} belongs where the program "
      f"makes {' and '.join(sweep.optimizers)}.{ends}"
    )
  which = "In the gin file" if len(bindings) == 1 else "In the gin file, the ones you mean"
  return f"{which}, or with --gin_bindings:\n  " + "\n  ".join(bindings) + ends


def _still_falls(sweep):
  if sweep.lowest < sweep.rates[-1]:
    return ""
  return "\nThe loss still falls at the highest rate: try higher ones (--highest_rate)."


def rows(search: batch_sizes.Search) -> list[tuple[str, ...]]:
  """Returns the rows of the table of batch sizes, the smallest first."""
  return [_row(search, each) for each in sorted(search.tried, key=lambda one: one.batch_size)]


def _row(search, each):
  size = f"{each.batch_size:,}"
  if not each.fits:
    return size, "", "", "", f"{each.status}: {each.problem}"
  marks = [
    name
    for name, one in (("largest that fits", search.largest), ("fastest", search.fastest))
    if one is each
  ]
  return (
    size,
    formatting.three_digits(each.examples_per_second),
    f"{1e3 * each.step_seconds:.3g} ms",
    formatting.memory_size(each.memory_bytes),
    ", ".join(marks),
  )


def size_advice(search: batch_sizes.Search, bindings: tuple[str, ...]) -> str:
  """Returns the advice on the batch size."""
  largest, fastest = search.largest, search.fastest
  if all(each.fits for each in search.tried):
    ends = f"{largest.batch_size:,} examples fit; tune tried no larger batches (--largest)."
  else:
    ends = f"The largest batch that fits has {largest.batch_size:,} examples."
  ends += f" A process may take {formatting.memory_size(search.limit_bytes)}."
  if fastest is not largest:
    ends += f" {fastest.batch_size:,} are as fast as any: a larger batch only takes more memory."
  return (
    f"{ends}\nIn the gin file, or with --gin_bindings:\n  "
    + "\n  ".join(bindings)
    + "\nAnother batch size needs another learning rate: find it anew (--find=learning_rate)."
  )


def _draw_losses(sweep, axes):
  finite = [loss for loss in sweep.losses if math.isfinite(loss)]
  axes.semilogx(sweep.rates[: len(finite)], finite, color=_FAINT, alpha=0.5, label="a batch")
  axes.semilogx(sweep.rates[: len(finite)], sweep.smoothed, color=_STRONG, label="smoothed")
  if sweep.suggestion is not None:
    label = f"suggested: {sweep.suggestion:.2g}"
    axes.axvline(sweep.suggestion, color=_MARK, linestyle=":", label=label)
  low, high = min(sweep.smoothed), max(sweep.smoothed)
  margin = 0.15 * (high - low) or 1.0
  axes.set(ylim=(low - margin, high + margin), xlabel="learning rate", ylabel="loss")
  # matplotlib's own labels are formulas, and svg.figure_class takes them for text.
  axes.xaxis.set_major_formatter(lambda rate, _: f"{rate:g}")


def _draw_speeds(search, axes):
  sizes = [each.batch_size for each in search.fitting]
  speeds = [each.examples_per_second for each in search.fitting]
  axes.semilogx(sizes, speeds, base=2, color=_STRONG, marker="o", label="fits")
  fastest = search.fastest.batch_size
  axes.axvline(fastest, color=_MARK, linestyle=":", label=f"fastest: {fastest:,}")
  axes.set(ylim=(0, None), xlabel="batch size", ylabel="examples/s")
  axes.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
