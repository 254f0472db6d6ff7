"""What a model_fn may be and may return; each mistake is one sentence about it."""

import functools

import gin
import keras
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors, spec

ModeKeys = trainer.ModeKeys


# ---------------------------------------------------------------- EstimatorSpec


@pytest.mark.parametrize(
  "mode, given, missing",
  [
    ("train", {}, "loss and train_op"),
    ("train", {"loss": 1.0}, "train_op"),
    ("train", {"train_op": 1}, "loss"),
    ("eval", {"predictions": 1}, "loss"),
    ("infer", {"loss": 1.0, "train_op": 1}, "predictions"),
  ],
)
def test_a_mode_needs_what_it_needs(mode, given, missing):
  with pytest.raises(errors.SpecError, match=f"mode '{mode}' needs {missing}\\.") as raised:
    trainer.EstimatorSpec(mode, **given)
  assert isinstance(raised.value, TypeError)


def test_a_mode_is_one_of_three():
  with pytest.raises(
    errors.SettingError,
    match=r"mode is 'predict'; expected one of 'train', "
    r"'eval', 'infer'",
  ):
    trainer.EstimatorSpec("predict", predictions=1)


@pytest.mark.parametrize("name", ["eval_metrics", "host_call"])
@pytest.mark.parametrize(
  "pair, message",
  [
    (lambda a: a, "must be a pair"),
    ((1, [2]), "must be a pair"),
    ((lambda a: a, [1], 2), "must be a pair"),
    ((lambda a: a, 1), "must be a list or a dict; got int"),
    ((lambda a, b: a, [1]), "gives 1 tensors to .*missing a required argument: 'b'"),
    ((lambda a: a, [1, 2]), "gives 2 tensors to .*too many positional"),
    ((lambda a, b: a, {"a": 1, "c": 2}), r"gives keywords \['a', 'c'\] to .*'b'"),
    ((lambda a: a, {"a": 1, "c": 2}), "unexpected keyword argument 'c'"),
  ],
)
def test_host_functions_fit_their_tensors_at_construction(name, pair, message):
  with pytest.raises(errors.SettingError, match=f"{name}.*{message}"):
    trainer.EstimatorSpec("eval", loss=1.0, **{name: pair})


@pytest.mark.parametrize(
  "pair",
  [(lambda a, b=1: a, [1]), (lambda *a: a, [1, 2]), (lambda **a: a, {"x": 1}), (lambda: {}, [])],
)
def test_host_functions_may_have_defaults_and_take_any(pair):
  trainer.EstimatorSpec("eval", loss=1.0, eval_metrics=pair)


@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_metrics_do_not_take_reserved_names(name):
  with pytest.raises(
    errors.SettingError, match=f"Octet itself reports .*; rename the metric '{name}'"
  ):
    spec.check_metrics({"accuracy": 1, name: 2})


def test_metrics_come_in_a_dict():
  with pytest.raises(errors.SpecError, match="must return a dict .* it returned list"):
    spec.check_metrics([1])


@pytest.mark.parametrize("outputs", [{"a": 1, "b": 2}, {}, [1], 3])
def test_export_outputs_have_a_default(outputs):
  for mode in (ModeKeys.TRAIN, ModeKeys.EVAL):  # which serve nothing
    trainer.EstimatorSpec(mode, loss=1.0, train_op=2.0, export_outputs=outputs)
  with pytest.raises(errors.SettingError, match="export_outputs") as raised:
    trainer.EstimatorSpec(ModeKeys.PREDICT, predictions=0, export_outputs=outputs)
  assert isinstance(raised.value, ValueError)
  if isinstance(outputs, dict) and outputs:
    assert "has 'a', 'b', and no default: name one 'serving_default'" in str(raised.value)


@pytest.mark.parametrize(
  ("outputs", "served"),
  [
    (None, {"serving_default": 0}),
    ({"a": 1}, {"a": 1, "serving_default": 1}),
    ({"serving_default": 1}, {"serving_default": 1}),
    ({"a": 1, "serving_default": 2}, {"a": 1, "serving_default": 2}),
  ],
)
def test_what_is_served(outputs, served):
  spec_ = trainer.EstimatorSpec(ModeKeys.PREDICT, predictions=0, export_outputs=outputs)
  assert spec_.served_outputs() == served
  assert spec_.export_outputs is outputs  # what the program gave is as it was


# -------------------------------------------------------------------- model_fn


