"""Functions without variables, compiled by XLA from what functionalize makes of them."""

import tensorflow as tf

from trainer.programs import functionalize, lowering


def compiled(function, *specs):
  """A tf.function that XLA compiles; it returns the list of the function's flat results."""
  traced = tf.function(function, autograph=False).get_concrete_function(*specs)
  made = functionalize.Functionalized(traced)
  return tf.function(lambda *given: made.call([], given), jit_compile=True, autograph=False)


def lowered(traced):
  """The HLO of a traced function, serialized."""
  functionalized = lowering.functionalize_traced(traced)
  return lowering.lower(functionalized, [f"variable {n}" for n in range(len(traced.inputs))])
