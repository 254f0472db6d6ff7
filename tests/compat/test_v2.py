"""Programs of TensorFlow 2: names, meanings and numbers of TensorFlow 2.15."""

import functools
import importlib
import json
import pathlib
import shutil

import keras
import numpy as np
import pytest

import trainer.compat.v2 as tf
from tests import long
from tests.compat import v2_programs_2_15 as programs
from trainer import errors
from trainer.compat import v1, v2

HERE = pathlib.Path(__file__).parent
VALUES = json.loads((HERE / "v2_programs_2_15.json").read_text())
KEPT = HERE / "v2_checkpoints_2_15"
CANNED = [name for name in VALUES if name not in programs.PROGRAMS]


def check(name, found):
  wanted = VALUES[name]
  for one, other in zip(found["results"], wanted["results"], strict=True):
    assert one == pytest.approx(other, rel=1e-5, abs=1e-6), name
    # Without AVX-512 a loss differs by 3e-6 from the recorded one: TensorFlow's kernels add in
    # another order there.
    assert one["loss"] == pytest.approx(other["loss"], rel=5e-6)
  return [one for one in found["names"] if one != "examples_seen"], wanted["names"]


@pytest.mark.parametrize("name", long.except_for(["linear_sum", "both"], CANNED))
def test_a_canned_estimator_trains_as_in_2_15(tmp_path, name):
  make, label = programs.canned(tf, tmp_path, device="cpu")[name]
  made = make()
  if name not in programs.WITHOUT_CHANCE:  # goes on with a checkpoint of 2.15
    folder = pathlib.Path(made.model_dir)
    shutil.copytree(KEPT / name, folder, dirs_exist_ok=True)
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
  names, wanted = check(name, programs.run_canned(tf, name, made, label))
  assert names == wanted


@pytest.mark.parametrize(
  "name", long.except_for(["updates", "by_head", "new_optimizer"], programs.PROGRAMS)
)
def test_a_model_fn_trains_as_in_2_15(tmp_path, name):
  names, wanted = check(name, programs.run_program(tf, name, tmp_path, device="cpu"))
  if name not in ("new_optimizer", "keras"):  # names of Keras 3's own, and of 2.15's objects
    assert names == wanted


