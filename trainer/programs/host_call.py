"""Calls the function of a host_call with the tensors of the steps that are due."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer.reporting import summaries


@dataclasses.dataclass(frozen=True)
class HostCall:
  """Calls the functions of host_calls while device loops are traced.

  Attributes:
    every: number of steps from one call to the next.
    writers: the summary writers that the functions have created.
  """

  every: int
  writers: list = dataclasses.field(default_factory=list)

  def add(self, fn: Callable | None, step: tf.Tensor, tensors: Any) -> None:
    """Adds the call to the function that is being traced.

    Args:
      fn: the function; None without a host_call.
      step: int64 scalar, the number of the step that the tensors are from.
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
