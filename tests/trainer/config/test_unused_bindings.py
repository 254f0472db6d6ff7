"""Bindings that nobody uses are found, and no others: before anything is called, and after."""

import gin
import pytest

from tests.trainer import configurables
from trainer import config

ROOTS = ("start",)
START = f"""import {configurables.__name__}
start.model_fn = @line.model_fn
start.input_fn = @train/points.input_fn
"""


def dead(text, call=False, roots=ROOTS):
  config.load([], [START + text], root=configurables.ROOT)
  if call:
    configurables.start()
  return [line.partition("  (")[0] for line in config.dead_bindings(roots)]


@pytest.mark.parametrize("call", [False, True])
@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("", []),
    ("train/points.input_fn.training = True\npoints.input_fn.split = 'a'", []),
    ("evl/points.input_fn.training = True", ["evl/points.input_fn.training = True"]),
    ("start.eval_input_fn = @eval/points.input_fn\neval/points.input_fn.split = 'a'", []),
    (
      "start.eval_input_fn = @a/b/points.input_fn\na/points.input_fn.split = "
      "'a'\na/b/points.input_fn.split = 'a'",
      [],
    ),
    (
      "start.eval_input_fn = @a/b/points.input_fn\nb/points.input_fn.split = 'a'",
      ["b/points.input_fn.split = 'a'"],
    ),
    ("Momentum.rate = 1", ["optimize.Momentum.rate = 1"]),
    ("line.model_fn.optimizer = @Momentum()\nMomentum.rate = 1", []),
    (
      "line.model_fn.optimizer = @fast/Momentum\nfast/Momentum.rate = 1\nslow/Momentum.rate = 2",
      ["slow/optimize.Momentum.rate = 2"],
    ),
    ("STEPS = 1\nstart.steps = %STEPS", []),
    ("A = 1\nB = %A\nMomentum.rate = %B", ["A = 1", "B = %A", "optimize.Momentum.rate = %B"]),
    (
      "OPTIMIZER = @Momentum()\nRATE = 1\nMomentum.rate = %RATE\nstart.params = {'a': "
      "(%OPTIMIZER,)}",
      [],
    ),
    # What a macro evaluates is called in the scope of the macro, not in that of who uses it.
    (
      "O = @Momentum()\nMomentum.rate = 1\nstart.input_fn = "
      "@train/points.input_fn\ntrain/points.input_fn.split = %O\ntrain/Momentum.rate = 2\n"
      "O/Momentum.decay = 3",
      ["train/optimize.Momentum.rate = 2"],
    ),
    (
      "M = @Momentum\nstart.input_fn = @train/points.input_fn\ntrain/points.input_fn.split = "
      "%M\ntrain/Momentum.rate = 2\nM/Momentum.decay = 3",
      ["M/optimize.Momentum.decay = 3"],
    ),
    # A reference without a scope is called in the scope of the function that holds it.
    ("train/points.input_fn.split = @Momentum()\ntrain/Momentum.rate = 2", []),
    (
      "start.params = @shared/gin.singleton()\nshared/gin.singleton.constructor = "
      "@Momentum\nshared/Momentum.rate = 1",
      [],
    ),
  ],
)
def test_dead_bindings(text, expected, call):
  assert dead(text, call) == expected


def test_functions_called_inside_are_known_after_a_call():
  assert dead("line.layer.units = 4") == ["line.layer.units = 4"]
  configurables.start()
  assert config.dead_bindings(ROOTS) == []


def test_a_run_without_training_blames_no_training():
  text = "RATE = 1\nMomentum.rate = %RATE\nevl/points.input_fn.split = 'a'"
  config.load([], [START + text], root=configurables.ROOT)
  configurables.start()
  assert [line.partition(" =")[0] for line in config.dead_bindings(ROOTS, trains=False)] == [
    "evl/points.input_fn.split"
  ]


def test_always_overridden_binding_is_dead_except_for_a_root():
  text = "points.input_fn.params = {}\nstart.steps = 3\nstart.params = 4"
  config.load([], [START + text], root=configurables.ROOT)
  configurables.start(steps=5, params=6)
  assert [line.partition(" =")[0] for line in config.dead_bindings(ROOTS)] == [
    "points.input_fn.params"
  ]


def test_a_place_is_forgotten_with_its_binding():
  text = f"{START}other/start.steps = 1"
  config.load([], [text], root=configurables.ROOT)
  assert config.dead_bindings(ROOTS) == ["other/program.start.steps = 1  (--gin_bindings)"]
  config.clear()
  gin.parse_config(text)
  assert config.dead_bindings(ROOTS) == ["other/program.start.steps = 1"]


def test_a_macro_of_a_file_that_nobody_uses(tmp_path):
  (tmp_path / "a.gin").write_text(f"{START}STEPS = 1\n")
  config.load([tmp_path / "a.gin"], root=configurables.ROOT)
  assert config.dead_bindings(ROOTS) == [f"STEPS = 1  ({tmp_path}/a.gin:4)"]


def test_a_root_in_a_scope_is_not_the_root():
  assert dead("other/start.steps = 3") == ["other/program.start.steps = 3"]


def test_scopes_that_are_entered_in_python_count():
  config.load(
    [], [START + "by_hand/line.layer.units = 3\nhand/line.layer.units = 3"], root=configurables.ROOT
  )
  with gin.config_scope("by_hand"):
    configurables.layer()
  assert [line.partition(" =")[0] for line in config.dead_bindings(ROOTS)] == [
    "hand/line.layer.units"
  ]


def test_the_line_says_where_the_binding_is_and_keeps_short(tmp_path):
  path = tmp_path / "a.gin"
  path.write_text(f"{START}\nMomentum:\n  rate = {list(range(50))}\n")
  config.load([path], ["other/start.steps = 1"], root=configurables.ROOT)
  second, first = config.dead_bindings(ROOTS)
  assert first == "other/program.start.steps = 1  (--gin_bindings)"
  assert second.startswith("optimize.Momentum.rate = [0, 1, 2")
  assert second.endswith(f"...  ({path}:6)")
  assert len(second) < 110 + len(str(path))
