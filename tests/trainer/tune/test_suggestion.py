"""Which gin binding sets the learning rate."""

import gin
import keras
import pytest

from trainer import config, experiment
from trainer.estimator import keras_model  # noqa: F401  # gin names these two
from trainer.optimization import schedules  # noqa: F401
from trainer.tune import suggestion

MODEL = "run.model_fn = @trainer.model_fn_from_keras"
RATE = "keras.optimizers.Adam.learning_rate"
CASES = {
  "a number": ([f"{RATE} = 0.1"], [f"{RATE} = 0.0012"]),
  "no binding": ([], [f"{RATE} = 0.0012"]),
  "a macro": (["LR = 0.1", f"{RATE} = %LR"], ["LR = 0.0012"]),
  "a schedule": (
    [f"{RATE} = @schedules.cosine()", "schedules.cosine.learning_rate = 0.1"],
    ["schedules.cosine.learning_rate = 0.0012"],
  ),
  "a schedule in a scope": (
    [f"{RATE} = @big/schedules.cosine()", "big/schedules.cosine.learning_rate = 0.1"],
    ["big/schedules.cosine.learning_rate = 0.0012"],
  ),
  "several rates": (
    [
      f"{RATE} = @schedules.piecewise()",
      "schedules.piecewise.learning_rates = [0.5, 0.1]",
      "schedules.piecewise.boundaries = [10]",
    ],
    ["schedules.piecewise.learning_rates = [0.0012, 0.00023]"],
  ),
  "a warm-up of Keras": (
    [
      f"{RATE} = @keras.optimizers.schedules.CosineDecay()",
      "keras.optimizers.schedules.CosineDecay.initial_learning_rate = 0.0",
      "keras.optimizers.schedules.CosineDecay.decay_steps = 10",
      "keras.optimizers.schedules.CosineDecay.warmup_target = 0.1",
    ],
    ["keras.optimizers.schedules.CosineDecay.warmup_target = 0.0012"],
  ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_sets_the_rate_is_named(case):
  given, expected = CASES[case]
  config.load([], [*given, MODEL])
  gin.get_configurable(keras.optimizers.Adam)()
  names = [
    text.replace("trainer.optimization.", "") for text in suggestion.learning_rate(0.00117, {})
  ]
  assert names == expected


def test_a_rate_in_the_params_is_named():
  assert suggestion.learning_rate(0.5, {"learning_rate": 0.1}) == [
    "run.params = {..., 'learning_rate': 0.5}"
  ]


def test_a_rate_that_a_program_passes_is_not_gins():
  config.load([], [MODEL])
  gin.get_configurable(keras.optimizers.Adam)(learning_rate=0.1)
  assert suggestion.learning_rate(0.5, None) == []


@pytest.mark.parametrize(
  "given, expected",
  [
    ({"train_batch_size": 8}, "run.train_batch_size = 64"),
    ({"train_per_core_batch_size": 4}, "run.train_per_core_batch_size = 32"),
  ],
)
def test_a_batch_size_is_set_as_the_run_sets_it(given, expected):
  asked = experiment.Experiment(model_fn=lambda: None, **given)
  assert suggestion.batch_size(64, asked, 2) == expected