# Names of TensorFlow 2 that programs use beside tf.estimator, of each part of it.
NAMES = (
  "__version__",
  "config.list_physical_devices",
  "data.experimental.make_csv_dataset",
  "initializers.GlorotUniform",
  "io.parse_example",
  "keras.backend.set_learning_phase",
  "keras.estimator.model_to_estimator",
  "keras.layers.DenseFeatures",
  "keras.layers.experimental.preprocessing.Normalization",
  "keras.losses.mean_squared_error",
  "keras.optimizers.legacy.Adam",
  "keras.optimizers.schedules.ExponentialDecay",
  "keras.saving.load_model",
  "lookup.StaticHashTable",
  "losses.BinaryCrossentropy",
  "losses.Reduction.NONE",
  "losses.mean_squared_error",
  "metrics.AUC",
  "metrics.Mean",
  "nn.compute_average_loss",
  "optimizers.Adam",
  "random.set_seed",
  "saved_model.load",
  "strings.split",
  "summary.create_file_writer",
  "train.Checkpoint",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_tensorflow_2_are_there(name):
  functools.reduce(getattr, name.split("."), tf)


def test_names_of_tensorflow_1_say_where_they_are():
  for name in ("placeholder", "layers", "estimator.inputs"):
    with pytest.raises(AttributeError, match=f"Use tf.compat.v1.{name}"):
      functools.reduce(getattr, name.split("."), tf)
  with pytest.raises(ImportError, match=r"trainer.compat.v2 has no layers.*tf.compat.v1.layers"):
    from trainer.compat.v2 import layers  # noqa: F401


@pytest.mark.parametrize("api", ["v1", "v2"])
def test_modules_inside_of_keras_are_imported(api):
  def module(name):
    return importlib.import_module(f"trainer.compat.{api}.keras.{name}")

  preprocessing = module("layers.experimental.preprocessing")
  assert preprocessing.Normalization is tf.keras.layers.Normalization
  assert module("layers").DenseFeatures is tf.keras.layers.DenseFeatures
  assert module("optimizers.legacy").SGD is tf.keras.optimizers.legacy.SGD
  assert module("optimizers.legacy").SGD is not tf.keras.optimizers.SGD
  assert module("optimizers.experimental").SGD is tf.keras.optimizers.SGD
  assert module("layers.experimental").SyncBatchNormalization(axis=1).synchronized
  assert module("backend").learning_phase() == 0
  assert module("applications.resnet").ResNet50 is tf.keras.applications.ResNet50


def test_internal_names_of_tensorflow_are_there():
  assert tf.__internal__.tf2.enabled()


def test_every_module_inside_of_keras_has_both_packages():
  inner = {name for name in v2.MODULES if name.startswith("keras.")}
  assert inner == {name for name in v1.MODULES if name.startswith("keras.")}


# The public names of tf.estimator in TensorFlow 2.15 that tf.compat.v1.estimator has, too, and
# means otherwise.
CANNED_NAMES = [
  f"{kind}{what}"
  for kind in ("DNN", "DNNLinearCombined", "Linear")
  for what in ("Classifier", "Estimator", "Regressor")
]


def test_canned_estimators_of_tensorflow_1_are_beside_those_of_2():
  for name in CANNED_NAMES:
    of_1, of_2 = getattr(tf.compat.v1.estimator, name), getattr(tf.estimator, name)
    assert of_1 is not of_2
    assert of_1.face is not of_2.face
  assert tf.compat.v1.estimator.Estimator is tf.estimator.Estimator
  assert tf.compat.v2 is tf
  assert tf.compat.v1.keras.optimizers is tf.keras.optimizers


def test_positional_arguments_have_the_order_of_tensorflow_2(tmp_path):
  """Where tf.compat.v1 has a partitioner before the configuration."""
  config = tf.estimator.RunConfig(model_dir=str(tmp_path))
  head, (wide, deep) = tf.estimator.RegressionHead(), programs.columns(tf)
  made = [
    tf.estimator.DNNEstimator(head, [3], deep, None, "Adagrad", tf.nn.relu, None, config),
    tf.estimator.LinearEstimator(head, wide, None, "Ftrl", config, "mean"),
    tf.estimator.DNNLinearCombinedEstimator(
      head, None, wide, "Ftrl", deep, "Adagrad", [3], tf.nn.relu, None, config
    ),
  ]
  assert [one.model_dir for one in made] == [str(tmp_path)] * 3
  with pytest.raises(TypeError, match="LinearEstimator takes 7 arguments"):
    tf.estimator.LinearEstimator(head, wide, None, "Ftrl", config, "mean", None, None)


def test_the_meanings_are_those_of_tensorflow_2(tmp_path):
  """Dropout takes a rate, and resizing takes the middles of pixels: numbers of 2.15."""
  images = np.arange(32, dtype=np.float32).reshape(1, 4, 8, 1)

  def model_fn(features, labels, mode):
    weight = tf.Variable(1.0, name="weight")
    resized = tf.image.resize(features, [2, 3])
    kept = tf.cast(tf.nn.dropout(tf.ones([1, 10000]), 0.1) > 0, tf.float32)
    predictions = {"resized": resized, "kept": tf.reduce_mean(kept, axis=1)}
    loss = tf.reduce_mean(weight * resized)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)

  def read():
    return tf.data.Dataset.from_tensor_slices(images).repeat().batch(1)

  config = tf.estimator.RunConfig(device="cpu")
  made = tf.estimator.Estimator(model_fn, str(tmp_path), config).train(read, steps=1)
  found = next(made.predict(read))
  wanted = [4.8333335, 7.5, 10.166666, 20.833334, 23.5, 26.166666]
  assert found["resized"].ravel() == pytest.approx(wanted, rel=1e-6)
  assert found["kept"] == pytest.approx(0.9, abs=0.02)


def test_an_optimizer_of_the_programs_own_kind_is_refused():
  class Own(tf.keras.optimizers.Adam):
    pass

  from trainer.compat import optimizers as legacy_optimizers

  Own.__module__ = __name__
  with pytest.raises(ValueError, match="Own has no counterpart in Keras 2"):
    legacy_optimizers.like(Own(0.1))
  with pytest.raises(ValueError, match="weight_decay"):
    legacy_optimizers.like(tf.keras.optimizers.Adam(0.1, weight_decay=0.1))


