"""Canned estimators: variables, metrics and numbers of TensorFlow 2.15."""

import json
import pathlib
import shutil

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests import long
from tests.compat import canned_2_15, programs
from tests.compat.test_hooks import Recorder
from trainer.compat.v1 import estimator
from trainer.compat.v1.estimator import canned

VALUES = json.loads(pathlib.Path(__file__).with_name("canned_2_15.json").read_text())
KEPT = pathlib.Path(__file__).with_name("canned_checkpoints_2_15")
WITHOUT_CHANCE = ("linear", "linear of classes", "linear number", "linear by Adam")


# test_v2.py has the numbers of a LinearRegressor in the gate.
@pytest.mark.parametrize(
  "name", long.except_for(["linear"], [one for one in VALUES if one not in canned_2_15.KEPT])
)
def test_as_in_2_15(tmp_path, name):
  make, label = canned_2_15.estimators(tf, estimator, tmp_path, device="cpu")[name]
  names, result = canned_2_15.run(tf, make, label)
  wanted_names, wanted = VALUES[name]
  assert [name for name in names if name != "examples_seen"] == wanted_names
  assert set(result) == set(wanted)
  if name in WITHOUT_CHANCE:  # the others begin with random weights
    assert result == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", long.except_for(["both"], canned_2_15.KEPT))
def test_checkpoint_of_2_15_evaluates_and_trains_on_as_in_2_15(tmp_path, name):
  make, label = canned_2_15.estimators(tf, estimator, tmp_path, device="cpu")[name]
  folder, checkpoint = pathlib.Path(make().model_dir), f"model.ckpt-{canned_2_15.STEPS}"
  shutil.copytree(KEPT / canned_2_15.folder_of(name), folder, dirs_exist_ok=True)
  (folder / "checkpoint").write_text(f'model_checkpoint_path: "{checkpoint}"\n')
  wanted = json.loads((KEPT / "values.json").read_text())[name]
  for found, result in zip(canned_2_15.going_on(tf, make, label), wanted, strict=True):
    assert found == pytest.approx(result, rel=1e-5, abs=1e-6)
  before = dict(tf.train.list_variables(str(folder / checkpoint)))
  after = dict(tf.train.list_variables(str(folder)))
  assert {one: shape for one, shape in after.items() if one != "examples_seen"} == before


@pytest.mark.parametrize(
  "name",
  long.except_for(["an optimizer of the program's"], ["both", "an optimizer of the program's"]),
)
def test_one_core_and_two_train_alike(tmp_path, name):
  found = []
  for device in ("cpu", "cpu:2"):
    folder = tmp_path / device
    if name == "both":
      make, label = canned_2_15.estimators(tf, estimator, folder, device=device)[name]
    else:
      config = estimator.RunConfig(device=device, model_dir=str(folder))
      optimizer = tf.train.AdamOptimizer(0.1)
      wide, _ = canned_2_15.columns(tf)
      made = estimator.LinearRegressor(wide[:1], optimizer=optimizer, config=config)
      make, label = lambda made=made: made, "number"
    found.append(canned_2_15.run(tf, make, label))
  assert found[0][0] == found[1][0]  # the names of the variables
  assert found[0][1] == pytest.approx(found[1][1], rel=1e-4)


@pytest.mark.parametrize("kind", long.except_for(["DNN"], ["Linear", "DNN"]))
def test_estimators_with_heads_have_the_names_of_classifiers(tmp_path, kind):
  wide, deep = canned_2_15.columns(tf)
  head = estimator.BinaryClassHead(loss_reduction=tf.losses.Reduction.SUM)
  config = estimator.RunConfig(device="cpu", model_dir=str(tmp_path))
  made = (
    estimator.LinearEstimator(head, wide, config=config)
    if kind == "Linear"
    else estimator.DNNEstimator(head, [4], deep, config=config)
  )
  names, result = canned_2_15.run(tf, lambda: made, "binary")
  wanted_names, wanted = VALUES[{"Linear": "linear", "DNN": "dnn"}[kind]]
  assert [name for name in names if name != "examples_seen"] == wanted_names
  assert set(result) == set(wanted)


def test_hooks_and_summaries_know_the_names_of_2_15(tmp_path):
  """Values of 2.15 after its first step, of a model that begins with zeros."""
  wide, _ = canned_2_15.columns(tf)
  config = estimator.RunConfig(device="cpu", model_dir=str(tmp_path), save_summary_steps=1)
  hook = Recorder("linear/head/weighted_loss/Sum", "linear/head/truediv:0")
  estimator.LinearClassifier(wide, config=config).train(
    canned_2_15.input_fn(tf, "binary"), hooks=[hook], steps=1
  )
  assert hook.told[0][1:] == pytest.approx([11.09035, 0.693147])
  found = programs.scalars(tmp_path)
  wanted = {"average_loss": 0.693147, "linear/bias": 0.0, "linear/fraction_of_zero_weights": 1.0}
  assert {tag: found[tag] for tag in wanted} == pytest.approx(wanted)


