"""Refuses operations that only XLA devices (`--device=tpu`, `xla:N`) can run.

`xla.replica_id()` of `tensorflow.compiler.tf2xla.python` has kernels for CPUs and GPUs. When one
runs, also in a function with `jit_compile=True`, the process ends with SIGSEGV.
"""

import tensorflow as tf

from trainer import errors
from trainer.programs import graph_operations
from trainer.tracing import user_frames


def check(function: tf.types.experimental.ConcreteFunction, model_name: str) -> None:
  """Checks a function for TensorFlow.

  Raises:
    ModelFnError: an operation of the function would kill the process. The message names its line.
  """
  for operation in graph_operations.walk(function.graph):
    if operation.type == "XlaReplicaId":
      where = user_frames.where(graph_operations.frames_of(operation))
      raise errors.ModelFnError(
        f"model_fn {model_name}: xla.replica_id(){where} works on XLA devices alone and ends the "
        "process elsewhere: take tf.distribute.get_replica_context().replica_id_in_sync_group. It "
        "works on every device."
      )
