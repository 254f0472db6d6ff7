"""Chooses the TensorFlow executor that runs a training loop on a CPU.

TensorFlow's default executor hands each ready operation to a free thread. This pays for long
operations. If an operation takes a microsecond, waking a thread takes longer than the work, and the
single-threaded executor is faster: by about 1.6 for the digits model.

Both executors compute the same operations. Whether they agree to the last bit depends on the
processor: they do on an Intel Xeon, and differ by 6e-8 on an AMD EPYC. An executor gives the same
bits each time. The choice depends on the arithmetic of a step only, never on the clock or the
processor. A program therefore always has the same executor, and on one machine the same bits.
"""

import contextlib

import tensorflow as tf

from trainer.internals import tensorflow_internals

# The largest number of floating-point operations of a light step, for which one thread is faster.
# Measured on two cores of an Intel Xeon, dense networks with Adam: one thread was 1.7 times as fast
# at 1.7 million operations, 1.5 times at 6.5 million, and 0.7 times from 26 million on.
LIGHT_FLOPS = 10_000_000
# Operations that are never light, by the start of their type.
_COSTLY = (
  "Conv",
  "MaxPool",
  "AvgPool",
  "Einsum",
  "BatchMatMul",
  "FFT",
  "Svd",
  "Qr",
  "Cholesky",
  "Xla",
  "PyFunc",
  "EagerPyFunc",
  "Resize",
)


def mark_for_single_thread(loop: tf.Operation) -> bool:
  """Marks a tf.while_loop for the single-threaded executor if its body is light.

  Args:
    loop: the operation of the loop, just traced.

  Returns:
    Whether the loop is light. If so, run its function under `single_thread(True)`.
  """
  if loop.type not in ("While", "StatelessWhile"):
    return False
  body = tensorflow_internals.function_named(loop.graph, loop.get_attr("body").name)
  if body is None or not is_light(body.graph):
    return False
  # TensorFlow would lower the loop to Switch and Merge operations, which this executor cannot run.
  tensorflow_internals.set_attribute(loop, "_lower_using_switch_merge", b=False)
  return True


def is_light(graph: tf.Graph) -> bool:
  """Returns whether a graph certainly computes at most LIGHT_FLOPS floating-point operations."""
  total = 0
  for operation in graph.get_operations():
    if operation.type.startswith(_COSTLY) or any(
      attribute.HasField("func") for attribute in operation.node_def.attr.values()
    ):
      return False
    # One operation per output element; a matrix product has a multiplication and an addition for
    # each term of its sums.
    sizes = [
      output.shape.num_elements()
      for output in operation.outputs
      if output.dtype not in (tf.resource, tf.variant)
    ]
    if None in sizes:
      return False
    terms = (
      operation.inputs[0]
      .shape.with_rank(2)
      .as_list()[0 if operation.get_attr("transpose_a") else 1]
      if operation.type == "MatMul"
      else 1
    )
    if terms is None:
      return False
    total += sum(sizes) * (2 * terms if operation.type == "MatMul" else 1)
  return total <= LIGHT_FLOPS


def single_thread(wanted: bool) -> contextlib.AbstractContextManager[None]:
  """Returns a context in which functions run on the single-threaded executor, if `wanted`."""
  return tensorflow_internals.single_thread() if wanted else contextlib.nullcontext()
