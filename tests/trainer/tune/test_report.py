"""The report: as text, as JSON and as a picture."""

import json
import math

import pytest

from trainer.compare import results
from trainer.tune import batch_sizes, learning_rates, report

LOSSES = [2.0] * 60 + [2.0 - 0.04 * step for step in range(40)] + [9.0, 80.0, math.inf]
RATES = [1e-6 * 1e7 ** (step / 199) for step in range(len(LOSSES))]
SWEEP = learning_rates._judged(RATES, LOSSES, 200, 32, ["Adam"])
SEARCH = batch_sizes.Search(
  [
    batch_sizes.Measured(32, results.OK, "", 0.01, 3200.0, 2**30),
    batch_sizes.Measured(64, results.OK, "", 0.0199, 3216.1, 2**30),
    batch_sizes.Measured(128, results.OUT_OF_MEMORY, "It needs more."),
  ],
  2**31,
)


def made(**changes):
  given = dict(
    name="a.gin",
    about="On cpu.",
    sweep=SWEEP,
    rate_bindings=("LR = 0.01",),
    search=SEARCH,
    size_bindings=("run.train_batch_size = 64",),
  )
  return report.Report(**given | changes)


def test_the_text_says_what_to_set():
  text = made().text()
  assert f"{SWEEP.suggestion:.2g}" in text
  assert "\n  LR = 0.01" in text
  assert "The largest batch that fits has 64 examples. A process may take 2.00 GiB." in text
  assert "32 are as fast as any" in text
  assert "out of memory: It needs more." in text


def test_a_rate_in_a_program_has_no_binding():
  assert "No gin binding sets the learning rate" in made(rate_bindings=()).text()


def test_no_suggestion_says_what_to_try():
  flat = learning_rates._judged(RATES, [2.0] * len(RATES), 200, 32, ["Adam"])
  assert "No suggestion" in made(sweep=flat).text()


def test_a_loss_that_still_falls_says_so():
  falling = learning_rates._judged(RATES[:100], LOSSES[:100], 100, 32, ["Adam"])
  assert "try higher ones (--highest_rate)" in made(sweep=falling).text()


def test_the_json_has_all_numbers():
  found = json.loads(json.dumps(made().as_dict(), allow_nan=False))
  assert found["learning_rate"]["suggestion"] == SWEEP.suggestion
  assert found["learning_rate"]["losses"][-1] is None
  assert found["learning_rate"]["bindings"] == ["LR = 0.01"]
  assert found["batch_size"]["largest"] == 64
  assert found["batch_size"]["fastest"] == 32
  assert len(found["batch_size"]["tried"]) == 3


@pytest.mark.parametrize("left_out", ["sweep", "search", None])
def test_the_picture_has_a_panel_for_each_search(tmp_path, monkeypatch, left_out):
  pytest.importorskip("matplotlib")
  drawn = []
  for name in ("_draw_losses", "_draw_speeds"):
    draw = getattr(report, name)
    monkeypatch.setattr(
      report, name, lambda found, axes, draw=draw: (draw(found, axes), drawn.append(axes))
    )
  path = tmp_path / "found.png"
  made(**({left_out: None} if left_out else {})).draw(str(path))
  assert path.read_bytes().startswith(b"\x89PNG")
  labels = [axes.get_xlabel() for axes in drawn]
  wanted = {"sweep": "learning rate", "search": "batch size"}
  assert labels == [label for name, label in wanted.items() if name != left_out]
  if left_out != "sweep":
    assert list(drawn[0].lines[1].get_ydata()) == SWEEP.smoothed
