"""Learning curves of runs: what is drawn, by the structure of the SVG and the objects of
matplotlib, not by pixels.
"""

import math
import re
import sys
import types
from xml.etree import ElementTree

import matplotlib
import pytest

from trainer import errors
from trainer.cli import installation
from trainer.plot import curves
from trainer.reporting import metrics_file


def write(model_dir, *, steps=(100, 200, 300), evals=("eval",), **more):
  """A run whose loss is 1 / step and whose accuracy is that of its evaluations."""
  model_dir.mkdir(parents=True, exist_ok=True)
  for step in steps:
    metrics_file.append(
      model_dir,
      "train",
      step,
      {
        "loss": 1 / step,
        "steps_per_second": 5.0,
        "examples_per_second": 50.0,
        "input_wait": 0.1,
        "learning_rate": 0.5,
        **more,
      },
    )
  for kind in evals:
    metrics_file.append(model_dir, kind, steps[-1], {"loss": 2 / steps[-1], "accuracy": 0.9})
  return str(model_dir)


@pytest.fixture
def two(tmp_path):
  return [write(tmp_path / "lr1"), write(tmp_path / "lr2")]


def texts(svg):
  """All texts of an SVG, which has them as comments where the letters are drawn as paths."""
  return [
    text.strip()
    for text in re.findall(r"<!--(.*?)-->|<text[^>]*>(.*?)</text>", svg)
    for text in text
    if text
  ]


# ------------------------------------------------------------- what is drawn


def test_metrics_in_the_order_of_what_they_tell(tmp_path):
  found = curves.collect([write(tmp_path, aardvark=1.0)])
  assert list(found) == [
    "loss",
    "accuracy",
    "aardvark",
    "learning_rate",
    "examples_per_second",
    "input_wait",
  ]


def test_curves_of_runs_train_before_eval(two):
  found = curves.collect(two)["loss"]
  assert [(curve.run, curve.kind, curve.steps) for curve in found] == [
    ("lr1", "train", [100, 200, 300]),
    ("lr1", "eval", [300]),
    ("lr2", "train", [100, 200, 300]),
    ("lr2", "eval", [300]),
  ]
  assert found[0].values == pytest.approx([1 / 100, 1 / 200, 1 / 300])


def test_metrics_that_are_asked_for(two):
  assert list(curves.collect(two, ["steps_per_second", "loss"])) == ["steps_per_second", "loss"]
  with pytest.raises(
    errors.SettingError,
    match="--metric=acuracy: the runs have accuracy, examples_per_second, .*, loss",
  ):
    curves.collect(two, ["acuracy"])


def test_a_metric_that_is_no_number_is_a_gap(tmp_path):
  found = curves.collect([write(tmp_path, gap=math.nan)])["gap"][0]
  assert [math.isnan(value) for value in found.values] == [True] * 3


@pytest.mark.parametrize(
  "paths, names",
  [
    (["out/a"], ["a"]),
    (["out/a", "out/b/"], ["a", "b"]),
    (["x/lr1/run", "x/lr2/run"], ["lr1", "lr2"]),
    (["x/lr1/a/run", "x/lr1/b/run", "x/lr2/a/run"], ["lr1/a", "lr1/b", "lr2/a"]),
    (["/x/run", "/y/run/z"], ["run", "z"]),
    (["gs://bucket/a/run", "gs://bucket/b/run"], ["a", "b"]),
  ],
)
def test_names_are_the_shortest_that_tell_runs_apart(paths, names):
  assert curves.run_names(paths) == names


def test_a_folder_that_is_given_twice():
  with pytest.raises(errors.SettingError, match="The same folder twice: out/a, out/a/"):
    curves.run_names(["out/a", "out/a/"])


# ---------------------------------------------------------------- how it looks


def test_every_panel_has_labels_and_the_legend_all_runs(two, tmp_path):
  path = tmp_path / "curves.svg"
  curves.save(str(path), curves.collect(two))
  ElementTree.parse(path)
  svg = path.read_text()
  found = texts(svg)
  labels = ["loss", "accuracy", "learning rate", "examples / s", "input wait (share of time)"]
  assert [found.count(label) for label in labels] == [1] * 5
  assert len(re.findall('<g id="axes_', svg)) == found.count("step") == 5
  assert [found.count(name) for name in ("lr1", "lr2", "train", "eval")] == [1] * 4
  assert "<dc:date>" not in svg


def styles(svg):
  """The (colour, whether dashed) of the lines that are curves: those that are clipped to their
  panel and no grid.
  """
  lines = re.findall(r'<path d="[^"]*" clip-path="[^"]*" style="fill: none; ([^"]*)"', svg)
  return [
    (re.search("stroke: (#\\w+)", line)[1], "dasharray" in line)
    for line in lines
    if "stroke-width: 1.5" in line
  ]


def test_one_run_tells_kinds_apart_by_colour_and_dashes(tmp_path):
  found = curves.collect(
    [write(tmp_path / "run", steps=(1, 2), evals=("eval", "eval_b"))], ["loss"]
  )
  drawn = styles(curves.svgs(found)["loss"])
  assert len(set(drawn)) == len(drawn) == 3
  assert [dashed for _, dashed in drawn] == [False, True, True]


def test_runs_differ_by_colour_and_kinds_by_dashes(two):
  drawn = styles(curves.svgs(curves.collect(two))["loss"])
  assert [dashed for _, dashed in drawn] == [False, True] * 2
  assert drawn[0][0] == drawn[1][0] != drawn[2][0] == drawn[3][0]


