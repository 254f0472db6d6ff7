"""Small Keras models, and Estimators of them."""

import keras
import numpy as np
import tensorflow as tf

import trainer

EXAMPLES = 22


def data():
  random = np.random.RandomState(0)
  return {"image": random.randn(EXAMPLES, 4, 4, 1).astype(np.float32)}, random.randint(
    0, 3, EXAMPLES
  ).astype(np.int32)


def train_input_fn(params):
  return (
    tf.data.Dataset.from_tensor_slices(data())
    .repeat()
    .batch(params["batch_size"], drop_remainder=True)
  )


def estimator_of(model_fn, path, device="cpu"):
  return trainer.Estimator(
    model_fn, str(path), trainer.RunConfig(device=device), train_batch_size=16, eval_batch_size=16
  )


def sequential():
  return keras.Sequential(
    [
      keras.layers.Flatten(),
      keras.layers.Dense(8, "relu"),
      keras.layers.Dropout(0.1),
      keras.layers.BatchNormalization(),
      keras.layers.Dense(3),
    ]
  )


def functional():
  image = keras.Input((4, 4, 1), name="image")
  x = keras.layers.Dense(8, "relu", kernel_regularizer=keras.regularizers.L2(0.01))(
    keras.layers.Flatten()(image)
  )
  return keras.Model(image, keras.layers.Dense(3)(x))


SETTINGS = dict(
  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  optimizer="adam",
  metrics=["accuracy"],
)
