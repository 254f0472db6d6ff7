"""Source: the interface between a stored set of labelled images and the steps that follow."""

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from trainer import errors

from . import in_memory

_SHOWN = 100  # names of unreadable examples in an error


@dataclasses.dataclass(frozen=True)
class Source:
  """A stored set of labelled images.

  Attributes:
    name: of the input_fn in gin, for messages: "cifar10.input_fn".
    key: identifies the set, the split and the host's part: any value with a repr.
    count: number of examples; None if unknown.
    image_shape: (height, width, channels), each None if the images differ.
    stream: `stream(training, shuffle_buffer, start)` → dataset of (position, (id, features,
      label)). position counts the elements over all epochs, from `start` on. id (int64) identifies
      the example. features has the encoded image as "image", and maybe others. For training the
      stream is shuffled and endless.
    example_name: maps a position in a stream, not of a training, to the example's name.
  """

  name: str
  key: object
  count: int | None
  image_shape: tuple[int | None, int | None, int | None]
  stream: Callable[[bool, int | None, int], tf.data.Dataset]
  example_name: Callable[[int], str]


def map_examples(
  source: Source, function: Callable[[Any, Any], tuple], batch_size: int = 256
) -> Iterator[tuple[int, tuple]]:
  """Applies a function to all examples, in parallel, and yields the results in order.

  Args:
    source: a set with a known count.
    function: maps (features, label) to a tuple, in TensorFlow operations.
    batch_size: examples in a batch.

  Yields:
    The number of the batch's first example, and a tuple of numpy arrays [b, ...].

  Raises:
    InputError: the function failed for examples; the message names them.
  """
  converted = in_memory.converted(function)

  @in_memory.as_written
  def apply(_, example):
    return converted(example[1], example[2])

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
    # TensorFlow's error does not name the failed example of the batch. So try the examples one by
    # one.
    rest = stream.skip(done)
    said = _found(source, rest, function) or _reason(error)
    raise errors.InputError(said + _others(source, done, rest, converted)) from error
  if source.count is not None and done < source.count:
    raise errors.InputError(f"{source.name} ended after {done:,} of {source.count:,} examples.")


def _others(source, done, rest, function):
  """Returns a sentence with all unreadable examples after the first `done`; "" for just one."""

  @in_memory.as_written
  def check(position, example):
    with tf.control_dependencies(tf.nest.flatten(function(example[1], example[2]))):
      return tf.identity(position)

  readable = rest.map(check, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
  passed = {int(position) for position in readable.ignore_errors()}
  failed = [position for position in range(done, source.count or done) if position not in passed]
  if len(failed) < 2:
    return ""
  names = [source.example_name(position) for position in failed[:_SHOWN]]
  names += ["..."] * (len(failed) > _SHOWN)
  return f" {len(failed):,} of {source.count:,} examples are unreadable: {', '.join(names)}"


def _found(source, stream, function):
  """Returns a sentence about the first example that is damaged or that the function refuses.

  None without such an example.
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
  """Returns the text of TensorFlow's error, or of our own assertion in it."""
  asserted = re.search(r"assertion failed: \[(.*)\]", error.message)
  return asserted[1] if asserted else re.sub(r"\[Op:.*", "", errors.first_line(error)).strip()