def test_twelve_runs_have_twelve_colours(tmp_path):
  runs = [write(tmp_path / str(run), evals=()) for run in range(12)]
  assert len(set(styles(curves.svgs(curves.collect(runs))["loss"]))) == 12


def test_a_panel_for_a_page_has_its_text_colour_and_no_size(two):
  svg = curves.svgs(curves.collect(two))["accuracy"]
  element = ElementTree.fromstring(svg)
  assert "width" not in element.attrib
  assert "height" not in element.attrib
  assert element.attrib["viewBox"]
  assert "currentColor" in svg
  assert "#010203" not in svg
  assert {"accuracy", "step"} <= set(texts(svg))
  assert re.findall(r"(?:href|src)=\"(?!#)", svg) == []


def test_the_same_runs_give_the_same_svg(two, tmp_path):
  for name in ("a.svg", "b.svg"):
    curves.save(str(tmp_path / name), curves.collect(two))
  assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_without_matplotlib(two, tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "matplotlib", None)
  with pytest.raises(
    errors.SettingError,
    match=f"Pictures need matplotlib: {re.escape(installation.command('plot'))}",
  ):
    curves.save(str(tmp_path / "curves.png"), curves.collect(two))


def drawn(metric, *values, run="run", kind="train"):
  """What `collect` returns for one curve, with a value at step 1, 2 and so on."""
  return {metric: [curves.Curve(run, kind, list(range(1, len(values) + 1)), list(values))]}


def ticks(found):
  """The numbers at the axes of a panel."""
  (svg,) = curves.svgs(found).values()
  return [text for text in texts(svg) if re.fullmatch(r"[-\d.,e+]+", text)]


def test_steps_have_all_their_digits():
  found = {"loss": [curves.Curve("run", "train", [0, 2_000_000], [0.0, 1.0])]}
  assert "2,000,000" in ticks(found)


def test_all_panels_have_the_same_steps():
  found = {
    "loss": [curves.Curve("run", "train", [100, 1000], [1.0, 0.5])],
    "accuracy": [curves.Curve("run", "eval", [1000], [0.5])],
  }
  steps = [
    [text for text in texts(svg) if text in ("200", "400", "600", "800", "1,000")]
    for svg in curves.svgs(found).values()
  ]
  assert steps[0] == steps[1] == ["200", "400", "600", "800", "1,000"]


def test_rates_begin_at_zero_and_losses_where_they_are():
  assert "0" in ticks(drawn("learning_rate", 0.5, 0.5))
  assert "0" not in ticks(drawn("loss", 0.5, 0.6))


@pytest.mark.parametrize(
  "values, expected",
  [
    ((0.0, 1.0), "0.2"),
    ((0.0, 1e-05), "2e-06"),
    ((0.0, 50_000.0), "20,000"),
    ((0.0, 2e6), "1,000,000"),
    ((20_000.1, 20_000.4), "20,000.2"),
    ((1234.5671, 1234.5679), "1,234.5674"),
    ((0.0, 1e30), "2e+29"),
  ],
)
def test_numbers_are_in_full_and_differ(values, expected):
  found = ticks(drawn("loss", *values))
  assert expected in found
  assert len(set(found)) >= len(found) - 1  # a step may be what a value is


@pytest.mark.parametrize("name", ["$x^$", "a<b>&", "_run"])
def test_a_name_is_shown_as_it_is(name, tmp_path):
  found = drawn(name, 1.0, run=name)
  found[name] += drawn(name, 2.0, run="other")[name]
  curves.save(str(tmp_path / "curves.svg"), found)
  element = ElementTree.fromstring(curves.svgs(found)[name])
  assert [each for each in element.itertext() if each.strip() == name] == [name] * 2
  assert element.attrib["aria-label"] == f"{name} by step"


def test_a_panel_of_one_curve_has_no_legend():
  assert "train" not in texts(curves.svgs(drawn("loss", 1.0, 2.0))["loss"])


@pytest.mark.parametrize("count, markers", [(1, 1), (2, 0)])
def test_a_curve_of_one_step_is_a_dot(count, markers):
  svg = curves.svgs(drawn("loss", *[1.0] * count))["loss"]
  assert len(re.findall(r'clip-path="[^"]*">\s*<use ', svg)) == markers


def test_the_users_matplotlibrc_does_not_count():
  before = curves.svgs(drawn("loss", 1.0, 2.0))
  with matplotlib.rc_context({"axes.linewidth": 5.0}):
    assert curves.svgs(drawn("loss", 1.0, 2.0)) == before
    assert matplotlib.rcParams["axes.linewidth"] == 5.0


@pytest.mark.parametrize(
  ("limits", "value", "text"),
  [
    ((0, 1), 0.25, "0.25"),
    ((1000000, 1000001), 1000000.5, "1,000,000.5"),
    ((-1e-320, 1e-320), 0, "0"),
    ((0, 1e308), 1e308, "1e+308"),
    ((-1.7e308, 1.7e308), 1e300, "1e+300"),  # further apart than floats reach
    ((0, math.inf), 1e308, "1e+308"),
  ],
)
def test_numbers_beside_an_axis_are_written_in_full(limits, value, text):
  axes = types.SimpleNamespace(get_ylim=lambda: limits)
  assert curves._number_formatter(axes)(value, None) == text
