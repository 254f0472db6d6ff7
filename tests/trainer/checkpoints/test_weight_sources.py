"""Weights of every origin are found under the names that their programs gave them."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import reader, warm_start, weight_sources

v1 = tf.compat.v1


def opened(path):
  """The Source, for folders in which no training removes what it reads."""
  return weight_sources.read(path, lambda source: source)


def values(path):
  return weight_sources.read(path, lambda source: source.read(list(source.shapes)))


@pytest.fixture
def trained(tmp_path):
  return programs.estimator(tmp_path / "model").train(programs.train_input, steps=2)


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001"])
def test_a_checkpoint_and_any_of_its_files(ending, trained):
  source = opened(trained.latest_checkpoint() + ending)
  assert source.path == trained.latest_checkpoint()
  assert source.shapes["w"] == ((3,), "float32")
  assert reader.EXAMPLES_SEEN not in source.shapes
  np.testing.assert_array_equal(source.read(["w"])["w"], trained.variables["w"].numpy())


def test_a_saved_model_of_octet_has_the_models_names(trained, tmp_path):
  trained.evaluate(programs.examples(8))
  path = trained.export_saved_model(str(tmp_path / "export"))
  found = values(path)
  np.testing.assert_array_equal(found["w"], trained.variables["w"].numpy())
  variables = {
    name: tf.Variable(tf.zeros(variable.shape), name=name)
    for name, variable in trained.variables.items()
    if name in ("w", "b")
  }
  warm_start.apply(path, variables)
  assert variables["b"].numpy() == trained.variables["b"].numpy() != 0


def test_a_saved_model_of_keras(tmp_path):
  model = keras.Sequential(
    [
      keras.Input([3]),
      keras.layers.Dense(2, name="first"),
      keras.layers.BatchNormalization(name="norm"),
    ],
    name="net",
  )
  model.export(str(tmp_path / "export"), verbose=False)
  found = values(str(tmp_path / "export"))
  assert found.keys() >= {variable.path for variable in model.variables}
  np.testing.assert_array_equal(found["net/first/kernel"], model.layers[0].kernel.numpy())


def test_a_checkpoint_of_a_tf1_program(tmp_path):
  """As TPUEstimator wrote them: names with scopes, slots beside the variables, its folder's
  state file.
  """
  with tf.Graph().as_default(), v1.Session() as session:
    with v1.variable_scope("resnet/conv1"):
      weights = v1.get_variable(
        "weights", initializer=tf.constant([[1.0, 2.0]]), use_resource=False
      )
    v1.get_variable(
      "split", [4], initializer=v1.ones_initializer(), partitioner=v1.fixed_size_partitioner(2)
    )
    step = v1.train.get_or_create_global_step()
    v1.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(weights), step)
    session.run(v1.global_variables_initializer())
    v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), 5)
  source = opened(str(tmp_path))
  assert source.shapes == {
    "resnet/conv1/weights": ((1, 2), "float32"),
    "resnet/conv1/weights/Momentum": ((1, 2), "float32"),
    "split": ((4,), "float32"),
    "global_step": ((), "int64"),
  }
  np.testing.assert_array_equal(source.read(["split"])["split"], np.ones(4))
  variables = {"conv/kernel": tf.Variable([[0.0, 0.0]], name="conv/kernel")}
  settings = warm_start.WarmStartSettings(
    str(tmp_path), var_name_to_prev_var_name={"conv/kernel": "resnet/conv1/weights"}
  )
  warm_start.apply(settings, variables)
  np.testing.assert_array_equal(variables["conv/kernel"].numpy(), [[1, 2]])


def test_a_checkpoint_by_objects_under_another_name(tmp_path):
  objects = tf.train.Checkpoint(
    a=tf.Variable(1.0, name="x"),
    b=tf.Variable([2.0], name="same"),
    c=tf.Variable([3.0], name="same"),
  )
  tf.train.CheckpointManager(objects, str(tmp_path), 3, checkpoint_name="mine").save()
  found = values(str(tmp_path))
  assert found["x"] == 1
  assert (found["b"], found["c"]) == (2, 3)  # whose names do not tell them apart
  assert "same" not in found


@pytest.mark.parametrize("name", ["nowhere", "nowhere.weights.h5", "nowhere.keras", "."])
def test_nothing_is_there(name, tmp_path):
  with pytest.raises(errors.CheckpointNotFoundError, match="There (are no weights|is no file)"):
    opened(str(tmp_path / name))


def test_keras_files_in_parts_are_not_read():
  with pytest.raises(errors.CheckpointError, match="save it as one .weights.h5"):
    opened("a.weights.json")


def test_a_damaged_checkpoint_is_said_to_be_one(trained):
  path = trained.latest_checkpoint()
  os.truncate(path + ".data-00000-of-00001", 3)
  with pytest.raises(errors.CheckpointDamagedError, match="is damaged"):
    warm_start.apply(path, trained.variables)
