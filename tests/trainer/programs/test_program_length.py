"""How many steps are one program."""

import dataclasses
from typing import Any

import pytest
import tensorflow as tf

import trainer
from trainer import errors
from trainer.programs import core_results, program_length

SPEC = (tf.TensorSpec([16, 256]),)  # 16 KiB


@dataclasses.dataclass
class Device:
  """What is asked of a device."""

  kind: str = "tpu"
  replicas: int = 8
  is_multi_worker: bool = False


TPU: Any = Device()


def steps(device=TPU, static_shapes=True, config=None, **tpu):
  run_config = trainer.RunConfig(
    tpu_config=trainer.TPUConfig(**tpu), static_shapes=static_shapes, **(config or {})
  )
  return program_length.steps_per_program(run_config, device, SPEC)


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
  group = tuple(tf.TensorSpec([8, *leaf.shape]) for leaf in SPEC), tf.TensorSpec([8], tf.int64)
  config = trainer.RunConfig(tpu_config=trainer.TPUConfig(**settings))
  assert program_length.groups_per_program(config, TPU, group, there) == expected


def test_a_program_whose_results_are_too_large_is_traced_once_more():
  tried = []

  def trace(groups):
    tried.append(groups)
    if groups > 5:
      raise core_results.TooLarge(5)
    return "traced"

  assert program_length.longest(trace, 64) == (5, "traced")
  assert tried == [64, 5]
  assert program_length.longest(trace, 1) == (1, None)


def test_checkpoints_bound_it():
  assert steps(config={"save_checkpoints_steps": 30}) == 30


def test_other_devices_are_asked_for_it():
  assert steps(Device("cpu")) == 1
  assert steps(Device("cpu"), steps_per_program=5) == 5


@pytest.mark.parametrize(
  "device, static_shapes, said",
  [
    (Device("cpu", is_multi_worker=True), True, "TF_CONFIG"),
    (Device("cpu", replicas=1), False, "static_shapes"),
  ],
)
def test_where_it_cannot_be_had(device, static_shapes, said):
  with pytest.raises(errors.SettingError, match=f"steps_per_program is 5.*{said}"):
    steps(device, static_shapes, steps_per_program=5)
