"""Labelled images as they are stored: what every set of images hands to the steps that follow."""

import dataclasses
import re
from collections.abc import Callable

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
    stream: `stream(training, shuffle_buffer, start)` → dataset of (position, (id, features,
      label)): position counts the elements over all epochs, and is `start` at the first; id (int64)
      tells the examples apart; features has the encoded image as "image", and what else goes with
      it. In training shuffled and repeated without end.
    example_name: of the example at a position of the stream that is not for training, for messages.
  """

  name: str
  key: object
  count: int | None
  image_shape: tuple
  stream: Callable
  example_name: Callable


def checked(source, function, batch_size=256):
  """Applies a function to all examples in order, in parallel, and names the one at which it fails.

  Args:
    source: a Source whose count is known.
    function: of (features, label), in graph operations; returns a tuple.
    batch_size: examples in a batch.

  Yields:
    (number of the batch's first example, tuple of numpy arrays).

  Raises:
    InputError: the function failed at an example.
  """

  def apply(_, example):
    return function(example[1], example[2])

  stream = source.stream(False, None, 0)
  results = (
    stream.map(apply, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    .batch(batch_size)
    .prefetch(1)
  )
  done = 0
  try:
    for result in results.as_numpy_iterator():
      yield done, result
      done += len(result[0])
  except tf.errors.OpError as error:
    # It is among the next batch's: TensorFlow's error does not tell which one.
    raise errors.InputError(
      _found(source, stream.skip(done), function) or _reason(error)
    ) from error
  if done < source.count:
    raise errors.InputError(f"{source.name}: {done:,} of {source.count:,} examples could be read.")


def _found(source, stream, function):
  """A sentence on the first example at which the function, or reading, fails; None if there is
  none.
  """
  try:
    for position, (_, features, label) in stream:
      try:
        function(features, label)
      except tf.errors.OpError as error:
        return f"{source.example_name(int(position))} is damaged: {_reason(error)}"
  except tf.errors.OpError as error:
    return _reason(error)
  return None


def _reason(error):
  """What TensorFlow's error says, or what an assertion of ours says in it."""
  asserted = re.search(r"assertion failed: \[(.*)\]", error.message)
  return (
    asserted[1]
    if asserted
    else re.sub(r"\{\{.*?\}\} ?|\[Op:.*", "", error.message.splitlines()[0]).strip()
  )
