"""tf.contrib.rnn.stack_bidirectional_dynamic_rnn: a stack of bidirectional layers."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def stack_bidirectional_dynamic_rnn(
  cells_fw: Sequence[Any],
  cells_bw: Sequence[Any],
  inputs: Any,
  initial_states_fw: Sequence[Any] | None = None,
  initial_states_bw: Sequence[Any] | None = None,
  dtype: Any = None,
  sequence_length: Any = None,
  parallel_iterations: int | None = None,
  time_major: bool = False,
  scope: Any = None,
) -> tuple[tf.Tensor, tuple, tuple]:
  """Returns (the last layer's outputs of both directions, last states forward, and backward).

  Each layer, in the scope `stack_bidirectional_rnn/cell_0`, `.../cell_1` and so on, reads both
  directions of the layer below.

  Raises:
    ValueError: the directions have different numbers of cells, or none.
  """
  if not cells_fw or not cells_bw or len(cells_fw) != len(cells_bw):
    raise ValueError("Forward and Backward cells must be non-empty lists of the same depth.")
  of_fw = initial_states_fw or [None] * len(cells_fw)
  of_bw = initial_states_bw or [None] * len(cells_bw)
  if len(of_fw) != len(cells_fw) or len(of_bw) != len(cells_bw):
    raise ValueError("initial_states must be lists with a state for each cell.")
  states_fw, states_bw = [], []
  with v1.variable_scope(scope or "stack_bidirectional_rnn"):
    for index, cells in enumerate(zip(cells_fw, cells_bw, of_fw, of_bw, strict=True)):
      with v1.variable_scope(f"cell_{index}"):
        outputs, (fw, bw) = v1.nn.bidirectional_dynamic_rnn(
          *cells[:2],
          inputs,
          initial_state_fw=cells[2],
          initial_state_bw=cells[3],
          sequence_length=sequence_length,
          parallel_iterations=parallel_iterations,
          dtype=dtype,
          time_major=time_major,
        )
        inputs = tf.concat(outputs, 2)
      states_fw.append(fw)
      states_bw.append(bw)
  return inputs, tuple(states_fw), tuple(states_bw)
