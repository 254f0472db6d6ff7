"""A small image model, exported once for the tests of a module."""

import numpy as np
import tensorflow as tf

import trainer
from tests.trainer.outputs import test_preprocessing as model

NAMES = model.NAMES
SHAPE = model.SHAPE
decode = model.decode


def image_model_fn(features, labels, mode, params):
  """Two classes of an image alone."""
  features = dict(features, scale=tf.ones([tf.shape(features["image"])[0]]))
  return model.model_fn(features, labels, mode, params)


def input_fn(params):
  """40 images."""
  random = np.random.RandomState(3)
  images = random.rand(40, *SHAPE).astype(np.float32)
  labels = random.randint(0, 2, 40).astype(np.int32)
  dataset = tf.data.Dataset.from_tensor_slices(({"image": images}, labels)).repeat(2)
  dataset = dataset.batch(params["batch_size"], drop_remainder=True)
  return trainer.mark_decodable(dataset, {"image": decode})


def make(folder, steps=2, **options):
  """(Estimator that was trained, path of its export below folder/export)."""
  options = {"class_names": NAMES, "verify": False, "warm_up_batches": (), **options}
  estimator = trainer.Estimator(
    image_model_fn,
    str(folder / "model"),
    trainer.RunConfig(device="cpu"),
    train_batch_size=8,
    eval_batch_size=8,
    export_options=trainer.ExportOptions(**options),
  )
  estimator.train(input_fn, steps=steps)
  return estimator, estimator.export_saved_model(folder / "export")


def png(seed, size=(6, 5)):
  """The bytes of a PNG file."""
  pixels = np.random.RandomState(seed).randint(0, 256, (*size, 3), np.uint8)
  return tf.io.encode_png(pixels).numpy()
