"""tf.contrib.crf: linear-chain conditional random fields.

Potentials are [batch, time, tags]; tags [batch, time]; transition_params [tags, tags], from the
previous tag to the next; sequence_lengths [batch].
"""

from typing import Any

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> tf.Tensor:
  """Returns the sum of the tags' potentials over each sequence: [batch]."""
  taken = tf.gather(inputs, tf.cast(tag_indices, tf.int32), axis=2, batch_dims=2)
  return tf.reduce_sum(taken * _mask(sequence_lengths, taken, tf.shape(taken)[1]), 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> tf.Tensor:
  """Returns the sum of the weights of the transitions between tags over each sequence: [batch]."""
  tags = tf.cast(tag_indices, tf.int32)
  taken = tf.gather_nd(transition_params, tf.stack([tags[:, :-1], tags[:, 1:]], -1))
  between = tf.cast(sequence_lengths, tf.int32) - 1
  return tf.reduce_sum(taken * _mask(between, taken, tf.shape(taken)[1]), 1)


def crf_sequence_score(
  inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> tf.Tensor:
  """Returns the unnormalized score of the tags: [batch]."""
  return crf_unary_score(tag_indices, sequence_lengths, inputs) + crf_binary_score(
    tag_indices, sequence_lengths, transition_params
  )


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> tf.Tensor:
  """Returns log(sum(exp(score))) over all sequences of tags: [batch]; 0 for length 0."""
  inputs, lengths = tf.convert_to_tensor(inputs), tf.cast(sequence_lengths, tf.int32)

  def step(before: tf.Tensor, given: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    potentials, time = given
    after = potentials + tf.reduce_logsumexp(before[:, :, tf.newaxis] + transition_params, 1)
    return tf.where((time < lengths)[:, tf.newaxis], after, before)

  last = tf.foldl(step, _after_the_first(inputs), inputs[:, 0])
  norm = tf.reduce_logsumexp(last, 1)
  return tf.where(lengths > 0, norm, tf.zeros_like(norm))


def crf_log_likelihood(
  inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[tf.Tensor, Any]:
  """Returns (the log-likelihood of the tags, [batch]; the transitions).

  Without transition_params, this makes the variable `transitions`.
  """
  inputs = tf.convert_to_tensor(inputs)
  if transition_params is None:
    tags = inputs.shape[2]
    transition_params = v1.get_variable("transitions", [tags, tags])
  scores = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
  return scores - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_decode(
  potentials: Any, transition_params: Any, sequence_length: Any
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (the best tags, int32 [batch, time], 0 after the end; their score, [batch])."""
  potentials, lengths = tf.convert_to_tensor(potentials), tf.cast(sequence_length, tf.int32)
  same = tf.zeros_like(potentials[:, 0], tf.int32) + tf.range(tf.shape(potentials)[2])

  def forward(
    state: tuple[tf.Tensor, tf.Tensor], given: tuple[tf.Tensor, tf.Tensor]
  ) -> tuple[tf.Tensor, tf.Tensor]:
    before, _ = state
    now, time = given
    scores = before[:, :, tf.newaxis] + transition_params
    is_inside = (time < lengths)[:, tf.newaxis]
    after = tf.where(is_inside, now + tf.reduce_max(scores, 1), before)
    return after, tf.where(is_inside, tf.argmax(scores, 1, tf.int32), same)

  first = potentials[:, 0]
  scores, pointers = tf.scan(forward, _after_the_first(potentials), (first, same))
  last = tf.concat([first[tf.newaxis], scores], 0)[-1]
  tag = tf.argmax(last, 1, tf.int32)
  tags = tf.scan(
    lambda after, to: tf.gather(to, after, axis=1, batch_dims=1), pointers, tag, reverse=True
  )
  tags = tf.transpose(tf.concat([tags, tag[tf.newaxis]], 0))
  inside = tf.sequence_mask(lengths, tf.shape(potentials)[1], tf.int32)
  tags.set_shape(potentials.shape[:2])
  return tags * inside, tf.reduce_max(last, 1)


def viterbi_decode(score: np.ndarray, transition_params: np.ndarray) -> tuple[list[int], float]:
  """Returns (the best tags, their score) of one sequence, in NumPy."""
  before, pointers = np.asarray(score[0]), []
  for potentials in score[1:]:
    scores = before[:, np.newaxis] + transition_params
    pointers.append(scores.argmax(0))
    before = potentials + scores.max(0)
  tags = [int(before.argmax())]
  for to in reversed(pointers):
    tags.append(int(to[tags[-1]]))
  return tags[::-1], before.max()


def _after_the_first(inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (the potentials of all times but the first, time first; these times)."""
  return tf.transpose(inputs[:, 1:], [1, 0, 2]), tf.range(1, tf.shape(inputs)[1])


def _mask(lengths: Any, like: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
  return tf.sequence_mask(lengths, size, like.dtype)
