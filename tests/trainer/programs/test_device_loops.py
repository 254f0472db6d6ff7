"""Traces of device loops: each once for its input, its kind and its name."""

import types

import pytest
import tensorflow as tf

from trainer import run_config
from trainer.programs import device_loops, eval_loop, predict_loop, train_loop
from trainer.settings.kinds import Kind


@pytest.fixture
def loops(monkeypatch):
  """Device loops whose traces are numbered objects."""
  monkeypatch.setattr(train_loop.TrainLoop, "trace", lambda *_: types.SimpleNamespace())
  monkeypatch.setattr(eval_loop, "TracedEvaluation", lambda *given: types.SimpleNamespace(of=given))
  monkeypatch.setattr(predict_loop, "trace", lambda *_: types.SimpleNamespace())
  device = types.SimpleNamespace(kind="cpu", replicas=1)
  program = types.SimpleNamespace(store=types.SimpleNamespace(on_xla=None))
  return device_loops.DeviceLoops(program, run_config.RunConfig(), device)


def spec(size=3):
  return {"x": tf.TensorSpec([4, size], tf.float32)}, tf.TensorSpec([4], tf.int32)


def test_a_kind_of_input_is_traced_once(loops):
  assert loops.trace_training(spec(), True) is loops.trace_training(spec(), True)
  evaluation = loops.trace_groups(Kind.EVAL, spec(), name="test")
  assert loops.trace_groups(Kind.EVAL, spec(), 7, "test") is evaluation


def test_another_input_kind_or_name_is_another_trace(loops):
  found = [
    loops.trace_training(spec(), True),
    loops.trace_training(spec(), False),
    loops.trace_training(spec(5), True),
    loops.trace_groups(Kind.EVAL, spec()),
    loops.trace_groups(Kind.EVAL, spec(), name="test"),
    loops.trace_groups(Kind.PREDICT, spec()),
  ]
  assert len({id(each) for each in found}) == 6


def test_evaluations_of_a_name_share_its_metrics(loops):
  *_, metrics = loops.trace_groups(Kind.EVAL, spec()).of
  assert loops.trace_groups(Kind.EVAL, spec(5)).of[-1] is metrics
  assert loops.trace_groups(Kind.EVAL, spec(), name="test").of[-1] is not metrics


def test_loops_without_traces_keep_the_program_alone(loops):
  first = loops.trace_training(spec(), True)
  other = loops.without_traces()
  assert other.program is loops.program
  assert other.trace_training(spec(), True) is not first
  assert loops.trace_training(spec(), True) is first
