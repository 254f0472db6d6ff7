"""The leaves of a dataset's elements: their names, and the shapes that they may have."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import errors
from trainer.inputs import call as inputs
from trainer.inputs import elements


def call(input_fn, kind="train"):
  return inputs.call(input_fn, {}, 4, 1, kind)


def dataset_of(*tensors, batch):
  dataset = tf.data.Dataset.from_tensor_slices(tensors if len(tensors) > 1 else tensors[0])
  return dataset.batch(batch, drop_remainder=True)


def ragged(params):
  return tf.data.Dataset.from_tensors({"words": tf.ragged.constant([[1], [2, 3], [], [4]])})


def unknown_rank(params):
  def generate():
    yield np.zeros([4, 2], np.float32)

  return tf.data.Dataset.from_generator(generate, output_types=tf.float32)


def unknown_axis(params):
  def generate():
    yield np.zeros([4, 2], np.float32)

  return tf.data.Dataset.from_generator(
    generate, output_signature=tf.TensorSpec([4, None], tf.float32)
  )


SHAPES = {
  "ragged": (
    ragged,
    "train",
    r'features\["words"\] \(train\) is a RaggedTensorSpec: make it '
    r"dense",
  ),
  "unknown rank": (
    unknown_rank,
    "train",
    r"features \(train\) has shape <unknown>: the first "
    r"axis must be the batch",
  ),
  "scalar": (
    lambda params: tf.data.Dataset.range(4),
    "eval",
    r"features \(eval\) has shape "
    r"\(\): the first axis must be the "
    r"batch",
  ),
  "unknown batch": (
    lambda params: tf.data.Dataset.from_tensor_slices({"image": tf.zeros([8, 32, 32, 3])}).batch(4),
    "train",
    r'features\["image"\] has shape \(None, 32, 32, 3\): batch with drop_remainder=True',
  ),
  "another batch": (
    lambda params: dataset_of(tf.zeros([8, 2]), tf.zeros([8]), batch=2),
    "train",
    r'features \(train\) has shape \(2, 2\): the batch must be params\["batch_size"\], 4',
  ),
  "another batch of labels": (
    lambda params: tf.data.Dataset.from_tensors((tf.zeros([4, 2]), {"y": tf.zeros([3])})),
    "eval",
    r'labels\["y"\] \(eval\) has shape \(3\): the batch must be params\["batch_size"\], 4',
  ),
  "unknown axis": (
    unknown_axis,
    "predict",
    r"features \(predict\) has shape \(4, None\): pad or "
    r"resize",
  ),
}


@pytest.mark.parametrize("input_fn, kind, message", SHAPES.values(), ids=SHAPES)
def test_shapes_that_no_device_can_use(input_fn, kind, message):
  with pytest.raises(errors.InputError, match=message):
    elements.check_shapes(call(input_fn, kind), 4, kind)


@pytest.mark.parametrize("kind", ["eval", "predict"])
def test_the_batch_may_be_open_where_it_is_padded(kind):
  elements.check_shapes(call(programs.examples(6), kind), 4, kind)


def test_shapes_may_be_open_where_they_need_not_be_static():
  open_batch = tf.data.Dataset.from_tensor_slices((tf.zeros([8, 2]),)).batch(4)
  for dataset in (open_batch, call(unknown_axis)):
    elements.check_shapes(dataset, 4, "train", static=False)


def test_known_batch_size_is_checked_even_if_shapes_are_open():
  def two_examples(params):
    return dataset_of(tf.zeros([8, 2]), batch=2)

  with pytest.raises(errors.InputError, match=r"has shape \(2, 2\): the batch must be"):
    elements.check_shapes(call(two_examples), 4, "train", static=False)


def test_sparse_tensors_are_told_by_their_type():
  sparse = tf.sparse.from_dense(tf.eye(4))
  dataset = tf.data.Dataset.from_tensors((tf.zeros([4, 1]), sparse))
  with pytest.raises(
    errors.InputError, match=r"labels \(eval\) is a SparseTensorSpec: make it dense"
  ):
    elements.check_shapes(dataset, 4, "eval")


def test_named_leaves_of_any_structure():
  Point = collections.namedtuple("Point", "x y")
  element = ({"image": 1, "pair": (2, {"z": 3}), "point": Point(4, 5)}, 6)
  assert elements.named_leaves(element) == [
    ('features["image"]', 1),
    ('features["pair"][0]', 2),
    ('features["pair"][1]["z"]', 3),
    ('features["point"].x', 4),
    ('features["point"].y', 5),
    ("labels", 6),
  ]


def test_what_is_none_has_no_name():
  dataset = tf.data.Dataset.from_tensors(({"x": tf.zeros([4]), "mask": None}, None))
  assert [path for path, _ in elements.named_leaves(dataset.element_spec)] == ['features["x"]']


def test_other_roots():
  assert elements.named_leaves(([1, 2],), roots=["inputs"]) == [("inputs[0]", 1), ("inputs[1]", 2)]
