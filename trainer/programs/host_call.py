"""Calls the function of a host_call with the tensors of the scheduled steps."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.reporting import summaries


@dataclasses.dataclass(frozen=True)
class HostCall:
  """Calls the functions of host_calls during the trace of device loops.

  Attributes:
    every: number of steps between two calls.
    writers: the summary writers of the functions.
  """

  every: int
  writers: list = dataclasses.field(default_factory=list)

  def add(self, fn: Callable | None, step: tf.Tensor, tensors: Any) -> None:
    """Adds the call to the function in trace.

    Args:
      fn: the function; None without a host_call.
      step: int64 scalar, the step of the tensors.
      tensors: its arguments, a list or a dict.
    """
    if fn is None:
      return

    def call():
      with tf.device("/cpu:0"), tf.name_scope(""), summaries.keep_writers(self.writers):
        fn(**tensors) if isinstance(tensors, dict) else fn(*tensors)
      return True

    if self.every == 1:
      call()  # a condition would keep the loop from being light, see `executor`
    else:
      tf.cond(tf.equal(step % self.every, 0), call, lambda: False)
