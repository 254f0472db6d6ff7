"""init_from_checkpoint says how variables begin a training; it is asked at no other time."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import initial_checkpoints, reader

v1 = tf.compat.v1

VALUES = {
  "bert/w": np.float32([5, 1, 2]),
  "bert/b": np.float32(-2),
  "other/w": np.float32([7, 7, 7]),
}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
  return programs.v1_checkpoint(tmp_path_factory.mktemp("pretrained"), VALUES)


def variables(
  names=("bert/w", "bert/b", "head/w", "bert/w/Momentum"), trainable=("bert/w", "bert/b", "head/w")
):
  return {
    name: tf.Variable(tf.zeros([] if name.endswith("b") else [3]), name in trainable, name=name)
    for name in names
  }


def taken(path, assignment_map, model=None):
  """dict of name → value, of those variables that were given one."""
  model = model or variables()
  names = initial_checkpoints.apply(
    [initial_checkpoints.CheckpointInitializer.of(path, assignment_map, model)], model
  )
  untouched = [name for name in model if name not in names]
  assert not any(model[name].numpy().any() for name in untouched)
  return {name: model[name].numpy().tolist() for name in sorted(names)}


BERT = {"bert/b": -2, "bert/w": [5, 1, 2]}


@pytest.mark.parametrize(
  ("assignment_map", "expected"),
  [
    (lambda v: {"bert/w": "bert/w"}, {"bert/w": [5, 1, 2]}),
    (
      lambda v: {"other/w": v["bert/w"], "bert/b": [v["bert/b"]]},
      {"bert/b": -2, "bert/w": [7, 7, 7]},
    ),
    (lambda v: [("bert/w", "head/w"), ("bert/b", "bert/b")], {"bert/b": -2, "head/w": [5, 1, 2]}),
    (lambda v: {"bert/": "bert/"}, BERT),
    (lambda v: {"other/": "head/"}, {"head/w": [7, 7, 7]}),
    (lambda v: {"bert/": "bert/", "other/w": "bert/w"}, {"bert/b": -2, "bert/w": [7, 7, 7]}),
  ],
  ids=["name", "variables", "pairs", "scope", "other scope", "both"],
)
def test_all_forms_of_the_map(assignment_map, expected, pretrained):
  model = variables()
  assert taken(pretrained, assignment_map(model), model) == expected


def test_the_root_is_a_scope_too(pretrained):
  model = variables(("encoder/bert/w", "encoder/bert/b"), ("encoder/bert/w", "encoder/bert/b"))
  assert list(taken(pretrained, {"/": "encoder/"}, model)) == ["encoder/bert/b", "encoder/bert/w"]
  assert list(taken(pretrained, {"bert/": "/"}, variables(("w", "b"), ("w", "b")))) == ["b", "w"]


def test_an_object_based_checkpoint_by_its_keys_as_by_its_names(tmp_path):
  module = tf.Module()
  module.kernel = tf.Variable([5.0, 1, 2], name="w")
  path = tf.train.Checkpoint(model=module).write(str(tmp_path / "pretrained"))
  for there in ("model/kernel/.ATTRIBUTES/VARIABLE_VALUE", "w"):
    assert taken(path, {there: "bert/w"}) == {"bert/w": [5, 1, 2]}


def test_a_folder_means_its_newest(pretrained):
  assert taken(pretrained.rpartition("/")[0], {"bert/b": "bert/b"}) == {"bert/b": -2}


@pytest.mark.parametrize(
  ("assignment_map", "error", "message"),
  [
    (
      {"bert/w": "brt/w"},
      errors.CheckpointError,
      "the model has no variable 'brt/w' There are: bert/w",
    ),
    ({"brt/w": "bert/w"}, errors.CheckpointError, "has no brt/w for bert/w. There are: bert/w"),
    ({"head/": "bert/"}, errors.CheckpointError, "has no head/w for bert/w"),
    ({"bert/": "no/"}, errors.CheckpointError, "no variable of the model is in the scope 'no/'"),
    (
      {"bert/b": "bert/w"},
      errors.CheckpointError,
      r"bert/b in .* is float32\[\], and the variable "
      r"bert/w is float32\[3\]",
    ),
    ({"bert/w": tf.Variable(1.0)}, errors.ModelFnError, "the assignment_map has <tf.Variable"),
    ({"bert/w": ["a", "b"]}, errors.ModelFnError, r"the assignment_map has \['a', 'b'\]"),
  ],
)
def test_what_is_not_there_is_named(assignment_map, error, message, pretrained):
  model = variables()
  with pytest.raises(error, match=message):
    taken(pretrained, assignment_map, model)
  assert not any(variable.numpy().any() for variable in model.values())


def test_a_checkpoint_that_is_not_there(tmp_path):
  for path in (tmp_path / "nowhere", tmp_path):
    message = f"init_from_checkpoint: There are no weights at {path}:"
    with pytest.raises(errors.CheckpointNotFoundError, match=message):
      taken(str(path), {"a": "bert/w"})


# ---------------------------------------------------------------- in a model_fn


def bert(path, assignment_map):
  """A line of two variables of `get_variable` and a layer, with init_from_checkpoint in its
  middle.
  """

  def model_fn(features, labels, mode, params):
    with v1.variable_scope("bert"):
      w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
      b = v1.get_variable("b", [], initializer=v1.ones_initializer())
    v1.train.init_from_checkpoint(path, assignment_map(w, b))
    y = tf.linalg.matvec(features["x"], w) + b
    y += 0 * keras.layers.Dense(1, name="head")(features["x"])[:, 0]
    loss = tf.reduce_mean(tf.square(y - (0.0 if labels is None else labels)))
    train_op = v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, v1.train.get_global_step())
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op, predictions=y)

  return model_fn


@pytest.mark.parametrize(
  "assignment_map",
  [
    lambda w, b: {"bert/": "bert/"},
    lambda w, b: {"bert/w": w, "bert/b": "bert/b"},
    lambda w, b: {v.op.name: v for v in v1.global_variables()},
  ],
  ids=["scope", "both kinds", "by the names of operations"],
)
@pytest.mark.long_on_several_cores
def test_a_training_begins_with_it_and_goes_on(assignment_map, pretrained, device, tmp_path):
  """Not so that each step would begin there again."""
  estimator = programs.estimator(tmp_path, bert(pretrained, assignment_map), device)
  estimator.train(programs.train_input, max_steps=3)
  first, last = (
    reader.read(estimator.checkpoint_path(step), ["bert/w", "bert/b"]) for step in (0, 3)
  )
  for name in ("bert/w", "bert/b"):
    np.testing.assert_array_equal(first[name], VALUES[name])
    assert np.all(np.abs(last[name] - first[name]) > 0.01)
  x, y = programs.arrays(16)
  expected = np.mean((x @ last["bert/w"] + last["bert/b"] - y) ** 2)
  assert estimator.evaluate(programs.examples(16))["loss"] == pytest.approx(expected, rel=1e-5)


def test_it_is_asked_for_when_a_training_begins_and_not_after(pretrained, tmp_path):
  programs.estimator(tmp_path, bert(pretrained, lambda w, b: {"bert/": "bert/"})).train(
    programs.train_input, max_steps=1
  )
  gone = programs.estimator(tmp_path, bert("/gone", lambda w, b: {"bert/": "bert/"}))
  gone.train(programs.train_input, max_steps=2)
  assert gone.evaluate(programs.examples(8))["global_step"] == 2
  assert len(list(gone.predict(programs.examples(8)))) == 8
  gone.export_saved_model(tmp_path / "export")


def test_it_is_an_error_before_anything_is_written(pretrained, tmp_path):
  estimator = programs.estimator(
    tmp_path / "model", bert(pretrained, lambda w, b: {"bert/w": "no"})
  )
  with pytest.raises(errors.CheckpointError, match="the model has no variable 'no'"):
    estimator.train(programs.train_input, max_steps=1)
  assert not (tmp_path / "model").exists()


def test_outside_of_a_model_fn_it_is_tensorflows_own(pretrained):
  with tf.Graph().as_default(), v1.Session() as session:
    w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
    v1.train.init_from_checkpoint(pretrained, {"bert/w": w})
    session.run(v1.global_variables_initializer())
    assert session.run(w).tolist() == [5, 1, 2]
