"""Computes a part of a model_fn again for its gradient, instead of keeping its values.

    with keras.RematScope(mode="full"):
      dense = keras.layers.Dense(4096)        # each call of this layer
    block = tf.recompute_grad(block)          # or a function of tensors

Both end in `tf.recompute_grad`, which calls the function a second time for the gradients. Inside a
model_fn, the second call must see the names and random numbers of the first call, and must change
no variable. Otherwise dropout would drop other values than in the loss, a batch norm would move its
averages twice, and layers made in the function would get new variables.
"""

import contextlib
import contextvars
import functools
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import patches
from trainer.tracing import assignments

# Operations that draw other numbers each time, whatever their seed.
_DRAWS = re.compile(
  r"RandomUniform(Int)?|RandomStandardNormal|RandomGamma|RandomPoisson\w*|RandomShuffle"
  r"|(Parameterized)?TruncatedNormal|Multinomial"
)

# Functions of the current replica. Each returns a function that makes contexts in which a trace
# repeats the state of that moment.
_AsNow = Callable[[], Callable[[], contextlib.AbstractContextManager[None]]]
_replica: contextvars.ContextVar[tuple[_AsNow, ...]] = contextvars.ContextVar(
  "how this replica repeats what it traces", default=()
)


def replica_scope(*as_now: _AsNow) -> contextlib.AbstractContextManager[None]:
  """Returns a context for the trace of a replica.

  Args:
    *as_now: each returns a function that makes contexts with the state of the call.
  """
  return patches.set_context(_replica, as_now)


@patches.replaces(tf, "recompute_grad", inside=_replica)
def _recompute_grad(original, f):
  @functools.wraps(f)
  def rematerialized(*args, **kwargs):
    # TensorFlow takes tensors alone, and in a graph no keywords.
    leaves = tf.nest.flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if tf.is_tensor(leaf)]
    # The contexts of f's calls: the first call with the current state, later calls with the same.
    contexts = [contextlib.nullcontext, _as_now()]

    def call(*tensors):
      given = list(leaves)
      for place, tensor in zip(places, tensors, strict=True):
        given[place] = tensor
      own_args, own_kwargs = tf.nest.pack_sequence_as((args, kwargs), given)
      context = contexts.pop(0) if len(contexts) > 1 else contexts[0]
      with context():
        return f(*own_args, **own_kwargs)

    return original(call)(*(leaves[place] for place in places))

  return rematerialized


def _as_now() -> Callable[[], Any]:
  """Returns a function that makes contexts in which a trace repeats the next one."""
  states = [as_now() for as_now in _replica.get()]
  scope = tf.get_current_name_scope()

  @contextlib.contextmanager
  def again():
    graph: Any = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    with contextlib.ExitStack() as stack:
      for state in states:
        stack.enter_context(state())
      stack.enter_context(tf.name_scope(f"{scope}/" if scope else ""))
      stack.enter_context(assignments.leave_out(lambda handle: True))
      yield
    for operation in graph.get_operations()[before:]:
      if _DRAWS.fullmatch(operation.type):
        raise errors.ModelFnError(
          f"The operation {operation.type} ({operation.name}) is inside of tf.recompute_grad or "
          "keras.RematScope, and would draw other numbers when TensorFlow repeats it: draw them "
          "outside, or use Keras's layers, keras.random or tf.random.stateless_*."
        )

  return again
