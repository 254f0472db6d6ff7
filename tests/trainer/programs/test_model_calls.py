"""Calls of a model_fn: its params, the contexts around it, and the checks of its result."""

import contextlib

import pytest
import tensorflow as tf

import trainer
from trainer import errors, run_config, spec
from trainer.programs import model_calls
from trainer.settings.kinds import Kind
from trainer.tracing import variable_store

STEP = tf.constant(0, tf.int64)


def calls_of(model_fn, params=None, batch_sizes=None):
  return model_calls.ModelCalls(
    spec.ModelFn(model_fn),
    params or {},
    batch_sizes or {},
    run_config.RunConfig(),
    variable_store.VariableStore(tf.distribute.get_strategy()),
  )


def call(calls, kind=Kind.PREDICT, element=None):
  """Traces a call on a replica; returns its EstimatorSpec."""
  found = []

  def fn():
    found.append(calls.call_model_fn(kind, element or ({"x": tf.zeros([4, 3])},)))

  tf.function(lambda: calls.store.run(fn, (), STEP), autograph=False).get_concrete_function()
  return found[0]


def predicting(predictions):
  """A model_fn with these predictions of its feature."""

  def model_fn(features, mode):
    return trainer.EstimatorSpec(mode, predictions=predictions(features["x"]))

  return model_fn


def test_each_call_has_its_own_params_with_the_batch_size():
  seen = []

  def model_fn(features, labels, mode, params):
    seen.append(dict(params, sizes=list(params["sizes"])))
    params["sizes"].append(9)
    params["new"] = 1
    return trainer.EstimatorSpec(mode, predictions=features["x"])

  given = {"sizes": [1], "rate": 0.5}
  calls = calls_of(model_fn, given, {Kind.PREDICT: 4})
  call(calls)
  call(calls)
  assert seen == [{"sizes": [1], "rate": 0.5, "batch_size": 4}] * 2
  assert given == {"sizes": [1], "rate": 0.5}
  assert calls.traces[Kind.PREDICT] == 2


def test_an_export_has_no_batch_size():
  seen = []

  def model_fn(features, labels, mode, params):
    seen.append(dict(params))
    return trainer.EstimatorSpec(mode, predictions=features["x"])

  call(calls_of(model_fn, {"rate": 0.5}, {Kind.TRAIN: 4}))
  assert seen == [{"rate": 0.5}]


@pytest.mark.parametrize(
  ("predictions", "message"),
  [
    (lambda x: tf.reduce_sum(x), r"predictions has shape \(\): its first axis must be the batch"),
    (lambda x: {"a": x, "b": x[:2]}, r'predictions\["b"\] has shape \(2, 3\).* of 4 examples'),
    (lambda x: {"a": tf.transpose(x)}, r'predictions\["a"\] has shape \(3, 4\)'),
  ],
)
def test_a_prediction_without_the_batch_is_named(predictions, message):
  with pytest.raises(errors.SpecError, match=message):
    call(calls_of(predicting(predictions)))


def test_an_unknown_size_may_be_the_batch():
  def unknown(x):
    return tf.boolean_mask(x, x[:, 0] >= 0)

  assert call(calls_of(predicting(unknown))).predictions.shape.as_list() == [None, 3]


@pytest.mark.parametrize(
  ("loss", "message"),
  [
    (lambda x: 0.5, "the loss is 0.5: expected a scalar tensor"),
    (lambda x: tf.reduce_sum(x, 1), r"the loss has shape \(4,\): expected a scalar"),
  ],
)
def test_a_loss_is_a_scalar_tensor(loss, message):
  def model_fn(features, labels, mode):
    return trainer.EstimatorSpec(mode, loss=loss(features["x"]))

  with pytest.raises(errors.SpecError, match=message):
    call(calls_of(model_fn), Kind.EVAL, ({"x": tf.zeros([4, 3])}, tf.zeros([4])))


def test_contexts_are_around_the_call_and_may_be_nested():
  events = []

  def model_fn(features, mode):
    events.append("model")
    return trainer.EstimatorSpec(mode, predictions=features["x"])

  @contextlib.contextmanager
  def around(name):
    events.append(name)
    yield
    events.append(f"after {name}")

  calls = calls_of(model_fn)
  with calls.wrapped(lambda: around("outer")):
    with calls.wrapped(lambda: around("inner")):
      call(calls)
    call(calls)
  call(calls)
  assert events == [*("inner", "model", "after inner"), *("outer", "model", "after outer"), "model"]


def test_a_failing_model_fn_is_told_with_its_input():
  def model_fn(features, mode):
    return features["y"]

  with pytest.raises(errors.ModelFnError, match="model_fn") as raised:
    call(calls_of(model_fn))
  assert isinstance(raised.value.__cause__, KeyError)


def test_without_a_scaffold_there_are_no_names():
  calls = calls_of(predicting(lambda x: x))
  assert calls.call_scaffold_fn(Kind.PREDICT) is None
  call(calls)
  assert calls.call_scaffold_fn(Kind.PREDICT) is None
