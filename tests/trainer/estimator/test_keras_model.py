"""Keras models of every kind train as model_fns, count as Keras counts, and get their values
back.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer.estimator import keras_programs
from trainer import errors
from trainer.checkpoints import into_keras
from trainer.estimator import keras_model


def _eval_input_fn(params):
  return tf.data.Dataset.from_tensor_slices(keras_programs.data()).batch(params["batch_size"])


class _Subclassed(keras.Model):
  def __init__(self):
    super().__init__()
    self.flatten = keras.layers.Flatten()
    self.dense = keras.layers.Dense(3)

  def call(self, image):
    x = self.dense(self.flatten(image))
    self.add_loss(0.01 * tf.reduce_mean(x**2))
    return x


def _compiled():
  model = keras_programs.functional()
  model.compile(
    "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
  )
  return model


@pytest.mark.parametrize(
  "build_model, settings",
  [
    (keras_programs.sequential, keras_programs.SETTINGS),
    # _compiled has this model in the gate.
    pytest.param(keras_programs.functional, keras_programs.SETTINGS, marks=pytest.mark.long),
    (_Subclassed, keras_programs.SETTINGS),
    (_compiled, {}),
  ],
  ids=["sequential", "functional", "subclassed", "compiled"],
)
def test_trains_as_keras_counts_and_goes_back_into_keras(tmp_path, build_model, settings):
  estimator = keras_programs.estimator_of(
    keras_model.model_fn_from_keras(build_model, **settings), tmp_path
  )
  estimator.train(keras_programs.train_input_fn, max_steps=1)
  first = estimator.evaluate(_eval_input_fn)
  estimator.train(keras_programs.train_input_fn, max_steps=30)
  last = estimator.evaluate(_eval_input_fn)
  assert last["loss"] < first["loss"]

  features, labels = keras_programs.data()
  build_model()  # whose layers take the names that come first
  if build_model is _Subclassed or build_model is keras_programs.sequential:

    def build():
      model = build_model()
      model(tf.zeros([1, 4, 4, 1]))
      return model
  else:
    build = build_model
  model = into_keras.load_into_keras(tmp_path, build)
  outputs = model(features["image"], training=False).numpy()
  predicted = [prediction["output"] for prediction in estimator.predict(_eval_input_fn)]
  np.testing.assert_allclose(outputs, predicted, rtol=1e-4, atol=1e-5)
  cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(
    labels, outputs
  ).numpy()
  penalties = sum(float(loss) for loss in model.losses)
  if build_model is not _Subclassed:  # whose penalty is that of each batch
    assert last["loss"] == pytest.approx(cross_entropy + penalties, rel=1e-4)
  assert last["accuracy"] == pytest.approx(np.mean(outputs.argmax(-1) == labels))

  model.save_weights(tmp_path / "x.weights.h5")
  again = build()
  again.load_weights(tmp_path / "x.weights.h5")
  np.testing.assert_allclose(again(features["image"], training=False), outputs, rtol=1e-6)


def test_objects_are_patterns(tmp_path):
  keras.optimizers.SGD()  # the first one of the process has the name to itself
  settings = dict(
    keras_programs.SETTINGS,
    optimizer=keras.optimizers.SGD(
      keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5), momentum=0.9
    ),
    metrics=[keras.metrics.SparseTopKCategoricalAccuracy(2, name="top_2"), "accuracy"],
  )
  estimator = keras_programs.estimator_of(
    keras_model.model_fn_from_keras(keras_programs.functional, **settings), tmp_path
  )
  estimator.train(keras_programs.train_input_fn, max_steps=2)
  results = estimator.evaluate(_eval_input_fn)
  assert results["top_2"] >= results["accuracy"]
  assert {name.split("/")[0] for name in estimator.get_variable_names()} >= {
    "dense",
    "dense_1",
    "sgd",
  }


def test_several_inputs_and_outputs(tmp_path):
  def build_model():
    inputs = {"a": keras.Input((3,), name="a"), "b": keras.Input((2,), name="b")}
    x = keras.layers.Concatenate()([inputs["a"], inputs["b"]])
    return keras.Model(
      inputs,
      {"sum": keras.layers.Dense(1, name="sum")(x), "kind": keras.layers.Dense(2, name="kind")(x)},
    )

  def input_fn(params):
    random = np.random.RandomState(1)
    features = {
      "a": random.randn(8, 3).astype(np.float32),
      "b": random.randn(8, 2).astype(np.float32),
    }
    labels = {
      "sum": random.randn(8, 1).astype(np.float32),
      "kind": random.randint(0, 2, 8).astype(np.int32),
    }
    return (
      tf.data.Dataset.from_tensor_slices((features, labels))
      .repeat(2)
      .batch(params["batch_size"], drop_remainder=True)
    )

  model_fn = keras_model.model_fn_from_keras(
    build_model,
    loss={"sum": "mse", "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    optimizer=keras.optimizers.Adam,
    metrics={"sum": ["mae"], "kind": ["accuracy"]},
  )
  estimator = keras_programs.estimator_of(model_fn, tmp_path)
  estimator.train(input_fn, max_steps=1)
  results = estimator.evaluate(input_fn)
  assert {"loss", "sum_mae", "kind_accuracy"} <= set(results)
  assert {key: value.shape for key, value in next(estimator.predict(input_fn)).items()} == {
    "sum": (1,),
    "kind": (2,),
  }


def test_one_core_and_two_agree(tmp_path):
  values = []
  for device in ("cpu", "cpu:2"):
    estimator = keras_programs.estimator_of(
      keras_model.model_fn_from_keras(
        keras_programs.functional, **dict(keras_programs.SETTINGS, optimizer="sgd")
      ),
      tmp_path / device,
      device,
    )
    estimator.train(keras_programs.train_input_fn, max_steps=3)
    values.append(estimator.get_variable_value("dense/kernel"))
  np.testing.assert_allclose(values[0], values[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
@pytest.mark.parametrize("file", ["model.keras", "model.weights.h5", "model.h5"])
def test_a_training_begins_with_weights_that_build_model_loads(tmp_path, file, device):
  saved = keras_programs.functional()
  path = str(tmp_path / file)
  saved.save_weights(path) if file == "model.weights.h5" else saved.save(path)

  def build():
    if file != "model.weights.h5":
      return keras.models.load_model(path)
    model = keras_programs.functional()
    model.load_weights(path)
    return model

  settings = dict(keras_programs.SETTINGS, optimizer=keras.optimizers.SGD(0.1))
  estimator = keras_programs.estimator_of(
    keras_model.model_fn_from_keras(build, **settings), tmp_path / "out", device
  )
  estimator.train(keras_programs.train_input_fn, max_steps=3)
  saved.compile(settings["optimizer"], settings["loss"])
  saved.fit(keras_programs.train_input_fn({"batch_size": 16}).take(3), verbose=0)
  model = into_keras.load_into_keras(tmp_path / "out", build)
  for ours, theirs in zip(model.get_weights(), saved.get_weights(), strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_a_model_that_loses_the_size_of_the_batch_is_evaluated(tmp_path, device):
  texts = tf.constant([["good film"], ["bad film"], ["good"], ["bad"], ["film"]])
  labels = np.array([1, 0, 1, 0, 1])
  words = ["good", "bad", "film"]

  def build():
    vectorize = keras.layers.TextVectorization(output_sequence_length=2, vocabulary=words)
    average = keras.layers.Embedding(5, 2), keras.layers.GlobalAveragePooling1D()
    layers = [keras.Input([1], dtype="string"), vectorize, *average, keras.layers.Dense(2)]
    return keras.Sequential(layers)

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices((texts, labels)).batch(params["batch_size"])

  def train_input_fn(params):
    repeated = tf.data.Dataset.from_tensor_slices((texts, labels)).repeat()
    return repeated.batch(params["batch_size"], drop_remainder=True)

  loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  estimator = trainer.Estimator(
    keras_model.model_fn_from_keras(build, loss, "sgd", metrics=["accuracy"]),
    str(tmp_path),
    trainer.RunConfig(device=device),
    train_batch_size=4,
    eval_batch_size=4,
  )
  estimator.train(train_input_fn, max_steps=1)
  results = estimator.evaluate(input_fn)  # a whole batch, and a batch of one
  model = into_keras.load_into_keras(tmp_path, build)
  found = model.predict(texts, verbose=0).argmax(-1) == labels
  assert results["accuracy"] == pytest.approx(found.mean())


def test_mistakes_are_named(tmp_path):
  def fails_with(build_model, message, **settings):
    with pytest.raises(errors.SettingError, match=message):
      keras_programs.estimator_of(
        keras_model.model_fn_from_keras(build_model, **settings), tmp_path
      ).train(keras_programs.train_input_fn, max_steps=1)

  fails_with(
    keras_programs.functional(), "a function that makes a keras.Model", **keras_programs.SETTINGS
  )
  fails_with(lambda: 3, "a function that makes a keras.Model", **keras_programs.SETTINGS)
  fails_with(keras_programs.sequential, "without a loss", optimizer="adam")
  fails_with(keras_programs.sequential, "no optimizer", loss=keras_programs.SETTINGS["loss"])


@pytest.mark.parametrize("given", ["loss", "compiled"])
def test_probabilities_for_a_loss_of_integer_labels(given, tmp_path):
  loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

  def build():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    if given == "compiled":
      model.compile("sgd", "sparse_categorical_crossentropy")
    return model

  def mixed(params):
    batch = np.zeros([params["batch_size"], 4], np.float32), np.full([8, 3], 1 / 3, np.float32)
    return tf.data.Dataset.from_tensors(batch).repeat()

  model_fn = trainer.model_fn_from_keras(build, loss if given == "loss" else None, "sgd")
  config = trainer.RunConfig(device="cpu")
  estimator = trainer.Estimator(model_fn, str(tmp_path), config, train_batch_size=8)
  with pytest.raises(errors.ModelFnError, match=r"takes integer labels, .*float32 \(8, 3\)"):
    estimator.train(mixed, max_steps=1)
