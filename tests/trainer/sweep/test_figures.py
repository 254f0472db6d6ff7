"""The figures of a sweep's page, by the texts and lines of their SVGs."""

import itertools
import re
import sys

import pytest

from tests.trainer.sweep import reports
from trainer import errors
from trainer.sweep import figures

DOT, BEST, PRUNED, BREAKS = "#0072b2", "#d55e00", "#999999", "#cc79a7"
# Colours of matplotlib's viridis that can be seen on white and on dark pages.
LOW, HIGH = "#3b528b", "#7ad151"


def texts(svg):
  return re.findall("<text[^>]*>(.*?)</text>", svg)


def dots(svg, color):
  """The number of dots of a colour in the axes."""
  return len(re.findall(f'<use [^>]*style="fill: {color}', svg.split('id="legend')[0]))


def lines(svg):
  """(colour, the height of each point) of the lines, from the first to the last drawn."""
  found = re.findall('<path d="([^"]*)"[^>]*style="fill: none; stroke: (#\\w+)', svg)
  return [(color, [float(y) for y in re.findall(r"[ML] \S+ (\S+)", path)]) for path, color in found]


# ------------------------------------------------------------------- history


def test_a_history_without_a_value_is_none():
  trials = reports.Trials(["max"])
  trials.add(None, state="waiting")
  assert figures.history(reports.of(trials)) == ""


@pytest.mark.parametrize("mode, better_or_equal", [("max", float.__ge__), ("min", float.__le__)])
def test_the_best_so_far_never_gets_worse(mode, better_or_equal):
  svg = figures.history(reports.of_values(0.3, 0.1, 0.5, 0.05, modes=[mode]))
  heights = next(ys for color, ys in lines(svg) if color == BEST)
  assert len(set(heights)) > 1
  assert all(better_or_equal(*pair) for pair in itertools.pairwise(heights))


def test_a_pruned_trial_is_shown_and_is_not_the_best():
  trials = reports.Trials(["max"])
  trials.add([0.3])
  trials.add([0.9], state="pruned")
  trials.add([0.2])
  svg = figures.history(reports.of(trials))
  assert len(set(next(ys for color, ys in lines(svg) if color == BEST))) == 1
  assert (dots(svg, DOT), dots(svg, PRUNED)) == (3, 2)  # one of each in the legend


BROKEN = {"constraints": {"loss <= 0.5": 0.1}}


def test_a_trial_that_breaks_a_constraint_is_never_the_best():
  trials = reports.Trials(["max"])
  for value, attributes in ((0.3, {}), (0.9, BROKEN), (0.5, {}), (0.8, BROKEN)):
    trials.add([value], attributes=attributes)
  svg = figures.history(reports.of(trials))
  assert (dots(svg, DOT), dots(svg, BREAKS)) == (3, 3)  # one of each in the legend
  heights = next(ys for color, ys in lines(svg) if color == BEST)
  kept = reports.of_values(0.3, 0.5)
  assert len(set(heights)) == len(
    set(next(ys for color, ys in lines(figures.history(kept)) if color == BEST))
  )
  assert texts(svg)[-3:] == ["complete", "breaks a constraint", "best so far"]


@pytest.mark.parametrize("metrics", [["accuracy"], ["accuracy", "loss"]])
def test_all_trials_may_break_a_constraint(metrics):
  trials = reports.Trials(["max"] * len(metrics))
  trials.add([0.9] * len(metrics), attributes=BROKEN)
  found = reports.of(trials, metrics, ["max"] * len(metrics))
  shown = (figures.history if len(metrics) == 1 else figures.pareto)(found)
  assert dots(shown, BREAKS) == 2


def test_the_legend_has_no_state_that_no_trial_has():
  shown = texts(figures.history(reports.of_values(0.1, 0.2)))
  assert shown[-2:] == ["complete", "best so far"]


def test_trials_have_whole_numbers():
  shown = texts(figures.history(reports.of_values(0.1, 0.2)))
  assert shown[: shown.index("trial")] == ["0", "1"]


# ------------------------------------------------------- parallel coordinates


def parameters(*given, values=None, space=None, mode="max"):
  """The picture of trials whose only parameter has these gin texts; None where it does not count."""
  bindings = [{} if text is None else {"a.b": text} for text in given]
  bindings = [dict(each, **{"c.d": "1"}) for each in bindings]
  values = values or [index / 10 for index in range(len(given))]
  space = {"a.b": space or {"kind": "Uniform"}, "c.d": {"kind": "Uniform"}}
  return figures.parallel_coordinates(
    reports.of_values(*values, bindings=bindings, space=space, modes=[mode])
  )


def ticks(svg):
  """The texts at the axis of the first parameter: those before that of the second, which is 1."""
  shown = texts(svg)
  after = shown[shown.index("accuracy") + 1 :]
  return after[: after.index("1")]


def test_one_trial_has_no_lines():
  assert parameters("0.5") == ""


