"""Refuses operations that only a TPU can run.

`xla.replica_id()` of `tensorflow.compiler.tf2xla.python` has kernels for CPUs and GPUs. When one
runs, also in a function with `jit_compile=True`, the process ends with SIGSEGV.
"""

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import tensorflow_internals
from trainer.tracing import user_frames


def check(function: Any, model_name: str) -> None:
  """Checks a function that was traced for any device.

  Args:
    function: the tf.types.experimental.ConcreteFunction.
    model_name: that of the model_fn.

  Raises:
    ModelFnError: an operation of the function would end the process. The message names its line.
  """
  for operation in _not_on_a_tpu(function.graph, set()):
    if operation.type == "XlaReplicaId":
      where = user_frames.where([(frame.filename, frame.lineno) for frame in operation.traceback])
      raise errors.ModelFnError(
        f"model_fn {model_name}: xla.replica_id(){where} works on a TPU alone and ends the "
        "process elsewhere: take tf.distribute.get_replica_context().replica_id_in_sync_group, "
        "which works on every device."
      )


def _not_on_a_tpu(graph: tf.Graph, seen: set[str]) -> Iterator[tf.Operation]:
  """Yields the operations of a graph, and of the functions that it calls, but those of a TPU.

  Args:
    graph: the graph.
    seen: names of the functions that were called so far; it grows.
  """
  for operation in graph.get_operations():
    attributes = operation.node_def.attr
    if "_tpu_replicate" in attributes:
      continue
    yield operation
    for attribute in attributes.values():
      if attribute.HasField("func") and attribute.func.name not in seen:
        seen.add(attribute.func.name)
        called = tensorflow_internals.function_named(graph, attribute.func.name)
        if called is not None:
          yield from _not_on_a_tpu(called.graph, seen)
