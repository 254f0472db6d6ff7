"""Attention of Luong and Bahdanau, and a cell with attention.

Variables have the names of TensorFlow 1: `memory_layer/kernel` at the construction of a mechanism,
and `attention_wrapper/bahdanau_attention/query_layer/kernel` inside a cell.
"""

import collections
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.compat.layers.legacy import Dense
from trainer.internals.tensorflow_internals import RNN_CELLS

v1 = tf.compat.v1


class AttentionMechanism:
  """Computes how much each position of a memory counts for a query.

  Args:
    query_layer: layer for queries, or None.
    memory: [batch, time, ...].
    probability_fn: function of scores [batch, time]; None: softmax.
    memory_sequence_length: [batch], or None: positions after the length do not count.
    memory_layer: layer that makes keys from the memory; None: the memory itself.
    score_mask_value: the score of positions that do not count; None: minus infinity.

  Attributes:
    values: the memory, with zeros after its length.
    keys: the keys, which the score compares with queries.
    batch_size, alignments_size: the memory's sizes.
  """

  def __init__(
    self,
    query_layer: Any,
    memory: tf.Tensor,
    probability_fn: Callable | None = None,
    memory_sequence_length: Any = None,
    memory_layer: Any = None,
    score_mask_value: Any = None,
  ):
    self.query_layer, self.memory_layer = query_layer, memory_layer
    self._probability_fn = probability_fn or tf.nn.softmax
    memory = tf.convert_to_tensor(memory, name="memory")
    self._mask: tf.Tensor | None = None
    if memory_sequence_length is not None:
      self._mask = tf.sequence_mask(memory_sequence_length, tf.shape(memory)[1])
      mask = tf.cast(self._mask, memory.dtype)
      memory *= tf.reshape(mask, [*tf.unstack(tf.shape(mask)), *[1] * (memory.shape.rank - 2)])
    self._mask_value = (
      memory.dtype.as_numpy_dtype("-inf") if score_mask_value is None else score_mask_value
    )
    self.values = memory
    self.keys = memory if memory_layer is None else memory_layer(memory)
    self.batch_size = self.keys.shape[0] or tf.shape(self.keys)[0]
    self.alignments_size = self.keys.shape[1] or tf.shape(self.keys)[1]

  def score(self, query: tf.Tensor) -> tf.Tensor:
    """Returns the scores [batch, time] of a query [batch, ...]."""
    raise NotImplementedError

  def __call__(self, query: tf.Tensor, state: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (alignments [batch, time], the next state, equal to the alignments)."""
    del state
    score = self.score(query)
    if self._mask is not None:
      score = tf.where(self._mask, score, tf.cast(self._mask_value, score.dtype))
    alignments = self._probability_fn(score)
    return alignments, alignments

  def initial_alignments(self, batch_size: Any, dtype: Any) -> tf.Tensor:
    """Returns zeros [batch, time]."""
    return tf.zeros([batch_size, self.alignments_size], dtype)

  initial_state = initial_alignments

  @property
  def state_size(self) -> Any:
    return self.alignments_size


class LuongAttention(AttentionMechanism):
  """Attention by the product of query and key. See https://arxiv.org/abs/1508.04025.

  Args:
    num_units: the width of queries and keys.
    memory, memory_sequence_length, probability_fn, score_mask_value: as AttentionMechanism.
    scale: whether a variable scales the scores.
    dtype: the layer's dtype.
    name: the scope's name.
  """

  def __init__(
    self,
    num_units: int,
    memory: tf.Tensor,
    memory_sequence_length: Any = None,
    scale: bool = False,
    probability_fn: Callable | None = None,
    score_mask_value: Any = None,
    dtype: Any = None,
    name: str = "LuongAttention",
  ):
    layer = Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype or tf.float32)
    super().__init__(None, memory, probability_fn, memory_sequence_length, layer, score_mask_value)
    self._num_units, self._scale, self._name = num_units, scale, name

  def score(self, query: tf.Tensor) -> tf.Tensor:
    with v1.variable_scope(None, "luong_attention", [query]):
      width = self.keys.shape[-1]
      if query.shape[-1] != width:
        raise ValueError(
          f"Incompatible or unknown inner dimensions between query and keys: query is {query}, "
          f"keys are {self.keys}. Perhaps num_units must be {query.shape[-1]}."
        )
      found = tf.matmul(query[:, tf.newaxis], self.keys, transpose_b=True)[:, 0]
      if not self._scale:
        return found
      return found * v1.get_variable("attention_g", (), query.dtype, tf.ones_initializer())


class BahdanauAttention(AttentionMechanism):
  """Attention by a layer over the sum of query and key. See https://arxiv.org/abs/1409.0473.

  Args:
    num_units: the layer's width.
    memory, memory_sequence_length, probability_fn, score_mask_value: as AttentionMechanism.
    normalize: whether to normalize the layer's weights.
    dtype: the layers' dtype.
    name: the scope's name.
  """

  def __init__(
    self,
    num_units: int,
    memory: tf.Tensor,
    memory_sequence_length: Any = None,
    normalize: bool = False,
    probability_fn: Callable | None = None,
    score_mask_value: Any = None,
    dtype: Any = None,
    name: str = "BahdanauAttention",
  ):
    make = functools.partial(Dense, num_units, use_bias=False, dtype=dtype or tf.float32)
    super().__init__(
      make(name="query_layer"),
      memory,
      probability_fn,
      memory_sequence_length,
      make(name="memory_layer"),
      score_mask_value,
    )
    self._num_units, self._normalize, self._name = num_units, normalize, name

  def score(self, query: tf.Tensor) -> tf.Tensor:
    with v1.variable_scope(None, "bahdanau_attention", [query]):
      hidden = self.keys + self.query_layer(query)[:, tf.newaxis]
      weights = v1.get_variable("attention_v", [self._num_units], query.dtype)
      if self._normalize:
        first = tf.constant_initializer((1.0 / self._num_units) ** 0.5)
        length = v1.get_variable("attention_g", (), query.dtype, first)
        bias = v1.get_variable(
          "attention_b", [self._num_units], query.dtype, tf.zeros_initializer()
        )
        weights = length * weights * tf.math.rsqrt(tf.reduce_sum(tf.square(weights)))
        hidden += bias
      return tf.reduce_sum(weights * tf.tanh(hidden), 2)


class AttentionWrapperState(
  collections.namedtuple(
    "AttentionWrapperState",
    ("cell_state", "attention", "time", "alignments", "alignment_history", "attention_state"),
  )
):
  """The state of an AttentionWrapper."""

  def clone(self, **changes: Any) -> "AttentionWrapperState":
    """Returns a copy with other values; `decoder_initial_state.clone(cell_state=encoder_state)`.

    Raises:
      ValueError: a value has another shape.
    """
    made = self._replace(**changes)
    tf.nest.assert_same_structure(self, made)

    def checked(old: Any, new: Any) -> Any:
      if tf.is_tensor(old) and tf.is_tensor(new):
        new.set_shape(old.shape)
      return new

    return tf.nest.map_structure(checked, self, made)


class AttentionWrapper(RNN_CELLS.RNNCell):
  """A cell that also reads the attention of its previous output over a memory.

  Args:
    cell: a cell of tf.nn.rnn_cell.
    attention_mechanism: one mechanism, or several.
    attention_layer_size: width of a layer over output and context, or None: the attention is the
      context. A list for several mechanisms.
    alignment_history: whether the state keeps the alignments of all steps.
    cell_input_fn: function of (inputs, attention); default: concatenates both.
    output_attention: whether the output is the attention instead of the cell's output.
    initial_cell_state: the cell's state in zero_state.
    name: the scope's name.
    attention_layer: layers instead of attention_layer_size.
  """

  def __init__(
    self,
    cell: Any,
    attention_mechanism: Any,
    attention_layer_size: Any = None,
    alignment_history: bool = False,
    cell_input_fn: Callable | None = None,
    output_attention: bool = True,
    initial_cell_state: Any = None,
    name: str | None = None,
    attention_layer: Any = None,
  ):
    super().__init__(name=name or "attention_wrapper")
    self._is_multi = isinstance(attention_mechanism, list | tuple)
    self._mechanisms = list(attention_mechanism) if self._is_multi else [attention_mechanism]
    if attention_layer_size is not None and attention_layer is not None:
      raise ValueError("Only one of attention_layer_size and attention_layer should be set")
    sizes = _each(attention_layer_size)
    self._layers = _each(attention_layer) or [
      Dense(size, name="attention_layer", use_bias=False, dtype=one.values.dtype)
      for size, one in zip(sizes, self._mechanisms, strict=False)
    ]
    if self._layers and len(self._layers) != len(self._mechanisms):
      raise ValueError(
        f"Got {len(self._layers)} attention layers for {len(self._mechanisms)} mechanisms."
      )
    widths = (
      sizes
      or [getattr(layer, "units", None) for layer in self._layers]
      or [one.values.shape[-1] for one in self._mechanisms]
    )
    self._attention_size = sum(widths)
    self._cell, self._keeps_history = cell, alignment_history
    self._cell_input_fn = cell_input_fn or (
      lambda inputs, attention: tf.concat([inputs, attention], -1)
    )
    self._output_attention, self._initial_cell_state = output_attention, initial_cell_state

  @property
  def output_size(self) -> Any:
    return self._attention_size if self._output_attention else self._cell.output_size

  @property
  def state_size(self) -> AttentionWrapperState:
    sizes = self._of_mechanisms([one.alignments_size for one in self._mechanisms])
    return AttentionWrapperState(
      cell_state=self._cell.state_size,
      time=tf.TensorShape([]),
      attention=self._attention_size,
      alignments=sizes,
      attention_state=self._of_mechanisms([one.state_size for one in self._mechanisms]),
      alignment_history=sizes if self._keeps_history else self._of_mechanisms(
        [()] * len(self._mechanisms)
      ),
    )  # fmt: skip

  def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
    """Returns the state before the first step."""
    with tf.name_scope("AttentionWrapperZeroState"):
      alignments = [one.initial_alignments(batch_size, dtype) for one in self._mechanisms]
      histories: list[Any] = [()] * len(alignments)
      if self._keeps_history:
        histories = [
          tf.TensorArray(dtype, size=0, dynamic_size=True, element_shape=each.shape)
          for each in alignments
        ]
      cell_state = self._initial_cell_state
      if cell_state is None:
        cell_state = self._cell.zero_state(batch_size, dtype)
      return AttentionWrapperState(
        cell_state=tf.nest.map_structure(tf.identity, cell_state),
        time=tf.zeros([], tf.int32),
        attention=tf.zeros([batch_size, self._attention_size], dtype),
        alignments=self._of_mechanisms(alignments),
        attention_state=self._of_mechanisms(
          [one.initial_state(batch_size, dtype) for one in self._mechanisms]
        ),
        alignment_history=self._of_mechanisms(histories),
      )

  def call(self, inputs: Any, state: AttentionWrapperState) -> tuple[Any, AttentionWrapperState]:
    """Runs a step; returns (outputs, the next state)."""
    if not isinstance(state, AttentionWrapperState):
      raise TypeError(
        f"Expected state to be instance of AttentionWrapperState. Received type {type(state)}."
      )
    given = self._cell_input_fn(inputs, state.attention)
    output, cell_state = self._cell(given, state.cell_state)
    attentions, alignments, states, histories = [], [], [], []
    for index, mechanism in enumerate(self._mechanisms):
      before = self._list(state.attention_state)[index]
      found, after = mechanism(output, state=before)
      context = tf.matmul(found[:, tf.newaxis], mechanism.values)[:, 0]
      if self._layers:
        context = self._layers[index](tf.concat([output, context], 1))
      history = self._list(state.alignment_history)[index]
      attentions.append(context)
      alignments.append(found)
      states.append(after)
      histories.append(history.write(state.time, found) if self._keeps_history else ())
    attention = tf.concat(attentions, 1)
    made = AttentionWrapperState(
      cell_state=cell_state,
      time=state.time + 1,
      attention=attention,
      alignments=self._of_mechanisms(alignments),
      attention_state=self._of_mechanisms(states),
      alignment_history=self._of_mechanisms(histories),
    )
    return (attention if self._output_attention else output), made

  def _of_mechanisms(self, found: list[Any]) -> Any:
    return tuple(found) if self._is_multi else found[0]

  def _list(self, of_mechanisms: Any) -> list[Any]:
    return list(of_mechanisms) if self._is_multi else [of_mechanisms]


def _each(given: Any) -> list[Any]:
  if given is None:
    return []
  return list(given) if isinstance(given, list | tuple) else [given]