def test_parsed_examples_with_sparse_features_are_served(tmp_path):
  """As make_parse_example_spec has each categorical column."""
  wide, _ = canned_2_15.columns(tf)
  config = estimator.RunConfig(device="cpu", model_dir=str(tmp_path / "model"))
  made = estimator.LinearClassifier(wide, config=config)
  made.train(canned_2_15.input_fn(tf, "binary"), steps=3)
  spec = tf.feature_column.make_parse_example_spec(wide)
  receiver_fn = estimator.export.build_parsing_serving_input_receiver_fn(spec)
  path = made.export_saved_model(str(tmp_path / "export"), receiver_fn).decode()
  served = tf.contrib.predictor.from_saved_model(path, signature_def_key="predict")

  def example(age, *city):
    features = tf.train.Features()
    features.feature["age"].float_list.value.append(age)
    features.feature["city"].bytes_list.value.extend(city)
    return tf.train.Example(features=features).SerializeToString()

  rows = [(0.7, b"a"), (-1.0, b"c"), (0.1,)]
  found = served({"examples": [example(*row) for row in rows]})["logistic"]
  asked = {"age": [row[0] for row in rows], "city": [*(row[1] for row in rows[:2]), b""]}
  wanted = made.predict(lambda: tf.data.Dataset.from_tensors(asked))
  assert found[:, 0] == pytest.approx([one["logistic"][0] for one in wanted])


@pytest.mark.parametrize(("optimizer", "bias"), [("Ftrl", 0.19993058), (None, 0.18251082)])
def test_a_named_optimizer_has_one_rate_for_any_columns(tmp_path, optimizer, bias):
  """Numbers of 2.15 after a step: 0.2, and 1/sqrt(30) for the one that nobody names."""
  columns = [tf.feature_column.numeric_column(f"x{index}") for index in range(30)]
  x = {column.key: np.linspace(0, 1, 4, dtype=np.float32) + i for i, column in enumerate(columns)}
  config = estimator.RunConfig(device="cpu", model_dir=str(tmp_path))
  made = estimator.LinearRegressor(columns, optimizer=optimizer, config=config)
  made.train(lambda: tf.data.Dataset.from_tensors((x, np.arange(4, dtype=np.float32))), steps=1)
  found = made.get_variable_value("linear/linear_model/bias_weights")
  assert found == pytest.approx([bias], rel=1e-6)


def test_a_wrapper_sets_a_model_fn_around_that_of_an_estimator(tmp_path):
  """As neural_structured_learning does, and tensorflow_model_analysis calls it."""
  feature = tf.feature_column.numeric_column("x")
  wrapped = estimator.LinearRegressor([feature], str(tmp_path), optimizer="SGD")
  inner, seen = wrapped._model_fn, []

  def input_fn():
    return tf.data.Dataset.from_tensors(({"x": [[1.0], [2.0]]}, [[1.0], [2.0]])).repeat()

  wrapped.train(input_fn, steps=1)

  def model_fn(features, labels, mode, config):
    made = inner(features, labels, mode, config)
    seen.append(mode)
    return made if mode == "infer" else made._replace(loss=made.loss + 100.0)

  wrapped._model_fn = model_fn
  wrapped.train(input_fn, steps=1)
  assert wrapped.evaluate(input_fn, steps=1)["loss"] >= 100
  assert {"train", "eval"} <= set(seen)
  with tf.Graph().as_default():
    features = {"x": tf.placeholder(tf.float32, [None, 1])}
    made = wrapped._call_model_fn(features, None, "infer", wrapped.config)
  assert set(made.predictions) == {"predictions"}


def test_heads_and_optimizers_that_wrappers_make():
  head = canned.head._regression_head(label_dimension=2)
  assert isinstance(head, canned.head._Head)
  assert isinstance(head, estimator.RegressionHead)
  assert (head.logits_dimension, head.loss_reduction) == (2, tf.losses.Reduction.SUM)
  two = canned.head._binary_logistic_head_with_sigmoid_cross_entropy_loss(thresholds=[0.5])
  many = canned.head._multi_class_head_with_softmax_cross_entropy_loss(4)
  assert [two.logits_dimension, many.logits_dimension] == [1, 4]
  get = canned.optimizers.get_optimizer_instance
  assert isinstance(get("Adagrad", 0.1), tf.train.AdagradOptimizer)
  made = tf.train.AdamOptimizer()
  assert get(lambda: made) is get(made) is made
  for wrong in (("Adagrad", None), ("Other", 0.1), (3, None)):
    with pytest.raises(ValueError, match="learning_rate must|Unsupported|not an Optimizer"):
      get(*wrong)
