"""The results: as text and as a picture."""

import math

import pytest

from trainer.compare import results
from trainer.tune import batch_sizes, learning_rates, report

LOSSES = [2.0] * 60 + [2.0 - 0.04 * step for step in range(40)] + [9.0, 80.0, math.inf]
RATES = [1e-6 * 1e7 ** (step / 199) for step in range(len(LOSSES))]
SWEEP = learning_rates._judged(RATES, LOSSES, 200, 32, ["Adam"])
TRIED = [
  batch_sizes.Measured(32, results.OK, "", 0.01, 3200.0, 2**30),
  batch_sizes.Measured(64, results.OK, "", 0.0199, 3216.1, 2**30),
  batch_sizes.Measured(128, results.OUT_OF_MEMORY, "It needs more."),
]


def test_the_text_of_rates_says_what_to_set():
  text = report.rates(SWEEP)
  rate = f"{SWEEP.suggestion:.2g}"
  assert f"Set the learning rate of Adam, or the highest rate of its schedule, to {rate}." in text
  assert "103 of 200 steps of 32 examples" in text


def test_the_text_of_sizes_says_what_to_set():
  text = report.sizes(TRIED)
  assert "The largest batch that fits has 64 examples.\nSet run.train_batch_size = 64" in text
  assert "out of memory: It needs more." in text


def test_sizes_that_all_fit_say_that_more_may():
  assert "64 examples fit; tune tried no larger batches (--largest)." in report.sizes(TRIED[:2])


def test_no_suggestion_says_what_to_try():
  flat = learning_rates._judged(RATES, [2.0] * len(RATES), 200, 32, ["Adam"])
  assert "No suggestion" in report.rates(flat)


def test_a_loss_that_still_falls_says_so():
  falling = learning_rates._judged(RATES[:100], LOSSES[:100], 100, 32, ["Adam"])
  assert "try higher ones (--highest_rate)" in report.rates(falling)


@pytest.mark.parametrize(
  ("panel", "label", "line", "values"),
  [
    (report.losses(SWEEP), "learning rate", 1, SWEEP.smoothed),
    (report.speeds(TRIED), "batch size", 0, [3200.0, 3216.1]),
  ],
)
def test_the_picture_has_the_result(tmp_path, panel, label, line, values):
  pytest.importorskip("matplotlib")
  drawn = []
  path = tmp_path / "found.png"
  report.draw(str(path), lambda axes: (panel(axes), drawn.append(axes)))
  assert path.read_bytes().startswith(b"\x89PNG")
  assert drawn[0].get_xlabel() == label
  assert list(drawn[0].lines[line].get_ydata()) == values
