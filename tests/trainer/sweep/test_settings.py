"""Sweep files: what they give, and what is said of mistakes in them."""

import pytest

from tests.trainer.sweep import programs
from trainer import errors
from trainer.config import gin_internals
from trainer.sweep import settings

PLAIN = "sweep.metric = 'accuracy'\nsweep.mode = 'max'\n"


def test_references_and_macros_stay_as_written(tmp_path):
  found = programs.settings(
    tmp_path,
    PLAIN
    + """
HIGH = 0.5
WIDTHS = [(8,), %WIDE]
sweep.space = {'OPT': [@keras.optimizers.Adam, @scope/schedule()], 'a.b': @rate/uniform(), 'a.c': %WIDTHS, 'a.d': @d/choice()}
rate/uniform.low = 0.1
rate/uniform.high = %HIGH
d/choice.options = [%HIGH, %OTHER, {'k': @f}]
sweep.bindings = {'run.model_fn': @digits_mlp.model_fn, 'NAME': "it's"}
""",
  )
  assert found.space.samples() == {
    "OPT": ["@keras.optimizers.Adam", "@scope/schedule()"],
    "a.b": ["0.1"],
    "a.c": ["(8,)", "%WIDE"],
    "a.d": ["0.5", "%OTHER", "{'k': @f}"],
  }
  assert found.bindings == ("run.model_fn = @digits_mlp.model_fn", 'NAME = "it\'s"')
  assert (found.sampler, found.pruner) == ("tpe", "none")
  assert found.overridden(["NAME='x'", "a.c = (1,)", "a.x = 1"]) == ["NAME", "a.c"]
  assert gin_internals.each_binding() == []


def test_several_metrics(tmp_path):
  found = programs.settings(
    tmp_path,
    "sweep.metric = ['accuracy', 'loss']\nsweep.mode = ['max', "
    "'min']\nsweep.space = {'a.b': [1, 2]}",
  )
  assert (found.metrics, found.modes, found.sampler) == (
    ("accuracy", "loss"),
    ("max", "min"),
    "tpe",
  )


def test_a_grid_is_the_product_of_its_lists(tmp_path):
  text = PLAIN + "sweep.grid = @product()\nproduct.parts = [{'A': [1, 2]}, {'B': [3, 4]}]"
  found = programs.settings(tmp_path, text)
  assert found.space.points == [{"A": a, "B": b} for a in "12" for b in "34"]
  short = PLAIN + "sweep.grid = {'A': [1, 2], 'B': [3, 4]}"
  assert programs.settings(tmp_path, short).space.points == found.space.points


def test_included_files_count(tmp_path):
  (tmp_path / "base.gin").write_text(PLAIN + "LOW = 3\n")
  found = programs.settings(
    tmp_path, f"include '{tmp_path}/base.gin'\nsweep.space = {{'a.b': [%LOW, 4]}}"
  )
  assert found.space.samples() == {"a.b": ["3", "4"]}


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("", "sweep.metric needs a value"),
    (PLAIN, "sweep.space or sweep.grid"),
    (PLAIN + "sweep.space = {}", "at least one parameter"),
    (PLAIN + "sweep.space = {'a.b': @uniform()}", r"sweep.gin:3: .*uniform.low needs a value"),
    (PLAIN + "sweep.space = {'a.b': @unifrom()}", "must be @choice"),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nlr/uniform.low = 1",
      r"Bindings without effect: "
      r"lr/sweep.uniform.low = 1  "
      r"\(.*sweep.gin:4\)",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nrun.train_steps = 1",
      r"sweep.gin:4: run.train_steps is "
      r"not of the sweep. .* write "
      r"sweep.bindings",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nlr/unifrom.low = 1",
      "lr/unifrom.low is not of the sweep. Did you mean uniform",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nsweep.sampler = 'tpee'",
      "sweep.sampler = 'tpee': expected one of tpe, gp, random.*Did you mean tpe",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nsweep.pruner = 'ahsa'",
      "sweep.pruner = 'ahsa'.*Did you mean asha",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nsweep.sampler_options = {'startup': 1}",
      "sweep.sampler_options has 'startup'; TPESampler takes",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nsweep.pruner = 'asha'\nsweep.pruner_options = "
      "{'min_resource': 0}",
      "min_resource",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nsweep.bindings = {'a.b': 2}",
      "sweep.bindings sets 'a.b', and the sweep varies it",
    ),
    (
      "sweep.metric = 'a'\nsweep.mode = 'maximum'\nsweep.space = {'a.b': [1]}",
      "sweep.mode must be 'max' or 'min'",
    ),
    (
      "sweep.metric = ['a', 'b']\nsweep.mode = 'max'\nsweep.space = {'a.b': [1]}",
      "for each of the 2 metrics",
    ),
    (
      "sweep.metric = ['a', 'b']\nsweep.mode = ['max', 'max']\nsweep.space = {'a.b': "
      "[1]}\nsweep.pruner = 'asha'",
      "is for one metric",
    ),
    (
      "sweep.metric = ['a', 'b']\nsweep.mode = ['max', 'max']\nsweep.space = {'a.b': "
      "[1]}\nsweep.sampler = 'cmaes'",
      "is for one metric",
    ),
    (
      PLAIN + "sweep.grid = @product()\nproduct.parts = [{'A': [1]}]\nsweep.sampler = 'tpe'",
      "no sampler",
    ),
    (
      PLAIN + "sweep.space = {'a.b': @lr/log_uniform()}\nlr/log_uniform.low = "
      "-1\nlr/log_uniform.high = 1",
      "greater than 0",
    ),
    (PLAIN + "sweep.space = {'a.b': [1}", "sweep.gin:3"),
    (PLAIN + "sweep.space = {'a.b': [1]}\nsweep.seeds = [1, 1]", "sweep.seeds has a seed twice"),
    (PLAIN + "sweep.space = {'a.b': [1]}\nsweep.seeds = 3", "sweep.seeds"),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nsweep.constraints = ['loss < 0.5']",
      "such as 'accuracy >= 0.9'.*got 'loss < 0.5'",
    ),
    (
      PLAIN + "sweep.space = {'a.b': [1]}\nsweep.constraints = ['loss <= nan']",
      "got 'loss <= nan'",
    ),
  ],
)
def test_mistakes(tmp_path, text, message):
  with pytest.raises(errors.SettingError, match=message):
    programs.settings(tmp_path, text)
  assert gin_internals.each_binding() == []


def test_no_such_file():
  with pytest.raises(errors.SettingError, match="There is no gin file nowhere.gin"):
    settings.load("nowhere.gin")


def test_plain_sweep_definition_has_no_constraints_or_seeds(tmp_path):
  plain = programs.settings(tmp_path, PLAIN + "sweep.space = {'a.b': [1]}")
  assert set(plain.definition()) == {"space", "metric", "mode", "bindings"}
  more = programs.settings(
    tmp_path,
    PLAIN + "sweep.space = {'a.b': [1]}\nsweep.seeds = [1, 2]\nsweep.constraints = ['loss<=0.5']",
  )
  assert (more.definition()["seeds"], more.definition()["constraints"]) == ([1, 2], ["loss<=0.5"])
  assert more.judged == ["accuracy", "loss"]
