"""Bars and charts of a comparison: their figures, their order and their legends."""

import re

import pytest

from tests.trainer.compare import fake_rows
from trainer.compare import figures, report, summary

FOUND = fake_rows.FOUND


def test_bars_are_the_figures_and_keep_their_kind():
  bars = figures.times(FOUND)["net, batch 10: the whole training"]
  assert [(bar.device, bar.kind, bar.low, bar.high) for bar in bars] == [
    ("cpu", "measured", 20.0, 20.0),
    ("gpu", "measured", 5.0, 5.0),
    ("tpu", "estimated", pytest.approx(0.4), pytest.approx(1.0)),
    ("tpu", "published", 3.0, 3.0),
  ]
  assert bars[0].spread == pytest.approx((16.0, 24.0))
  assert bars[3].text == "about 3 s"
  ratios = figures.speedups(FOUND)["net, batch 10"]
  assert [(bar.kind, bar.text) for bar in ratios] == [
    ("measured", "4 ×"),
    ("estimated", "20–50 ×"),
    ("published", "about 100 × the cpu"),
  ]
  rates = [bar.high for bar in figures.batch_sizes(FOUND)["net"]]
  assert rates == [10.0, 10.0, 40.0]
  assert [bar.high for bar in figures.predictions(FOUND)["net"]] == [8.0]
  ((title, (bar,)),) = figures.costs(FOUND).items()
  assert (title, bar.high) == ("net, batch 10: the whole training, in USD", pytest.approx(0.002))


def test_a_step_alone_has_no_cost():
  row = fake_rows.row(0.25, "gpu", unit="step", epoch_examples=None, epochs=None)
  found = summary.Summary([row], fake_rows.PRICES)
  assert figures.costs(found) == {}
  assert "<h2>Costs</h2>" not in report.page(found, {}, {})


def test_measured_bars_come_first_of_a_device():
  order = [
    (bar.device, bar.kind) for bar in figures.in_order(next(iter(figures.times(FOUND).values())))
  ]
  assert order == [
    ("cpu", "measured"),
    ("gpu", "measured"),
    ("tpu", "published"),
    ("tpu", "estimated"),
  ]


@pytest.fixture(scope="module")
def charts():
  return figures.charts(FOUND)


def test_charts_are_pictures(charts):
  assert [*charts] == ["times", "speedup", "batch_sizes", "predictions", "costs"]
  assert all(chart.png.startswith(b"\x89PNG") for chart in charts.values())
  assert all(chart.svg.startswith("<svg role=") for chart in charts.values())
  assert figures.charts(summary.Summary([])) == {}


def letters(chart):
  return re.findall("<text[^>]*>(.*?)</text>", chart.svg)


def test_a_legend_has_what_tells_bars_apart_and_nothing_else(charts):
  shown = letters(charts["times"])
  assert [*shown[-6:-4], *shown[-4:]] == ["CPU", "GPU", "TPU", "measured", "published", "estimated"]
  alone = letters(figures.charts(summary.Summary([fake_rows.row(1.0)]))["times"])
  assert not {"CPU", "measured"} & set(alone)


@pytest.mark.parametrize(
  "device, name", [("cpu:8", "virtual cores (rehearsal)"), ("xla:8", "XLA devices (rehearsal)")]
)
def test_a_rehearsal_has_no_speedup(device, name):
  charts = figures.charts(summary.Summary([fake_rows.row(1.0), fake_rows.row(60.0, device)]))
  assert "speedup" not in charts
  assert name in letters(charts["times"])


@pytest.mark.parametrize(
  ("seconds", "text"),
  [
    (0.00122, "1.22 ms"),
    (0.9999, "1,000 ms"),
    (1.0, "1 s"),
    (90, "90 s"),
    (150, "2.5 min"),
    (9000, "2.5 h"),
  ],
)
def test_durations(seconds, text):
  assert figures.duration(seconds) == text


@pytest.mark.parametrize(
  ("low", "high", "text"),
  [(0.02, 0.05, "20–50 ms"), (0.9, 1.1, "900 ms–1.1 s"), (0.02, 0.02001, "20 ms")],
)
def test_ranges_of_durations(low, high, text):
  assert figures.durations(low, high) == text
