"""A function over all examples of a set, and the example that it fails for."""

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import labelled_images
from trainer import errors


def source(values, count=None, stream=None):
  """A source of examples with an "image" that is a number."""

  def make(training, shuffle_buffer, start):
    assert (training, shuffle_buffer, start) == (False, None, 0)
    values_ = tf.data.Dataset.from_tensor_slices(np.float32(values))
    return values_.enumerate().map(lambda place, value: (place, (100 + place, {"image": value}, 7)))

  return labelled_images.Source(
    name="my.input_fn",
    key="key",
    count=len(values) if count is None else count,
    image_shape=(None, None, 3),
    stream=stream or make,
    example_name=lambda position: f"photo {position}",
  )


def positive(features, label):
  with tf.control_dependencies([tf.debugging.assert_positive(features["image"], "not positive")]):
    return features["image"] * 2, label


def results(source, function=positive, **settings):
  return list(labelled_images.map_examples(source, function, **settings))


def test_batches_are_in_order_with_the_number_of_the_first():
  found = results(source([1, 2, 3, 4, 5]), batch_size=2)
  assert [first for first, _ in found] == [0, 2, 4]
  assert [batch.tolist() for _, (batch, _) in found] == [[2, 4], [6, 8], [10]]
  assert [labels.tolist() for _, (_, labels) in found] == [[7, 7], [7, 7], [7]]


def test_the_function_may_decide_by_a_tensor():
  """AutoGraph converts it."""

  def halved_above_two(features, label):
    image = features["image"]
    if image > 2:
      image /= 2
    return image, label

  ((_, (batch, _)),) = results(source([1, 2, 3, 4]), halved_above_two)
  assert batch.tolist() == [1, 2, 1.5, 2]


@pytest.mark.parametrize("place", [0, 3, 4])
def test_the_failing_example_is_named(place):
  values = np.ones(5)
  values[place] = -1
  with pytest.raises(errors.InputError, match=f"^photo {place} is damaged: not positive"):
    results(source(values), batch_size=2)


def test_all_failing_examples_are_named():
  values = np.ones(300)
  values[[3, 150, 299]] = -1
  named = (
    "^photo 3 is damaged: not positive.* 3 of 300 examples are unreadable: "
    "photo 3, photo 150, photo 299$"
  )
  with pytest.raises(errors.InputError, match=named):
    results(source(values), batch_size=2)


def test_batches_before_the_failure_are_given():
  found = labelled_images.map_examples(source([1, 1, 1, -1]), positive, batch_size=2)
  assert next(found)[0] == 0
  with pytest.raises(errors.InputError, match="photo 3"):
    next(found)


def test_a_stream_that_fails_itself_says_why():
  def stream(*_):
    def read(place):
      with tf.control_dependencies([tf.debugging.Assert(place < 1, ["the disk is gone"])]):
        return place, (place, {"image": 1.0}, 7)

    return tf.data.Dataset.range(3).map(read)

  with pytest.raises(errors.InputError, match="the disk is gone"):
    results(source([1, 1, 1], stream=stream))


@pytest.mark.parametrize("values", [[], [1, 1]])
def test_a_set_that_ends_early_says_how_many_are_missing(values):
  with pytest.raises(errors.InputError, match=rf"my\.input_fn ended after {len(values)} of 3"):
    results(source(values, count=3))


@pytest.mark.parametrize(
  ("message", "reason"),
  [
    ("", "InternalError"),
    ("\n", "InternalError"),
    ("{{function_node __inference_f}} Bad PNG [Op:DecodeImage] name: x\nmore", "Bad PNG"),
    ("assertion failed: [a.jpg is no JPEG] [[{{node x}}]]", "a.jpg is no JPEG] [[{{node x}}]"),
  ],
)
def test_a_reason_is_the_first_line_without_additions(message, reason):
  assert labelled_images._reason(tf.errors.InternalError(None, None, message)) == reason
