"""Single steps that write nothing: their sentences, and inputs without a batch."""

import types

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.estimator import dry_run
from trainer.evaluation import batches
from trainer.settings.kinds import Kind


class Inputs:
  """Gives a traced input; notes what it was asked for."""

  def __init__(self, run):
    self.asked = []
    self.traced = types.SimpleNamespace(run=run, failed_in_input=lambda: None)

  def call_and_trace(self, kind, source, start=0):
    self.asked.append((kind, source, start))
    return types.SimpleNamespace(traced=self.traced, iterator=iter(()), input_fn=source)


class Values:
  def __init__(self):
    self.invalidated = 0

  def invalidate(self):
    self.invalidated += 1


def input_fn(params):
  raise AssertionError("called")


def step(kind, run, values=None):
  inputs = Inputs(run)
  text = dry_run.try_step(kind, input_fn, inputs, values or Values(), "my_model", start=3)
  assert inputs.asked == [(kind, input_fn, 3)]
  head, _, what = text.partition(" s: ")
  assert head.startswith(f"one {kind} step in ")
  return what


def test_a_training_step_tells_its_loss_and_changes_variables():
  values = Values()
  result = {"loss": tf.constant(0.25), "steps": tf.constant(1)}
  assert step(Kind.TRAIN, lambda iterator, steps: result, values) == "loss 0.25"
  assert values.invalidated == 1


def test_an_evaluation_tells_its_numbers(monkeypatch):
  found = batches.Result({"loss": 0.5, "accuracy": float("nan"), "confusion": np.eye(2)}, 4)
  monkeypatch.setattr(batches, "evaluate", lambda *_, steps: found)
  values = Values()
  assert step(Kind.EVAL, None, values) == "loss 0.5, accuracy nan"
  assert values.invalidated == 0


def test_a_prediction_tells_shapes():
  group = {"class": np.int32([1, 2]), "p": np.float32([[0.1, 0.9]] * 2)}, None
  what = step(Kind.PREDICT, lambda iterator: iter([group]))
  assert what == 'predictions["class"] int32[2], predictions["p"] float32[2, 2]'


@pytest.mark.parametrize("kind", [Kind.TRAIN, Kind.EVAL, Kind.PREDICT])
def test_an_input_without_a_batch_is_an_error(kind, monkeypatch):
  monkeypatch.setattr(batches, "evaluate", lambda *_, steps: batches.Result({}, 0))
  runs = {
    Kind.TRAIN: lambda iterator, steps: {"loss": tf.constant(0.0), "steps": tf.constant(0)},
    Kind.EVAL: None,
    Kind.PREDICT: lambda iterator: iter(()),
  }
  with pytest.raises(errors.InputError, match=f"The {kind} input_fn input_fn gave no batch"):
    step(kind, runs[kind])


def test_an_error_of_a_step_names_the_model():
  def fail(iterator, steps):
    raise tf.errors.InvalidArgumentError(None, None, "Incompatible shapes")

  with pytest.raises(errors.ModelFnError, match="my_model.*Incompatible shapes"):
    step(Kind.TRAIN, fail)


class Loops:
  """Device loops whose traces are those of one training."""

  def __init__(self, events):
    calls = types.SimpleNamespace(
      model_name="my_model", call_scaffold_fn=lambda kind: events.append("scaffold")
    )
    self.program = types.SimpleNamespace(calls=calls)
    self.events = events

  def without_traces(self):
    self.events.append("without traces")
    return self


def test_a_training_begins_with_new_values_and_keeps_no_trace(monkeypatch):
  events, results = [], []
  inputs = Inputs(None)
  inputs.loops = Loops(events)
  monkeypatch.setattr(dry_run.dataclasses, "replace", lambda inputs, loops: inputs)
  values = types.SimpleNamespace(
    load=lambda source: events.append(source), invalidate=lambda: events.append("invalidate")
  )

  def run(iterator, steps):
    events.append(steps)
    numbers = {"loss": 1.0, "steps": steps, "input_seconds": 0.0, "non_finite_step": -1}
    return {"scalars": {}, **{name: tf.constant(value) for name, value in numbers.items()}}

  inputs.traced.run = run
  dry_run.try_training(
    input_fn, 5, lambda step, final: 2, lambda result: results.append(result.step), inputs, values
  )
  assert events == ["without traces", "scaffold", "warm start", "invalidate", 2, 2, 2]
  assert results[-1] >= 5
