"""An operation that would end the process is an error that names its line."""

import re

import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from trainer import errors
from trainer.programs import tpu_only

ids = {
  "at the top": lambda x: xla.replica_id(),
  "in a branch": lambda x: tf.cond(x > 0, xla.replica_id, lambda: tf.constant(1)),
  "in a loop": lambda x: tf.while_loop(
    lambda done: done < 3, lambda done: done + 1 + xla.replica_id(), [tf.constant(0)]
  ),
  "in a function": lambda x: tf.function(xla.replica_id)(),
  "in a function that XLA compiles": lambda x: tf.function(xla.replica_id, jit_compile=True)(),
}


def traced(fn):
  function = tf.function(fn, autograph=False)
  return function.get_concrete_function(tf.TensorSpec([], tf.float32))


@pytest.mark.parametrize("where", ids)
def test_it_is_found(where):
  line = rf"\({re.escape(__file__)}:\d+\)"
  with pytest.raises(errors.ModelFnError, match=rf"model_fn mine: xla.replica_id\(\) {line} works"):
    tpu_only.check(traced(ids[where]), "mine")