def test_an_optimizer_compiles_and_is_written_as_that_of_keras(tmp_path):
  model = tf.keras.Sequential([tf.keras.layers.Input([1]), tf.keras.layers.Dense(1)])
  model.compile(tf.keras.optimizers.Adam(0.5), loss="mse")
  model.fit(np.ones([4, 1]), np.ones([4, 1]), verbose=0)
  model.save(tmp_path / "model.keras")
  import keras

  found = keras.models.load_model(tmp_path / "model.keras")
  assert type(found.optimizer) is keras.optimizers.Adam
  assert float(found.optimizer.learning_rate.numpy()) == 0.5


def test_one_core_and_two_train_alike(tmp_path):
  values = []
  for device in ("cpu", "cpu:2"):
    made = programs.of_model_fn(tf, "by_head", tmp_path / device, device=device)
    made.train(programs.input_fn(tf, "binary"), steps=programs.STEPS)
    values.append({name: made.get_variable_value(name) for name in made.get_variable_names()})
  one, two = values
  assert one.keys() == two.keys()
  assert "rows" in one
  for name, value in one.items():
    np.testing.assert_allclose(two[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_model_that_lies_in_a_file_is_loaded_by_the_program():
  with pytest.raises(errors.SettingError, match=r"can hold code.*load_model\(keras_model_path\)"):
    tf.keras.estimator.model_to_estimator(keras_model_path="model.h5")
  with pytest.raises(ValueError, match="needs keras_model"):
    tf.keras.estimator.model_to_estimator()


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2"]))
def test_model_fn_called_twice_has_the_slots_of_two_trainings(tmp_path, device):
  base = tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x")])

  def model_fn(features, labels, mode, config):
    calls = []
    for _ in range(2):
      with tf.compat.v1.variable_scope(
        tf.compat.v1.get_variable_scope(), reuse=tf.compat.v1.AUTO_REUSE, auxiliary_name_scope=False
      ):
        calls.append(base._call_model_fn(features, labels, mode, config))
    optimizer = tf.compat.v1.train.AdagradOptimizer(0.1)
    loss = calls[0].loss + calls[1].loss
    return calls[0]._replace(
      loss=loss, train_op=optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    )

  def input_fn():
    data = tf.data.Dataset.from_tensors(({"x": [[1.0], [2.0]]}, [0, 1]))
    return data.repeat()

  config = tf.estimator.RunConfig(model_dir=str(tmp_path), device=device)
  estimator = tf.estimator.Estimator(model_fn, config=config)
  estimator.train(input_fn, max_steps=1)
  names = estimator.get_variable_names()
  for scope in ("training", "training_1"):
    assert f"{scope}/Ftrl/linear/linear_model/x/weights/accumulator" in names
  assert not [name for name in names if name.endswith("accumulator_1")]


def test_losses_of_keras_take_the_reduction_auto():
  y, x = [[0.0, 1.0], [1.0, 0.0]], [[0.5, 0.5], [1.0, 1.0]]
  for loss in (
    tf.keras.losses.MeanSquaredError(reduction="auto"),
    tf.losses.MeanSquaredError("auto"),
  ):
    assert isinstance(loss, keras.losses.MeanSquaredError)
    np.testing.assert_allclose(loss(y, x), keras.losses.MeanSquaredError()(y, x))
  assert tf.keras.losses.Huber(reduction="sum").reduction == "sum"
  with pytest.raises(ValueError, match="reduction"):
    tf.keras.losses.MeanSquaredError(reduction="automatic")


def test_regularizers_of_keras_take_the_arguments_of_keras_2():
  x = np.array([1.0, -2.0], np.float32)
  made = tf.keras.regularizers
  assert float(made.l2(l=0.1)(x)) == pytest.approx(0.5)
  assert float(made.l1(l=0.1)(x)) == pytest.approx(0.3)
  assert float(made.L2(0.1)(x)) == float(made.L2(l2=0.1)(x)) == pytest.approx(0.5)
  assert float(made.l1_l2()(x)) == pytest.approx(0.03 + 0.05)  # Keras 3's is 0
  assert isinstance(made.l2(), keras.regularizers.L2)
  assert isinstance(made.get("l2"), keras.regularizers.L2)
  with pytest.raises(TypeError, match="m"):
    made.l2(m=0.1)


@pytest.mark.parametrize("made", [tf.keras.regularizers.l2(l=0.1), tf.keras.losses.Huber()])
def test_what_keras_saves_names_its_own_classes(made):
  saved = keras.saving.serialize_keras_object(made)
  assert type(keras.saving.deserialize_keras_object(saved)) is type(made).__mro__[1]
