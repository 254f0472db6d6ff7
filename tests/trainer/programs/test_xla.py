"""`--xla`: the training steps of one core, compiled by XLA, are those that the host calls."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests import long
from tests.conformance import cases
from tests.trainer import programs
from tests.trainer.programs import test_multi_step
from trainer import errors, testing

# A model of Keras is what test_the_same_training_reports_and_host_calls trains.
QUICK = [case for case in cases.CASES if case.name == "as_bert_trains"]


@pytest.mark.parametrize(
  "steps_per_program", long.except_for([None], [None, 1, 4]), ids=lambda steps: str(steps)
)
def test_the_same_training_reports_and_host_calls(tmp_path, steps_per_program):
  """Without dropout, since XLA draws other random numbers."""
  runs = []
  for name, steps, config in (
    ("host", None, {"cpu_kernels": False}),
    ("xla", steps_per_program, {"xla": True}),
  ):
    seen = []
    model_fn = test_multi_step.everything(seen, dropout=0.0)
    values = test_multi_step.train(tmp_path / name, seen, "cpu", steps, model_fn, **config)
    runs.append((values, seen))
  (first, by_host), (second, compiled) = runs
  testing.assert_same_values(first, second, tolerance=1e-5)
  assert float(np.abs(first["w"]).max()) > 0
  # host_calls of steps 5 and 10; loops to 7 and 11
  assert [one[0] for one in by_host] == [one[0] for one in compiled]
  assert len(compiled) == 4


@pytest.mark.parametrize(
  "case",
  long.except_for(QUICK, [case for case in cases.CASES if case.deterministic]),
  ids=lambda case: case.name,
)
def test_every_way_of_writing_a_model_fn(case, tmp_path):
  def values(**config):
    estimator = case.estimator(tmp_path / str(config), cpu_kernels=False, **config)
    return testing.values(estimator.train(case.train_input_fn, steps=10))

  testing.assert_same_values(values(), values(xla=True), tolerance=1e-4)


def test_the_program_is_xla_s(tmp_path):
  estimator = programs.estimator(tmp_path, xla=True)
  traced = estimator.trace("train", programs.train_input).traced.function
  assert traced.function_def.attr["_XlaMustCompile"].b
  assert not estimator._parts.program.store._uses_cpu_kernels


def test_an_operation_that_xla_does_not_have(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    text = tf.strings.as_string(spec.loss)
    spec.loss += tf.cast(tf.strings.length(text), tf.float32) * 0.0
    return spec

  with pytest.raises(errors.ModelFnError) as raised:
    programs.estimator(tmp_path, model_fn, xla=True).train(programs.train_input, max_steps=1)
  assert re.search(
    r"mode 'train' \(.*test_xla.py:\d+\): XLA has no AsString.*: take --xla away", str(raised.value)
  )
  assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
  "settings, said",
  [
    (
      {"device": "cpu:8"},
      "--xla compiles .* one core, and --device is cpu, 8 replicas: take --xla",
    ),
    ({"static_shapes": False}, "--xla needs batches of one shape"),
    ({"xla": 1}, r"RunConfig.xla is 1; expected True or False \(--xla\)"),
  ],
)
def test_where_it_cannot_be(tmp_path, settings, said):
  with pytest.raises(errors.SettingError, match=said):
    programs.estimator(tmp_path / "model", **{"xla": True} | settings)
  assert not (tmp_path / "model").exists()