def test_few_values_have_a_tick_each_in_their_order():
  assert ticks(parameters("10", "9", "9", "0.5")) == ["0.5", "9", "10"]


def test_names_have_a_tick_each():
  long = "@a_very_long_module.that_has.a_function"
  assert ticks(parameters("'b'", "'$a$'", long)) == ["'$a$'", "'b'", "@a_very_l…s.a_function"]


def test_many_numbers_have_an_axis():
  numbers = [repr(index / 10) for index in range(11)]
  assert ticks(parameters(*numbers)) == ["0", "0.25", "0.5", "0.75", "1"][:4]  # 1 is of the next


def test_an_axis_is_logarithmic_where_the_parameter_is():
  numbers = [repr(2.0**index) for index in range(2, 15)]
  for space in ({"kind": "LogUniform"}, {"kind": "IntUniform", "log": True}):
    assert ticks(parameters(*numbers, space=space)) == ["4", "32", "256", "2.05e+03", "1.64e+04"]


def test_a_trial_without_the_parameter_is_at_the_bottom():
  drawn = [ys for color, ys in lines(parameters("0.1", "0.9", None)) if color.startswith("#")]
  assert len(drawn) == 3
  (without,) = [ys for ys in drawn if ys[0] == max(each[0] for each in drawn)]
  assert without[-1] == min(each[-1] for each in drawn)  # it has the highest metric


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_best_is_drawn_last_and_is_the_lightest(mode):
  drawn = lines(parameters("1", "2", "3", values=[0.5, 0.9, 0.1], mode=mode))
  assert (drawn[0][0], drawn[-1][0]) == (LOW, HIGH)
  best = drawn[-1][1][-1]
  assert best == (min if mode == "max" else max)(ys[-1] for _, ys in drawn)


def test_the_colours_have_a_key():
  svg = parameters("1", "2", "3", values=[0.5, 0.9, 0.1])
  assert [*texts(svg)].count("accuracy") == 2  # the axis, and the key beside it
  assert "0.9" in texts(svg)[texts(svg).index("accuracy") :]
  assert {LOW, HIGH} <= set(re.findall(r"#[0-9a-f]{6}", svg))


def test_labels_lie_on_page_colour_and_long_names_on_two_lines():
  svg = parameters("1", "2")
  assert "var(--page)" in svg
  assert figures._in_two_lines("train_batch_size") == "train_\nbatch_size"
  assert figures._in_two_lines("dropout") == "dropout"


def test_equal_metrics_can_be_drawn():
  assert len(lines(parameters("1", "2", values=[0.5, 0.5]))) == 2


# ---------------------------------------------------------------- importances


def varied(*metrics, modes=("max",)):
  """The report on 40 trials; each metric is a function of x and y."""
  trials = reports.Trials(modes)
  for index in range(40):
    x, y = (index % 8) / 8, (index // 8) / 5
    trials.add([metric(x, y) for metric in metrics], params={"x": x, "y": y})
  return reports.of(trials, [f"m{index}" for index in range(len(metrics))], modes)


@pytest.mark.parametrize("mode", ["max", "min"])
def test_what_mattered_has_the_greater_share(mode):
  shares = figures.importances(varied(lambda x, y: x + 0.01 * y, modes=[mode]))
  assert shares["x"] > 0.9
  assert sum(shares.values()) == pytest.approx(1)


def test_of_several_metrics_the_first_counts():
  found = varied(lambda x, y: y, lambda x, y: x, modes=["max", "min"])
  assert next(iter(figures.importances(found))) == "y"


def test_equal_metrics_tell_nothing():
  assert figures.importances(varied(lambda x, y: 0.5)) == {}


def test_no_trial_tells_nothing():
  assert figures.importances(reports.of(reports.Trials(["max"]))) == {}


# --------------------------------------------------------------------- pareto


def test_two_metrics_have_axes_and_the_best_a_colour():
  found = reports.of_values(
    (0.5, 0.5), (0.9, 0.9), (0.4, 0.8), metrics=["accuracy", "loss"], modes=["max", "min"]
  )
  svg = figures.pareto(found)
  assert {"accuracy", "loss"} <= set(texts(svg))
  assert 'aria-label="accuracy and loss of each trial"' in svg
  assert (dots(svg, DOT), dots(svg, BEST)) == (4, 3)  # one of each in the legend


def test_one_metric_has_no_pareto_front():
  assert figures.pareto(reports.of_values(0.5, 0.6)) == ""


def test_no_complete_trial_has_no_pareto_front():
  trials = reports.Trials(["max", "min"])
  trials.add(None, state="running")
  assert figures.pareto(reports.of(trials, ["accuracy", "loss"], ["max", "min"])) == ""


def test_without_matplotlib(monkeypatch):
  monkeypatch.setitem(sys.modules, "matplotlib", None)
  with pytest.raises(errors.SettingError, match="Pictures need matplotlib"):
    figures.history(reports.of_values(0.5))
