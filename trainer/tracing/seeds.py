"""Random numbers that come from the run's seed, and from nothing that happened before.

A number that the process draws on the way (Python's `random`, TensorFlow's eager generator) depends
on what was traced first and on how often the run was restarted. Here every seed is a function of
the run's seed and of a name, so that one replica and eight, a first run and a resumed one agree.
"""

import contextlib
import contextvars
import hashlib
import random
import threading
import weakref
from collections.abc import Collection

import numpy as np
import tensorflow as tf
from absl import logging

from trainer.internals import patches, tensorflow_internals


def seed_for(seed, name):
  """An int in [0, 2**31) for this name in a run with this seed."""
  digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
  return int.from_bytes(digest, "little") & 0x7FFFFFFF


# The state of a random operation that runs eagerly is the process's: two threads that draw from
# equal seeds at the same time would share it.
_eager_draws_lock = threading.RLock()
_PATIENCE = 30  # seconds after which it is said what is waited for


class _EagerState:
  """What eager random operations of a thread start from, in place of TensorFlow's own state."""

  def __init__(self, seed):
    self.set(seed)

  def set(self, seed):
    self.seed = seed
    # As TensorFlow draws the seeds of operations.
    self.of_operations = random.Random(None if seed is None else int(seed))


_eager_state = contextvars.ContextVar("state of eager random operations", default=None)


@patches.replaces(*tensorflow_internals.GLOBAL_SEED)
def _global_seed(original):
  state = _eager_state.get()
  return state.seed if state else original()


@patches.replaces(*tensorflow_internals.OPERATION_SEED)
def _operation_seed(original, context):
  state = _eager_state.get()
  return state.of_operations.randint(0, 2**31 - 1) if state else original(context)


@patches.replaces(*tensorflow_internals.SET_GLOBAL_SEED)
def _set_global_seed(original, context, seed):
  if _eager_state.get():
    _eager_state.get().set(seed)
  return original(context, seed)


@contextlib.contextmanager
def eager_seed_scope(seed):
  """This thread's eager random operations start from `seed` inside, and go on as if nothing had
  happened after.
  """
  with (
    _exclusive_draws("the first value of a variable"),
    patches.set_context(_eager_state, _EagerState(seed)),
  ):
    tensorflow_internals.clear_kernels()
    yield


@contextlib.contextmanager
def _exclusive_draws(waiting):
  """Inside, no other thread is inside; `waiting` names what waits for that."""
  if not _eager_draws_lock.acquire(timeout=_PATIENCE):
    logging.warning(
      "%s waits for an input_fn that another thread calls: both may draw from TensorFlow's eager "
      "random operations, of which a process has one state.",
      waiting,
    )
    _eager_draws_lock.acquire()
  try:
    yield
  finally:
    _eager_draws_lock.release()


def reseed_operations(graph: tf.Graph, seed: int, drawn: Collection[int] = ()) -> None:
  """Gives the random operations of a graph seeds of their own.

  Args:
    graph: where they are.
    seed: what their seeds come from. Those that they have tell of the operations before them.
    drawn: the seeds of stateless operations which are to have others: Keras drew them.
  """
  others = {}
  for index, operation in enumerate(graph.get_operations()):
    if "seed" in operation.node_def.attr and "seed2" in operation.node_def.attr:
      tensorflow_internals.set_attribute(operation, "seed", i=seed)
      tensorflow_internals.set_attribute(operation, "seed2", i=index)
    elif operation.type == "Const" and operation.outputs[0].shape.as_list() == [2]:
      value = tf.get_static_value(operation.outputs[0])
      if value[0] in drawn and not value[1]:  # as Keras gives a seed to a stateless operation
        other = others.setdefault(value[0], seed_for(seed, f"draw {len(others)}"))
        proto = tf.make_tensor_proto(np.array([other, 0], value.dtype))
        tensorflow_internals.set_attribute(operation, "value", tensor=proto)


@contextlib.contextmanager
def record_eager_draws():
  """Yields a list that receives the types of operations that run eagerly inside and draw random
  numbers, or may.
  """
  draws = []

  def look(op_type, inputs, attributes, outputs, op_name=None, graph=None):
    if graph is None and _may_draw(tf.compat.as_str(op_type)):  # it may be bytes
      draws.append(op_type)

  tensorflow_internals.add_op_callback(look)
  try:
    yield draws
  finally:
    tensorflow_internals.remove_op_callback(look)


class InputSeeds:
  """Sets the seed that an input_fn's random numbers come from, so that each call of it draws the
  same.

  `tf.random.set_seed` also throws away TensorFlow's kernels, which hold the state of random
  operations that ran eagerly, and with them every function that is ready to run: the first training
  loop after it takes as long to start as the very first one. That is done where an input_fn draws
  numbers eagerly, or may, which its first call tells; and now and then, since kernels of data sets
  that are gone stay.
  """

  _EVERY = 64  # calls after which kernels are thrown away

  def __init__(self):
    self._draw_nothing = weakref.WeakSet()  # input_fns whose calls ran no random operation eagerly
    self._calls = 0

  @contextlib.contextmanager
  def set(self, input_fn, seed):
    """Inside, input_fn is to be called."""
    self._calls += 1
    known = _can_be_kept(input_fn)
    keeps_kernels = known and input_fn in self._draw_nothing and self._calls % self._EVERY
    with (
      contextlib.nullcontext() if keeps_kernels else _exclusive_draws("An input_fn"),
      patches.set_context(_eager_state, _EagerState(seed)),
      record_eager_draws() as draws,
    ):
      # For the threads that will run the data set: what a generator draws eagerly comes from here.
      tensorflow_internals.set_process_seed(seed)
      if not keeps_kernels:
        tensorflow_internals.clear_kernels()
      yield
    if known:
      (self._draw_nothing.discard if draws else self._draw_nothing.add)(input_fn)


def _can_be_kept(function):
  """Whether a WeakSet takes it."""
  try:
    hash(weakref.ref(function))
  except TypeError:
    return False
  return True


def _may_draw(op_type):
  """Whether an operation holds the state of random numbers, or calls a function that may have
  one that does.
  """
  named = op_type.startswith("__") or any(
    word in op_type for word in ("Random", "Normal", "Multinomial", "Call")
  )
  return named and not op_type.startswith("Stateless") and "Dataset" not in op_type
