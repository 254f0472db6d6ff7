"""How many steps are one program."""

import dataclasses
from typing import Any

import pytest
import tensorflow as tf

import trainer
from trainer import errors
from trainer.loop import program_length

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
