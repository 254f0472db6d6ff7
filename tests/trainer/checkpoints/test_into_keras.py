"""A training's values go back into a Keras model, by the names of its layers."""

import keras
import numpy as np
import pytest

from tests.trainer.estimator import keras_programs
from trainer import errors
from trainer.checkpoints import into_keras
from trainer.estimator import keras_model


def test_a_saved_keras_model_is_the_trained_one(tmp_path):
  estimator = keras_programs.estimator_of(
    keras_model.model_fn_from_keras(keras_programs.functional, **keras_programs.SETTINGS), tmp_path
  )
  estimator.train(keras_programs.train_input_fn, max_steps=2)
  model = into_keras.load_into_keras(estimator.latest_checkpoint(), keras_programs.functional)
  model.save(tmp_path / "x.keras")
  image = keras_programs.data()[0]["image"]
  np.testing.assert_allclose(
    keras.models.load_model(tmp_path / "x.keras")(image), model(image), rtol=1e-6
  )


def test_layers_that_keras_has_numbered_on_get_their_values(tmp_path):
  estimator = keras_programs.estimator_of(
    keras_model.model_fn_from_keras(keras_programs.functional, **keras_programs.SETTINGS), tmp_path
  )
  estimator.train(keras_programs.train_input_fn, max_steps=1)
  keras_programs.functional()  # so that the next one starts at dense_2 at the least
  model = keras_programs.functional()
  assert model.weights[0].path != "dense/kernel"
  into_keras.load_into_keras(tmp_path, model)
  for variable, name in zip(
    model.weights, ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"], strict=True
  ):
    np.testing.assert_array_equal(variable.numpy(), estimator.get_variable_value(name))


def test_model_with_fewer_layers_is_not_a_renumbered_one(tmp_path):
  estimator = keras_programs.estimator_of(
    keras_model.model_fn_from_keras(keras_programs.functional, **keras_programs.SETTINGS), tmp_path
  )
  estimator.train(keras_programs.train_input_fn, max_steps=1)
  keras_programs.functional()
  image = keras.Input((16,))
  with pytest.raises(errors.CheckpointError, match=r"dense_\d+/kernel: not in the checkpoint"):
    into_keras.load_into_keras(tmp_path, keras.Model(image, keras.layers.Dense(8)(image)))


def test_what_a_checkpoint_lacks_is_named(tmp_path):
  estimator = keras_programs.estimator_of(
    keras_model.model_fn_from_keras(keras_programs.functional, **keras_programs.SETTINGS), tmp_path
  )
  estimator.train(keras_programs.train_input_fn, max_steps=1)
  other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="other")])
  before = other.get_weights()
  with pytest.raises(errors.CheckpointError, match="other/kernel: not in the checkpoint"):
    into_keras.load_into_keras(tmp_path, other)
  np.testing.assert_array_equal(other.get_weights()[0], before[0])
  with pytest.raises(errors.SettingError, match="no variables yet"):
    into_keras.load_into_keras(tmp_path, keras_programs.sequential())
