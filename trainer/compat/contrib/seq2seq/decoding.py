"""Decoders, and the loop that runs a decoder."""

import collections
from typing import Any

import tensorflow as tf

from trainer.tracing import variable_store

v1 = tf.compat.v1


class Decoder:
  """Base class of decoders for dynamic_decode.

  Attributes:
    batch_size: scalar.
    output_size: nest of the shapes of an example's output in a step.
    output_dtype: nest of its dtypes.
    tracks_own_finished: whether `step` returns the finished examples of all steps, not only of the
      current step.
  """

  batch_size: Any
  output_size: Any
  output_dtype: Any
  tracks_own_finished = False

  def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any, Any]:
    """Returns (finished examples as bools, the first inputs, the first state)."""
    raise NotImplementedError

  def step(
    self, time: Any, inputs: Any, state: Any, name: str | None = None
  ) -> tuple[Any, Any, Any, tf.Tensor]:
    """Returns (outputs, next state, next inputs, finished examples as bools)."""
    raise NotImplementedError

  def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
    """Returns (outputs, final state) of all steps; outputs are [time, batch, ...]."""
    del sequence_lengths
    return outputs, final_state


class BasicDecoderOutput(collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))):
  """A BasicDecoder's output: the cell's outputs or logits, and the chosen ids."""


class BasicDecoder(Decoder):
  """Runs a cell with inputs from a Helper.

  Args:
    cell: a cell of tf.nn.rnn_cell.
    helper: a Helper.
    initial_state: the cell's state.
    output_layer: layer that makes logits from the cell's outputs, or None.
  """

  def __init__(self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None):
    self._cell, self._helper = cell, helper
    self._initial_state, self._output_layer = initial_state, output_layer

  @property
  def batch_size(self) -> Any:
    return self._helper.batch_size

  @property
  def output_size(self) -> BasicDecoderOutput:
    size = output_size(self._cell, self._output_layer)
    return BasicDecoderOutput(size, self._helper.sample_ids_shape)

  @property
  def output_dtype(self) -> BasicDecoderOutput:
    dtype = tf.nest.flatten(self._initial_state)[0].dtype
    outputs = tf.nest.map_structure(lambda _: dtype, self._cell.output_size)
    return BasicDecoderOutput(outputs, self._helper.sample_ids_dtype)

  def initialize(self, name: str | None = None) -> tuple[tf.Tensor, Any, Any]:
    return (*self._helper.initialize(), self._initial_state)

  def step(
    self, time: Any, inputs: Any, state: Any, name: str | None = None
  ) -> tuple[Any, Any, Any, tf.Tensor]:
    outputs, state = self._cell(inputs, state)
    if self._output_layer is not None:
      outputs = self._output_layer(outputs)
    said = self._helper.sample(time=time, outputs=outputs, state=state)
    finished, inputs, state = self._helper.next_inputs(
      time=time, outputs=outputs, state=state, sample_ids=said
    )
    return BasicDecoderOutput(outputs, said), state, inputs, finished


def output_size(cell: Any, layer: Any) -> Any:
  """Returns the shapes of an example's output from a cell, or from the layer after it."""
  if layer is None:
    return tf.nest.map_structure(lambda size: tf.TensorShape(size).as_list(), cell.output_size)
  if hasattr(layer, "units"):
    return [layer.units]
  (size,) = tf.nest.flatten(cell.output_size)
  return tf.TensorShape(layer.compute_output_shape([None, size]))[1:].as_list()


