"""Which of TensorFlow's executors runs a training loop on a CPU.

The usual one hands each operation that is ready to a thread that is free, which pays where
operations take long. In a step of operations of a microsecond, waking threads takes longer than the
work: there the executor that does one after another is faster, by about 1.6 for the digits.

Both compute the same operations. Whether their results are equal to the last bit hangs on the
processor: they are on an Intel Xeon, and differ by 6e-8 on an AMD EPYC. Each of them gives its own
bits again. The choice goes by what a step computes, never by the clock or the processor, so that a
program has the same executor each time, and on the same machine the same bits.
"""

import contextlib

import tensorflow as tf

from trainer.internals import tensorflow_internals

# Floating-point operations of a step up to which a single thread is faster. Measured on two cores
# of an Intel Xeon, dense networks with Adam: 1.7 times as fast at 1.7 million and 1.5 at 6.5
# million, 0.7 at 26 million and beyond.
LIGHT_FLOPS = 10_000_000
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
  "Resize",
)


def mark_for_single_thread(loop):
  """Whether a tf.while_loop that was just traced is to run in a single thread; if so, it is marked
  for that.

  Args:
    loop: the loop's operation.
  """
  if loop.type not in ("While", "StatelessWhile"):
    return False
  body = tensorflow_internals.function_named(loop.graph, loop.get_attr("body").name)
  if body is None or not is_light(body.graph):
    return False
  # That executor has loops as operations only.
  tensorflow_internals.set_attribute(loop, "_lower_using_switch_merge", b=False)
  return True


def is_light(graph):
  """Whether all that a graph does is known to be at most LIGHT_FLOPS."""
  total = 0
  for operation in graph.get_operations():
    if operation.type.startswith(_COSTLY) or any(
      attribute.HasField("func") for attribute in operation.node_def.attr.values()
    ):
      return False
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


def single_thread(wanted):
  """A context in which functions are run by the executor with a single thread, if that is
  wanted.
  """
  return tensorflow_internals.single_thread() if wanted else contextlib.nullcontext()
