"""Beam search: finds the likeliest sequences, several at a time."""

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.contrib.seq2seq.decoding import Decoder


class BeamSearchDecoderState(
  collections.namedtuple(
    "BeamSearchDecoderState", ("cell_state", "log_probs", "finished", "lengths")
  )
):
  """The beams of each example; all fields are [batch, beams, ...]."""


class BeamSearchDecoderOutput(
  collections.namedtuple("BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))
):
  """One step of all beams; all fields are [batch, beams]."""


class FinalBeamSearchDecoderOutput(
  collections.namedtuple("FinalBeamDecoderOutput", ("predicted_ids", "beam_search_decoder_output"))
):
  """All steps; predicted_ids has whole sequences, the best first."""


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
  """Repeats each example of a nest: [batch, ...] to [batch * multiplier, ...]."""
  with tf.name_scope(name or "tile_batch"):
    return tf.nest.map_structure(lambda tensor: tf.repeat(tensor, multiplier, 0), t)


def gather_tree(
  step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any
) -> tf.Tensor:
  """Returns the sequences of beams, by following the parents from the ends.

  Args:
    step_ids: int32 [time, batch, beams], the ids of each step.
    parent_ids: the same shape: the beam of the previous step that each beam continues.
    max_sequence_lengths: int32 [batch]: later steps are end_token.
    end_token: fills steps after a sequence's first end_token too.

  Returns:
    int32 [time, batch, beams].
  """
  step_ids = tf.convert_to_tensor(step_ids, tf.int32)
  times = tf.range(tf.shape(step_ids)[0])
  is_there = times[:, tf.newaxis] < max_sequence_lengths[tf.newaxis]  # [time, batch]
  beams = tf.zeros_like(step_ids[0]) + tf.range(tf.shape(step_ids)[2])

  def back(after: tuple, step: tuple) -> tuple:
    beams, _ = after
    said, parents, here = step
    here = here[:, tf.newaxis]
    found = tf.where(here, tf.gather(said, beams, batch_dims=1), end_token)
    return tf.where(here, tf.gather(parents, beams, batch_dims=1), beams), found

  steps = (step_ids, tf.convert_to_tensor(parent_ids, tf.int32), is_there)
  _, found = tf.scan(back, steps, (beams, tf.zeros_like(beams)), reverse=True)
  ends = tf.cast(tf.equal(found, end_token), tf.int32)
  return tf.where(tf.cumsum(ends, exclusive=True) > 0, end_token, found)


class BeamSearchDecoder(Decoder):
  """Searches the likeliest sequences of a cell.

  Args:
    cell: a cell of tf.nn.rnn_cell; tile the memory of an AttentionWrapper too.
    embedding: function of ids, or [ids, ...].
    start_tokens: int32 [batch].
    end_token: int32 scalar.
    initial_state: the cell's state, with examples repeated by tile_batch.
    beam_width: the number of sequences.
    output_layer: layer that makes logits from the cell's outputs, or None.
    length_penalty_weight: the preference for longer sequences; 0 for none.
    reorder_tensor_arrays: whether an AttentionWrapper's alignments follow the sequences.
  """

  tracks_own_finished = True

  def __init__(
    self,
    cell: Any,
    embedding: Any,
    start_tokens: Any,
    end_token: Any,
    initial_state: Any,
    beam_width: int,
    output_layer: Any = None,
    length_penalty_weight: float = 0.0,
    reorder_tensor_arrays: bool = True,
  ):
    self._cell, self._output_layer = cell, output_layer
    self._embedding_fn: Callable = (
      embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)
    )
    self._start_tokens = tf.convert_to_tensor(start_tokens, tf.int32)
    self._end_token = tf.convert_to_tensor(end_token, tf.int32)
    self._beam_width, self._penalty = beam_width, length_penalty_weight
    self._reorders = reorder_tensor_arrays
    self.batch_size = tf.size(self._start_tokens)
    self._initial_state = tf.nest.map_structure(self._split, initial_state)

  @property
  def output_size(self) -> BeamSearchDecoderOutput:
    return BeamSearchDecoderOutput(*[[self._beam_width]] * 3)

  @property
  def output_dtype(self) -> BeamSearchDecoderOutput:
    dtype = tf.nest.flatten(self._initial_state)[0].dtype
    return BeamSearchDecoderOutput(dtype, tf.int32, tf.int32)

  def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any, Any]:
    shape = [self.batch_size, self._beam_width]
    first = tf.zeros([self.batch_size], tf.int32)  # at first, all beams are equal: keep one
    finished = tf.one_hot(first, self._beam_width, False, True)
    dtype = tf.nest.flatten(self._initial_state)[0].dtype
    state = BeamSearchDecoderState(
      cell_state=self._initial_state,
      log_probs=tf.one_hot(
        first, self._beam_width, tf.cast(0.0, dtype), tf.cast(float("-inf"), dtype)
      ),
      finished=finished,
      lengths=tf.zeros(shape, tf.int64),
    )
    tokens = tf.repeat(self._start_tokens[:, tf.newaxis], self._beam_width, 1)
    return finished, self._embedding_fn(tokens), state

  def step(
    self, time: Any, inputs: Any, state: Any, name: str | None = None
  ) -> tuple[Any, Any, Any, tf.Tensor]:
    outputs, cell_state = self._cell(
      tf.nest.map_structure(_merge, inputs), tf.nest.map_structure(_merge, state.cell_state)
    )
    if self._output_layer is not None:
      outputs = self._output_layer(outputs)
    logits = self._split(outputs)
    made, state = self._choose(logits, tf.nest.map_structure(self._split, cell_state), state)
    return made, state, self._embedding_fn(made.predicted_ids), state.finished

  def _choose(self, logits, cell_state, before):
    """Selects the beams' best continuations; returns (BeamSearchDecoderOutput, the next state)."""
    words = logits.shape[-1] or tf.shape(logits)[-1]
    dtype = logits.dtype
    # A finished beam repeats the end, at no cost.
    of_finished = tf.one_hot(self._end_token, words, tf.cast(0.0, dtype), dtype.min, dtype=dtype)
    step_probs = tf.where(before.finished[..., tf.newaxis], of_finished, tf.nn.log_softmax(logits))
    total = before.log_probs[..., tf.newaxis] + step_probs
    goes_on = tf.cast(~before.finished, tf.int64)[..., tf.newaxis]
    is_word = tf.one_hot(self._end_token, words, 0, 1, dtype=tf.int64)
    scores = total / self._penalty_of(before.lengths[..., tf.newaxis] + goes_on * is_word, dtype)
    flat = [self.batch_size, self._beam_width * words]
    best, places = tf.math.top_k(tf.reshape(scores, flat), self._beam_width)
    best.set_shape([None, self._beam_width])
    places.set_shape([None, self._beam_width])
    beams, said = places // words, places % words

    def of_beams(tensor: Any) -> Any:
      if not _is_of_beams(tensor):
        return tensor
      return tf.ensure_shape(tf.gather(tensor, beams, batch_dims=1), tensor.shape)

    finished = of_beams(before.finished)
    state = BeamSearchDecoderState(
      cell_state=tf.nest.map_structure(of_beams, cell_state),
      log_probs=tf.gather(tf.reshape(total, flat), places, batch_dims=1),
      finished=finished | tf.equal(said, self._end_token),
      lengths=of_beams(before.lengths) + tf.cast(~finished, tf.int64),
    )
    return BeamSearchDecoderOutput(best, said, beams), state

  def _penalty_of(self, lengths: tf.Tensor, dtype: tf.DType) -> Any:
    """See https://arxiv.org/abs/1609.08144."""
    if isinstance(self._penalty, float | int) and self._penalty == 0:
      return tf.ones([], dtype)
    return ((5.0 + tf.cast(lengths, dtype)) / 6.0) ** tf.cast(self._penalty, dtype)

  def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
    longest = tf.cast(tf.reduce_max(final_state.lengths, 1), tf.int32)
    ids = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
    if self._reorders:
      in_order = tf.nest.map_structure(
        lambda one: self._in_order(one, outputs.parent_ids, final_state.lengths),
        final_state.cell_state,
      )
      final_state = final_state._replace(cell_state=in_order)
    return FinalBeamSearchDecoderOutput(ids, outputs), final_state

  def _in_order(self, state: Any, parents: tf.Tensor, lengths: tf.Tensor) -> Any:
    """Reorders a TensorArray's steps by the beams that the sequences followed."""
    if not isinstance(state, tf.TensorArray):
      return state
    own = tf.zeros_like(parents) + tf.range(self._beam_width)
    lengths = tf.cast(lengths, tf.int32)
    beams = gather_tree(own, parents, tf.reduce_max(lengths, 1), self._beam_width + 1)
    times = tf.range(tf.shape(parents)[0])[:, tf.newaxis, tf.newaxis]
    beams = tf.where(times < lengths, beams, own)
    rows = state.stack()[: tf.shape(parents)[0]]
    shape = tf.shape(rows)
    by_beam = tf.concat([[shape[0], self.batch_size, self._beam_width], shape[2:]], 0)
    return tf.reshape(tf.gather(tf.reshape(rows, by_beam), beams, batch_dims=2), shape)

  def _split(self, tensor: Any) -> Any:
    """Reshapes [batch * beams, ...] to [batch, beams, ...]; leaves TensorArrays and scalars."""
    if isinstance(tensor, tf.TensorArray) or tensor.shape.rank == 0:
      return tensor
    inner = tensor.shape[1:]
    rest = inner.as_list() if inner.is_fully_defined() else tf.unstack(tf.shape(tensor)[1:])
    made = tf.reshape(tensor, [-1, self._beam_width, *rest])
    made.set_shape([tf.get_static_value(self.batch_size), self._beam_width, *inner])
    return made


def _is_of_beams(tensor: Any) -> bool:
  return not isinstance(tensor, tf.TensorArray) and tensor.shape.rank > 0


def _merge(tensor: Any) -> Any:
  """Reshapes [batch, beams, ...] to [batch * beams, ...]; leaves TensorArrays and scalars."""
  if not _is_of_beams(tensor):
    return tensor
  inner = tensor.shape[2:]
  rest = inner.as_list() if inner.is_fully_defined() else tf.unstack(tf.shape(tensor)[2:])
  made = tf.reshape(tensor, [-1, *rest])
  batch = tensor.shape[0]
  made.set_shape([None if batch is None else batch * tensor.shape[1], *inner])
  return made