def dynamic_decode(
  decoder: Decoder,
  output_time_major: bool = False,
  impute_finished: bool = False,
  maximum_iterations: Any = None,
  parallel_iterations: int = 32,
  swap_memory: bool = False,
  scope: Any = None,
) -> tuple[Any, Any, tf.Tensor]:
  """Runs a decoder until it has finished all examples.

  Args:
    decoder: the decoder.
    output_time_major: whether outputs are [time, batch, ...].
    impute_finished: whether the outputs of finished examples are zeros, and their states stay.
    maximum_iterations: the most steps, or None. XLA devices need it: outputs there have this
      length.
    parallel_iterations: the number of steps that may run at the same time.
    swap_memory: whether the host keeps tensors for the backward pass.
    scope: the scope of variables; default: "decoder".

  Returns:
    (outputs, final state, lengths): outputs are [batch, time, ...]; lengths are int32 [batch].

  Raises:
    ValueError: maximum_iterations is missing on XLA devices.
  """
  store = variable_store.current()
  is_xla = store is not None and store.on_xla is not None
  if is_xla and maximum_iterations is None:
    raise ValueError("maximum_iterations is required for XLA compilation.")
  with v1.variable_scope(scope, "decoder"):
    finished, inputs, state = decoder.initialize()
    lengths = tf.zeros_like(finished, tf.int32)
    kept = [
      tf.TensorArray(
        dtype,
        size=0 if maximum_iterations is None else maximum_iterations,
        dynamic_size=maximum_iterations is None,
        element_shape=[tf.get_static_value(decoder.batch_size), *tf.TensorShape(size).as_list()],
      )
      for dtype, size in zip(_flat(decoder.output_dtype), _shapes(decoder), strict=True)
    ]
    if maximum_iterations is not None:
      finished |= tf.convert_to_tensor(maximum_iterations) <= 0

    def step(time, kept, state, inputs, finished, lengths):
      outputs, next_state, inputs, next_finished = decoder.step(time, inputs, state)
      if not decoder.tracks_own_finished:
        next_finished |= finished
      lengths = tf.where(finished, lengths, time + 1)
      if decoder.tracks_own_finished and hasattr(next_state, "lengths"):  # beams change places
        lengths = tf.cast(next_state.lengths, tf.int32)
      if impute_finished:
        outputs = tf.nest.map_structure(
          lambda new: _where(finished, tf.zeros_like(new), new), outputs
        )
        next_state = tf.nest.map_structure(
          lambda old, new: new if _is_of_all(new) else _where(finished, old, new), state, next_state
        )
      tf.nest.assert_same_structure(state, next_state)
      kept = [array.write(time, out) for array, out in zip(kept, _flat(outputs), strict=True)]
      return time + 1, kept, next_state, inputs, next_finished, lengths

    time, kept, state, _, _, lengths = tf.while_loop(
      lambda time, kept, state, inputs, finished, lengths: ~tf.reduce_all(finished),
      step,
      (tf.constant(0), kept, state, inputs, finished, lengths),
      parallel_iterations=parallel_iterations,
      swap_memory=swap_memory,
      maximum_iterations=maximum_iterations,
    )
    stacked = [array.stack() if is_xla else array.stack()[:time] for array in kept]
    outputs = tf.nest.pack_sequence_as(decoder.output_dtype, stacked)
    outputs, state = decoder.finalize(outputs, state, lengths)
    if not output_time_major:
      outputs = tf.nest.map_structure(_by_batch, outputs)
    return outputs, state, lengths


def _flat(nest: Any) -> list[Any]:
  return tf.nest.flatten(nest)


def _shapes(decoder: Decoder) -> list[Any]:
  """Returns the shapes of output_size as whole objects: tf.nest would flatten them."""
  shapes: list[Any] = []
  tf.__internal__.nest.map_structure_up_to(
    decoder.output_dtype, lambda _, shape: shapes.append(shape), decoder.output_dtype,
    decoder.output_size,
  )  # fmt: skip
  return shapes


def _is_of_all(state: Any) -> bool:
  """Returns whether a state has no entry for each example: a TensorArray, or the time."""
  return isinstance(state, tf.TensorArray) or state.shape.rank == 0


def _where(chosen: tf.Tensor, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
  for _ in range(one.shape.rank - chosen.shape.rank):
    chosen = chosen[..., tf.newaxis]
  return tf.where(chosen, one, other)


def _by_batch(tensor: tf.Tensor) -> tf.Tensor:
  return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.rank)])
