"""A Keras model with weights of examples trains and is evaluated as Keras itself does it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from trainer import errors

EXAMPLES, BATCH, STEPS = 44, 16, 4
CLASS_WEIGHT = {0: 0.5, 2: 3.0}


def _data():
  random = np.random.RandomState(0)
  labels = random.randint(0, 3, EXAMPLES).astype(np.int32)
  return random.randn(EXAMPLES, 4).astype(np.float32), labels, random.rand(EXAMPLES)


def _batches(params, repeat):
  features, labels, weights = _data()
  dataset = tf.data.Dataset.from_tensor_slices(({"x": features}, labels, np.float32(weights)))
  dataset = dataset.repeat() if repeat else dataset
  return dataset.batch(params["batch_size"], drop_remainder=repeat)


def _build():
  head = keras.layers.Dense(3, kernel_initializer="ones", name="head")
  return keras.Sequential([keras.Input([4]), head], name="model")


def _loss():
  return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _estimator(model_dir, device, loss=None, class_weight=CLASS_WEIGHT):
  model_fn = trainer.model_fn_from_keras(
    _build,
    loss or _loss(),
    keras.optimizers.SGD(0.5),
    metrics=["accuracy"],
    weighted_metrics=["accuracy", "sparse_categorical_crossentropy"],
  )
  return trainer.Estimator(
    model_fn,
    str(model_dir),
    trainer.RunConfig(device=device, class_weight=class_weight),
    train_batch_size=BATCH,
    eval_batch_size=BATCH,
  )


# Several cores show that each divides by the weights of the global batch.
@long.ON_TWO_CORES
def test_training_and_evaluation_are_those_of_keras(tmp_path, device):
  features, labels, weights = _data()
  model = _build()
  model.compile(
    keras.optimizers.SGD(0.5),
    _loss(),
    metrics=["accuracy"],
    weighted_metrics=["accuracy", "sparse_categorical_crossentropy"],
  )
  rows = np.arange(BATCH * STEPS) % EXAMPLES
  # `fit` refuses a class_weight beside a sample_weight.
  of_classes = np.array([CLASS_WEIGHT.get(label, 1.0) for label in labels])
  model.fit(
    features[rows],
    labels[rows],
    BATCH,
    sample_weight=(weights * of_classes)[rows],
    shuffle=False,
    verbose=0,
  )
  expected = model.evaluate(
    features, labels, EXAMPLES, sample_weight=weights, verbose=0, return_dict=True
  )

  estimator = _estimator(tmp_path, device)
  estimator.train(lambda params: _batches(params, True), max_steps=STEPS)
  found = estimator.evaluate(lambda params: _batches(params, False))
  for variable in model.weights:
    values = estimator.variables[variable.path]
    np.testing.assert_allclose(np.asarray(values), variable.numpy(), rtol=1e-5, atol=1e-6)
  for name, value in expected.items():
    assert found[name] == pytest.approx(value, rel=1e-5), name
  assert found["weighted_accuracy"] != found["accuracy"]


def test_a_class_that_the_model_does_not_have_is_named(tmp_path):
  estimator = _estimator(tmp_path, "cpu", class_weight={0: 1.0, 3: 5.0})
  with pytest.raises(errors.SettingError, match="has the class 3, and the model has 3 classes"):
    estimator.train(lambda params: _batches(params, True), max_steps=1)