class Model:
  """Has a model_fn as a method, and is one."""

  def model_fn(self, features, labels, mode, params):
    return programs.line(features, labels, mode, params)

  __call__ = model_fn


@pytest.mark.parametrize(
  "model_fn, name",
  [
    pytest.param(
      lambda features, labels, mode, params: programs.line(features, labels, mode, params),
      "<lambda>",
      marks=pytest.mark.long,  # most tests have a function
    ),
    (
      functools.partial(
        lambda features, labels, mode, params, rate: programs.line(features, labels, mode, params),
        rate=0.1,
      ),
      "<lambda>",
    ),
    pytest.param(Model().model_fn, "Model.model_fn", marks=pytest.mark.long),
    (Model(), "Model"),
  ],
  ids=["lambda", "partial", "bound method", "callable object"],
)
def test_any_callable_is_a_model_fn(model_fn, name, tmp_path):
  assert name in spec.ModelFn(model_fn).name
  estimator = programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)
  assert estimator.evaluate(programs.examples(8))["global_step"] == 1


def test_a_model_fn_takes_the_arguments_that_it_names():
  given = {}

  def model_fn(mode, features, config, rate=0.1):
    given.update(mode=mode, features=features, config=config, rate=rate)
    return trainer.EstimatorSpec(mode, predictions=features)

  spec.ModelFn(model_fn)("x", None, ModeKeys.PREDICT, {}, "the config")
  assert given == dict(mode="infer", features="x", config="the config", rate=0.1)


def test_a_model_fn_that_takes_any_keyword_gets_them_all():
  given = {}

  def model_fn(features, **others):
    given.update(others)
    return trainer.EstimatorSpec(others["mode"], predictions=features)

  spec.ModelFn(model_fn)("x", "y", ModeKeys.PREDICT, {"a": 1}, None)
  assert (given["labels"], given["params"]) == ("y", {"a": 1})


@gin.configurable(module="test_spec")
def bound_model_fn(features, labels, mode, params, rate):
  return trainer.EstimatorSpec(mode, predictions=features * rate)


def test_gin_may_give_an_argument_without_default():
  model_fn = spec.ModelFn(bound_model_fn)
  try:
    with pytest.raises(errors.SettingError, match="argument 'rate' without a value.*from gin"):
      model_fn(2, None, ModeKeys.PREDICT, {}, None)
    gin.parse_config("test_spec.bound_model_fn.rate = 3")
    assert model_fn(2, None, ModeKeys.PREDICT, {}, None).predictions == 6
  finally:
    gin.clear_config()


def _unknown(features, labels, mode, data):
  pass


def _no_features(labels, mode):
  pass


@pytest.mark.parametrize(
  "model_fn, message",
  [
    (
      _unknown,
      "model_fn _unknown has the argument 'data' without a value: expected features, "
      "labels, mode, params, config",
    ),
    (_no_features, "model_fn _no_features must take the argument 'features'"),
    (None, "model_fn must be callable; got None.*run.model_fn = @"),
    ("my_model", "model_fn must be callable; got 'my_model'"),
  ],
)
def test_what_is_no_model_fn_is_said_in_the_constructor(model_fn, message, tmp_path):
  with pytest.raises(errors.SettingError, match=message) as raised:
    programs.estimator(tmp_path, model_fn)
  assert isinstance(raised.value, ValueError)


def test_params_that_nobody_takes(tmp_path):
  def model_fn(features, labels, mode):
    return programs.line(features, labels, mode, {})

  with pytest.raises(
    errors.SettingError,
    match=r"model_fn .*model_fn does not take 'params', and "
    r"the caller gives params \['rate'\]",
  ):
    programs.estimator(tmp_path, model_fn, params={"rate": 0.1})
  programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)


def test_labels_that_nobody_takes(tmp_path):
  def model_fn(features, mode):
    return programs.line(features, None, mode, {})

  with pytest.raises(
    errors.SettingError, match="model_fn .*does not take 'labels', and the input_fn gives labels"
  ):
    programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)


