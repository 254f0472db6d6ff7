"""Labelled images as they are stored: what every set of images hands to the steps that follow."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from trainer import errors


@dataclasses.dataclass(frozen=True)
class Source:
  """Labelled images as they are stored.

  Attributes:
    name: of the input_fn in gin, for messages: "cifar10.input_fn".
    key: what tells this set, split and part from any other: any value with a repr.
    count: number of examples, or None if that is not known.
    image_shape: (height, width, channels), each None where images differ.
    stream: `stream(training, shuffle_buffer)` → dataset of (position, (id, features, label)): position counts the elements over all epochs, id
      (int64) tells the examples apart, features has the encoded image as "image", and what else goes with it. In training shuffled and repeated
      without end.
    example_name: of the example at a position of the stream that is not for training, for messages.
  """

  name: str
  key: object
  count: int | None
  image_shape: tuple
  stream: Callable
  example_name: Callable


def checked(source, function, batch_size=256):
  """Applies a function to all examples in order, in parallel, and names the first one at which it fails.

  Args:
    source: a Source whose count is known.
    function: of (features, label), in graph operations; returns a tuple.
    batch_size: examples in a batch.

  Yields:
    (number of the batch's first example, tuple of numpy arrays).

  Raises:
    InputError: the function failed at an example.
  """
  # Without those that fail, so that a gap in the positions tells which one it was: TensorFlow's error does not.
  def apply(position, example):
    return position, function(example[1], example[2])

  stream = source.stream(False, None).map(apply, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).ignore_errors()
  done = 0
  for positions, results in stream.batch(batch_size).prefetch(1).as_numpy_iterator():
    good = int(np.argmin(np.append(positions == done + np.arange(len(positions)), False)))
    if good:
      yield done, tuple(result[:good] for result in results)
    done += good
    if good < len(positions):
      break
  if done < source.count:
    raise errors.InputError(f"{source.example_name(done)} is damaged, or no JPEG, PNG, GIF or BMP image. ({done:,} before it are whole.)")
