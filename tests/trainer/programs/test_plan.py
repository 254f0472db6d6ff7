"""Which programs there are, and how many steps are one."""

import dataclasses
import functools
from typing import Any

import pytest
import tensorflow as tf

import trainer
from trainer.programs import core_results, plan, traced_program
from trainer.settings.kinds import Kind

SPEC = (tf.TensorSpec([16, 256]),)  # 16 KiB


@dataclasses.dataclass
class Device:
  """What is asked of a device."""

  kind: str = "tpu"
  replicas: int = 8
  is_multi_worker: bool = False

  @property
  def local_replicas(self):
    return self.replicas

  @property
  def runs_by_pjrt(self):
    return self.kind in ("tpu", "xla")

  def uses_xla(self, setting, static_shapes):
    return setting


TPU: Any = Device()


def steps(device=TPU, static_shapes=True, config=None, **tpu):
  run_config = trainer.RunConfig(
    tpu_config=trainer.TPUConfig(**tpu), static_shapes=static_shapes, **(config or {})
  )
  return planned(run_config, device).plan(Kind.TRAIN, SPEC).length


def planned(config, device):
  return plan.Planner(config, plan.target_of(device, config))


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
  assert planned(config, TPU).plan(Kind.EVAL, SPEC, there).length == expected


def test_program_with_too_large_results_is_traced_again():
  tried = []

  def trace(most, given):
    tried.append((given.length, given.is_stacked))
    if given.is_stacked and given.length > most:
      raise core_results.TooLarge(most)
    return "traced"

  longest = plan.Plan(Kind.EVAL, SPEC, 1, 64, is_stacked=True)
  for most in (5, 1, 0):
    found = traced_program.trace_longest(longest, functools.partial(trace, most))
    assert found == "traced"
  assert tried == [(64, True), (5, True), (64, True), (1, False), (64, True), (1, False)]


def test_checkpoints_bound_it():
  assert steps(config={"save_checkpoints_steps": 30}) == 30


@pytest.mark.parametrize(
  "device", [Device("cpu"), Device("gpu"), Device("cpu", is_multi_worker=True)]
)
def test_other_devices_have_steps_that_the_host_calls(device):
  assert steps(device, steps_per_program=5) == 1
  assert steps(Device("cpu", replicas=1), False, steps_per_program=5) == 1


def test_hosts_of_xla_devices_have_it():
  assert steps(Device("xla", is_multi_worker=True), steps_per_program=5) == 5


def test_what_takes_a_stack():
  """XLA compiles one step as it compiles several."""
  for device, config, stacked in (
    (TPU, {}, [True, True, True]),
    (Device("cpu", replicas=1), {"xla": True}, [True, False, False]),
    (Device("cpu"), {}, [False, False, False]),
  ):
    one = trainer.RunConfig(tpu_config=trainer.TPUConfig(steps_per_program=1), **config)
    found = [planned(one, device).plan(kind, SPEC) for kind in Kind]
    assert [each.is_stacked for each in found] == stacked
    assert {each.length for each in found} == {1}


def test_what_a_program_takes():
  (core,) = SPEC
  stacked = plan.Plan(Kind.TRAIN, SPEC, 2, 5, is_stacked=True)
  elements, first, count = stacked.arguments
  assert elements == ((tf.TensorSpec([5, *core.shape]),),) * 2
  assert first == count == tf.TensorSpec([], tf.int32)
  assert plan.Plan(Kind.TRAIN, SPEC, 2).arguments == ((SPEC, SPEC),)