@pytest.mark.parametrize(
  "returned, message",
  [
    (None, r"returned None \(missing return statement\?\)"),
    ({"loss": 1}, "must return a trainer.EstimatorSpec in mode 'train'; it returned dict"),
    (
      trainer.EstimatorSpec("eval", loss=1.0),
      "returned an EstimatorSpec of mode 'eval' in mode 'train'",
    ),
  ],
)
def test_what_a_model_fn_returns_is_checked(returned, message, tmp_path):
  def model_fn(features, labels, mode, params):
    return returned

  with pytest.raises(errors.SpecError, match=message) as raised:
    programs.estimator(tmp_path / "model", model_fn).train(programs.train_input, steps=1)
  assert isinstance(raised.value, TypeError)
  assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("key", ["batch_size", "context"])
def test_reserved_params(key, tmp_path):
  with pytest.raises(errors.SettingError, match=f"params has the reserved key '{key}'"):
    programs.estimator(tmp_path, params={key: 1})


def test_use_tpu_is_injected_and_config_is_the_run_config(tmp_path):
  seen = []

  def model_fn(features, labels, mode, params, config):
    seen.append((params["use_tpu"], params["rate"], config))
    return programs.line(features, labels, mode, params)

  estimator = programs.estimator(tmp_path, model_fn, params={"rate": 0.1})
  estimator.train(programs.train_input, steps=1)
  assert seen[0][:2] == (False, 0.1)
  assert seen[0][2] is estimator.config


def test_params_that_a_model_fn_changes_are_its_own(tmp_path):
  given = {"rate": 0.1}

  def model_fn(features, labels, mode, params):
    assert params.pop("rate") == 0.1
    return programs.line(features, labels, mode, params)

  estimator = programs.estimator(tmp_path, model_fn, params=given).train(
    programs.train_input, steps=1
  )
  estimator.evaluate(programs.examples(8))
  assert given == {"rate": 0.1}


# ------------------------------------------------- structures of the input


def _sum_of(features):
  return tf.add_n([tf.reduce_sum(leaf, 1) for leaf in tf.nest.flatten(features)])


def unsupervised(features, labels, mode, params):
  """Trains one number on any features, without labels."""
  assert labels is None
  scale = tf.Variable(1.0, name="scale")
  predictions = _sum_of(features) * scale
  if mode == ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)
  loss = tf.reduce_mean(tf.square(predictions))
  if mode == ModeKeys.EVAL:
    return trainer.EstimatorSpec(mode, loss=loss)
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.001), loss)
  )


STRUCTURES = {
  "tensor": lambda x: x,
  "dict": lambda x: {"b": x, "a": 2 * x},
  "nested dict": lambda x: {"z": {"b": x}, "a": x},
  "dict of a tuple": lambda x: {"pair": (x, 2 * x)},
}


@pytest.mark.parametrize(
  "name, on",
  long.except_for(
    [("tensor", "cpu"), ("dict of a tuple", "cpu"), ("nested dict", "cpu:2")],
    [*((name, "cpu") for name in STRUCTURES), ("nested dict", "cpu:2")],
  ),
)
def test_features_without_labels_in_any_structure(name, on, tmp_path):
  x, _ = programs.arrays(24)
  structure = STRUCTURES[name]

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(structure(x)).batch(
      params["batch_size"], drop_remainder=True
    )

  estimator = programs.estimator(tmp_path, unsupervised, on).train(input_fn, steps=2)
  estimator.evaluate(input_fn)
  scale = estimator.variables["scale"].numpy()
  expected = sum(leaf.sum(1) for leaf in tf.nest.flatten(structure(x))) * scale
  assert list(estimator.predict(input_fn)) == pytest.approx(list(expected), abs=1e-4)


def test_features_that_are_a_tuple_beside_labels_that_are_a_dict(tmp_path):
  x, y = programs.arrays(16)

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(((x, 2 * x), {"y": y})).batch(
      params["batch_size"], drop_remainder=True
    )

  def model_fn(features, labels, mode, params):
    first, second = features
    return programs.line(second - first, labels and labels["y"], mode, params)

  estimator = programs.estimator(tmp_path, model_fn).train(input_fn, steps=1)
  assert estimator.evaluate(input_fn)["global_step"] == 1
  assert len(list(estimator.predict(input_fn))) == 16


def test_labels_that_are_none_in_the_dataset(tmp_path):
  def input_fn(params):
    return programs.train_input(params).map(lambda features, labels: (features["x"], None))

  estimator = programs.estimator(tmp_path, unsupervised).train(input_fn, steps=1)
  assert estimator.latest_step() == 1


def test_name_of_is_short():
  assert spec.name_of(functools.partial(programs.line)) == "line"
  assert spec.name_of(Model()) == "Model"
