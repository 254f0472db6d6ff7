import gin
import numpy as np
import pytest
import tensorflow as tf
from sklearn import datasets

from input_pipelines import digits
from trainer import errors
from trainer.inputs import decodable


def examples(**kwargs):
  """All images and labels of one pass."""
  batches = list(digits.input_fn({"batch_size": 100}, **kwargs).as_numpy_iterator())
  return np.concatenate([features["image"] for features, _ in batches]), np.concatenate(
    [labels for _, labels in batches]
  )


def test_the_splits_are_disjoint_and_complete():
  """Together they are scikit-learn's set, each image as often as there."""
  parts = [examples(split=split) for split in digits.SPLITS]
  assert [len(labels) for _, labels in parts] == [1437, 360]
  found = sorted(
    (image.tobytes(), label)
    for images, labels in parts
    for image, label in zip(images, labels, strict=True)
  )
  source = datasets.load_digits()
  expected = sorted(
    ((image / 16).astype(np.float32).tobytes(), label)
    for image, label in zip(source.images, source.target, strict=True)
  )
  assert found == expected


def test_the_split_is_the_documented_one():
  """A change of the split would make figures incomparable."""
  _, labels = examples(split="test")
  np.testing.assert_array_equal(labels[:10], [7, 9, 4, 7, 0, 2, 6, 1, 3, 1])
  assert np.bincount(labels).min() >= 27


@pytest.mark.parametrize("training", [False, True])
def test_shapes_types_and_range(training):
  dataset = digits.input_fn({"batch_size": 32}, training=training)
  batch = 32 if training else None
  assert dataset.element_spec == (
    {"image": tf.TensorSpec([batch, 8, 8, 1], tf.float32)},
    tf.TensorSpec([batch], tf.int32),
  )
  features, labels = next(iter(dataset))
  assert features["image"].shape == (32, 8, 8, 1)
  assert features["image"].numpy().min() == 0
  assert features["image"].numpy().max() == 1
  assert set(labels.numpy()) <= set(range(len(digits.CLASS_NAMES)))


def test_training_sees_every_example_once_an_epoch():
  def sorted_examples(images, labels):
    return sorted((image.tobytes(), label) for image, label in zip(images, labels, strict=True))

  epoch = digits.input_fn({"batch_size": 1437}, split="train", training=True)
  features, labels = next(epoch.as_numpy_iterator())
  assert sorted_examples(features["image"], labels) == sorted_examples(*examples(split="train"))


def test_the_seed_gives_the_order():
  def order(seed):
    tf.random.set_seed(seed)
    return next(iter(digits.input_fn({"batch_size": 64}, training=True)))[1].numpy().tolist()

  assert order(1) == order(1)
  assert order(1) != order(2)


def test_an_image_file_of_any_size_is_a_feature():
  decoders = decodable.decoders_of(digits.input_fn({"batch_size": 4}))
  half_white = np.repeat(np.array([[0], [255]], np.uint8), 20, axis=0)[:, :, np.newaxis]
  feature = decoders["image"](tf.io.encode_png(np.repeat(half_white, 40, axis=1)))
  assert feature.shape == (8, 8, 1)
  np.testing.assert_array_equal(feature[0], 0)
  np.testing.assert_array_equal(feature[-1], 1)


def test_an_unknown_split_is_named():
  with pytest.raises(
    errors.SettingError,
    match=r"no split 'validation'; expected one of train, "
    r"test .*digits\.input_fn\.split",
  ):
    digits.input_fn({"batch_size": 32}, split="validation")


def test_gin_scopes_bind_it_apart():
  gin.parse_config("train/digits.input_fn.training = True\ntest/digits.input_fn.split = 'test'")
  bound = {
    scope: gin.get_configurable(f"{scope}/digits.input_fn")({"batch_size": 90})
    for scope in ("train", "test")
  }
  assert bound["train"].cardinality() == tf.data.INFINITE_CARDINALITY
  assert bound["test"].cardinality() == 4
