"""Which programs there are, and how many steps are one."""

import pytest
import tensorflow as tf

import trainer
from trainer.programs import plan
from trainer.settings.kinds import Kind

SPEC = (tf.TensorSpec([16, 256]),)  # 16 KiB


def steps(config=None, **tpu):
  run_config = trainer.RunConfig(tpu_config=trainer.TPUConfig(**tpu), **(config or {}))
  return plan.plan(run_config, Kind.TRAIN, SPEC).length


@pytest.mark.parametrize(
  "settings, expected",
  [
    ({}, 100),  # the summaries and the log
    ({"iterations_per_loop": 500}, 500),
    ({"iterations_per_loop": "30s"}, 1024),
    ({"iterations_per_loop": 500, "stacked_input_bytes": 2**20}, 64),
    ({"stacked_input_bytes": 1}, 1),
    ({"steps_per_program": 7}, 7),
    ({"steps_per_program": 1, "stacked_input_bytes": 1}, 1),
  ],
)
def test_a_tpu(settings, expected):
  assert steps(**settings) == expected


@pytest.mark.parametrize(
  "settings, there, expected",
  [
    ({}, None, 64),  # Ctrl-C
    ({}, 5, 5),
    ({"stacked_input_bytes": 2**17}, None, 8),
    ({"stacked_input_bytes": 1}, None, 1),
    ({"steps_per_program": 7}, None, 7),
    ({"steps_per_program": 7}, 0, 1),
    ({"steps_per_program": 500}, None, 64),
    # A training would say that so many steps do not fit.
    ({"steps_per_program": 10, "stacked_input_bytes": 2**17}, None, 8),
    ({"steps_per_program": 1}, None, 1),
  ],
)
def test_groups(settings, there, expected):
  config = trainer.RunConfig(tpu_config=trainer.TPUConfig(**settings))
  assert plan.plan(config, Kind.EVAL, SPEC, there).length == expected


def test_checkpoints_bound_it():
  assert steps(config={"save_checkpoints_steps": 30}) == 30


def test_what_a_program_takes():
  (core,) = SPEC
  (element,), first, count = plan.Plan(Kind.TRAIN, SPEC, 5).arguments
  assert element == tf.TensorSpec([5, *core.shape])
  assert first == count == tf.TensorSpec([], tf.int32)
