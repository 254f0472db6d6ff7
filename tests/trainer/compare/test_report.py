"""The table: its numbers are those of the rows. The picture: a bar for each device."""

import re

import pytest

from tests.trainer.compare import fake_rows
from trainer import errors
from trainer.compare import report, summary


def cells(found):
  """Returns the lines of the table as dicts: title → cell."""
  lines = report.text(found).partition("\n\n")[0].splitlines()
  titles = re.split(r"\s{2,}", lines[0])
  # Titles of numbers are right-aligned: the row's cells are read in their order.
  return [dict(zip(titles, re.split(r"\s{2,}", line), strict=False)) for line in lines[1:]]


def test_the_numbers_are_those_of_the_rows():
  cpu, gpu, large, few = cells(fake_rows.FOUND)
  assert cpu["case"] == "net, batch 10"
  assert (cpu["step or call"], cpu["quartiles"], cpu["time"]) == (
    "1 s",
    "800 ms–1.2 s",
    "20 s in all",
  )
  assert (gpu["device"], gpu["examples/s"]) == ("gpu (Tesla P100-PCIE-16GB)", "40")
  assert (gpu["over cpu"], gpu["cost"]) == ("4 ×", "0.002 USD in all")
  assert (large["case"], large["step or call"]) == ("net, batch 20", "2 s")
  assert (few["case"], few["step or call"]) == ("net: predict 4", "500 ms")


def test_failures_and_the_best_are_named():
  text = report.text(fake_rows.FOUND)
  assert "net, batch 10 on tpu (TPU v3-8): out of memory. no room" in text
  best = "gpu (Tesla P100-PCIE-16GB)"
  assert f"net, batch 10: fastest: {best}; cheapest in USD: {best}" in text
  assert report.text(summary.Summary([])) == "No measurement."
  rehearsed = report.text(summary.Summary([fake_rows.row(1.0, "cpu:8")]))
  assert "no device was measured" in rehearsed


def test_columns_without_content_are_left_out():
  row = fake_rows.row(unit="step", epoch_examples=None, epochs=None)
  header = report.text(summary.Summary([row])).splitlines()[0]
  assert header.split() == [
    "case",
    "device",
    "step",
    "or",
    "call",
    "quartiles",
    "examples/s",
    "input",
    "wait",
    "memory",
  ]
  busy = fake_rows.row(load=5.0)
  assert "other programs ran" in report.text(summary.Summary([busy]))
  assert "other programs ran" not in report.text(summary.Summary([fake_rows.row(load=3.0)]))


@pytest.mark.parametrize(
  ("seconds", "text"),
  [(0.00122, "1.22 ms"), (0.9994, "999 ms"), (90, "90 s"), (120, "2 min"), (7560, "2.1 h")],
)
def test_times_for_people(seconds, text):
  assert report.duration(seconds) == text


def test_the_picture_has_a_bar_for_each_training(tmp_path, monkeypatch):
  widths = []
  draw_bars = report._draw_bars

  def draw(axes, found, rows):
    draw_bars(axes, found, rows)
    widths.append([bar.get_width() for bar in axes.patches])

  monkeypatch.setattr(report, "_draw_bars", draw)
  path = tmp_path / "times.png"
  assert report.draw(str(path), fake_rows.FOUND)
  assert path.read_bytes().startswith(b"\x89PNG")
  assert widths == [[20.0, 5.0], [20.0]]  # 10 or 5 steps an epoch, 2 epochs
  assert not report.draw(str(path), summary.Summary([fake_rows.row(mode="predict", examples=4)]))


def test_a_folder_that_cannot_be_written(tmp_path):
  with pytest.raises(errors.OutputError, match="--output"):
    report.draw(str(tmp_path / "none" / "times.png"), fake_rows.FOUND)
