"""Helpers select a decoder's next inputs: the targets, or its own outputs."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


class Helper:
  """Feeds a BasicDecoder.

  Attributes:
    batch_size: scalar.
    sample_ids_shape: the shape of an example's ids in a step.
    sample_ids_dtype: its dtype.
  """

  batch_size: Any
  sample_ids_shape = tf.TensorShape([])
  sample_ids_dtype = tf.int32

  def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
    """Returns (finished examples as bools, the first inputs)."""
    raise NotImplementedError

  def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
    """Returns the chosen ids."""
    raise NotImplementedError

  def next_inputs(
    self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
  ) -> tuple[tf.Tensor, Any, Any]:
    """Returns (finished examples as bools, the next inputs, the next state)."""
    raise NotImplementedError


class TrainingHelper(Helper):
  """Feeds the targets, one after another.

  Args:
    inputs: nest of [batch, time, ...].
    sequence_length: [batch], integers.
    time_major: whether inputs are [time, batch, ...].
  """

  def __init__(
    self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None
  ):
    del name
    self.inputs = inputs
    self.sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
    if self.sequence_length.shape.rank != 1:
      raise ValueError(
        f"Expected sequence_length to be a vector; got shape {self.sequence_length.shape}."
      )
    self._by_time = inputs if time_major else tf.nest.map_structure(_by_time, inputs)
    self.batch_size = tf.size(self.sequence_length)

  def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
    return tf.equal(self.sequence_length, 0), self._inputs_at(0, self.sequence_length)

  def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
    return tf.argmax(outputs, -1, output_type=tf.int32)

  def next_inputs(
    self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
  ) -> tuple[tf.Tensor, Any, Any]:
    length = tf.cast(self.sequence_length, tf.int32)
    return time + 1 >= length, self._inputs_at(time + 1, length), state

  def _inputs_at(self, time: Any, length: tf.Tensor) -> Any:
    """Returns the inputs at a time; zeros once all examples have finished."""
    goes_on = tf.reduce_any(time < tf.cast(length, tf.int32))

    def at(inputs: tf.Tensor) -> tf.Tensor:
      rows = tf.gather(inputs, tf.minimum(time, tf.maximum(tf.shape(inputs)[0] - 1, 0)))
      return tf.where(goes_on, rows, tf.zeros_like(rows))

    return tf.nest.map_structure(at, self._by_time)


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
  """Feeds the target, or with a probability the embedding of the chosen id.

  Args:
    inputs, sequence_length, time_major: as TrainingHelper.
    embedding: function of ids, or [ids, ...].
    sampling_probability: scalar or [batch].
    seed: the seed of the choice of ids.
    scheduling_seed: the seed of the choice between target and id.
  """

  def __init__(
    self,
    inputs: Any,
    sequence_length: Any,
    embedding: Any,
    sampling_probability: Any,
    time_major: bool = False,
    seed: int | None = None,
    scheduling_seed: int | None = None,
    name: str | None = None,
  ):
    super().__init__(inputs, sequence_length, time_major, name)
    self._embedding_fn = _embedding_fn(embedding)
    self._probability = tf.convert_to_tensor(sampling_probability)
    if self._probability.shape.rank not in (0, 1):
      raise ValueError("sampling_probability must be either a scalar or a vector.")
    self._seed, self._scheduling_seed = seed, scheduling_seed

  def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
    """Returns the chosen ids for the examples that read them, else -1."""
    said = tf.random.categorical(outputs, 1, dtype=tf.int32, seed=self._seed)[:, 0]
    drawn = tf.random.uniform(tf.shape(said), seed=self._scheduling_seed)
    return tf.where(drawn < self._probability, said, -tf.ones_like(said))

  def next_inputs(
    self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
  ) -> tuple[tf.Tensor, Any, Any]:
    finished, inputs, state = super().next_inputs(time, outputs, state, sample_ids)
    own = self._embedding_fn(tf.maximum(sample_ids, 0))
    return finished, _where(sample_ids >= 0, own, inputs), state


class GreedyEmbeddingHelper(Helper):
  """Chooses the likeliest id, and feeds its embedding.

  Args:
    embedding: function of ids, or [ids, ...].
    start_tokens: [batch], integers.
    end_token: the id that finishes an example.
  """

  def __init__(self, embedding: Any, start_tokens: Any, end_token: Any):
    self._embedding_fn = _embedding_fn(embedding)
    self._start_tokens = tf.convert_to_tensor(start_tokens, tf.int32)
    if self._start_tokens.shape.rank != 1:
      raise ValueError("start_tokens must be a vector")
    self._end_token = tf.convert_to_tensor(end_token, tf.int32)
    if self._end_token.shape.rank != 0:
      raise ValueError("end_token must be a scalar")
    self.batch_size = tf.size(self._start_tokens)

  def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any]:
    return tf.zeros([self.batch_size], tf.bool), self._embedding_fn(self._start_tokens)

  def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
    return tf.argmax(outputs, -1, output_type=tf.int32)

  def next_inputs(
    self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
  ) -> tuple[tf.Tensor, Any, Any]:
    return tf.equal(sample_ids, self._end_token), self._embedding_fn(sample_ids), state


def _by_time(tensor: tf.Tensor) -> tf.Tensor:
  return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.rank)])


def _embedding_fn(embedding: Any) -> Callable:
  return embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)


def _where(chosen: tf.Tensor, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
  return tf.where(tf.reshape(chosen, [-1] + [1] * (one.shape.rank - 1)), one, other)
