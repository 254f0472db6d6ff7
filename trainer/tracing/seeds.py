"""Derives every random seed from the run's seed and a name.

The process's own generators (Python's `random`, TensorFlow's eager generator) depend on the order
of traces and on restarts. Here a seed depends on the run's seed and a name only. One replica and
eight therefore draw the same initial values, and so do a first and a resumed run.
"""

import contextlib
import contextvars
import hashlib
import random
import threading
import weakref
from collections.abc import Callable, Collection, Iterator

import numpy as np
import tensorflow as tf
from absl import logging

from trainer.internals import patches, tensorflow_internals


def seed_for(seed: int, name: str) -> int:
  """Returns the seed, in [0, 2**31), that belongs to a name in a run with this seed."""
  digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
  return int.from_bytes(digest, "little") & 0x7FFFFFFF


# The process holds the state of eager random operations. Two threads that draw with equal seeds at
# the same time would share that state, so only one thread draws at a time.
_eager_draws_lock = threading.RLock()
_PATIENCE = 30  # seconds that a thread waits before it logs what it waits for


class _EagerState:
  """A thread's own seed for eager random operations, instead of TensorFlow's global seed."""

  def __init__(self, seed):
    self.set(seed)

  def set(self, seed):
    self.seed = seed
    # TensorFlow draws the seeds of operations from a generator of the same kind.
    self.of_operations = random.Random(None if seed is None else int(seed))


_eager_state = contextvars.ContextVar("state of eager random operations", default=None)


@patches.replaces(*tensorflow_internals.GLOBAL_SEED, inside=_eager_state)
def _global_seed(original):
  return _eager_state.get().seed


@patches.replaces(*tensorflow_internals.OPERATION_SEED, inside=_eager_state)
def _operation_seed(original, context):
  return _eager_state.get().of_operations.randint(0, 2**31 - 1)


@patches.replaces(*tensorflow_internals.SET_GLOBAL_SEED, inside=_eager_state)
def _set_global_seed(original, context, seed):
  _eager_state.get().set(seed)
  return original(context, seed)


@contextlib.contextmanager
def eager_seed_scope(seed: int, *, clears_kernels: bool = True) -> Iterator[None]:
  """Seeds this thread's eager random operations while the context is open.

  Afterwards they continue as before.

  Args:
    seed: the seed.
    clears_kernels: False for what probably draws nothing. A random operation may then continue
      from the state that its kernel has, so the caller has to record the draws and repeat them.
  """
  with (
    _exclusive_draws("the first value of a variable"),
    patches.set_context(_eager_state, _EagerState(seed)),
  ):
    if clears_kernels:
      tensorflow_internals.clear_kernels()
    yield


@contextlib.contextmanager
def _exclusive_draws(waiting):
  """Lets only one thread at a time draw eagerly.

  Args:
    waiting: what this thread is about to do, for the log.
  """
  if not _eager_draws_lock.acquire(timeout=_PATIENCE):
    logging.warning(
      "%s waits for an input_fn that another thread calls: both may run eager random operations, "
      "and TensorFlow has only one state for them in a process.",
      waiting,
    )
    _eager_draws_lock.acquire()
  try:
    yield
  finally:
    _eager_draws_lock.release()


def reseed_operations(graph: tf.Graph, seed: int, drawn: Collection[int] = ()) -> None:
  """Replaces the seeds of the random operations in a graph.

  Their present seeds depend on the operations that the process created before them.

  Args:
    graph: the graph; its operations change.
    seed: the base of the new seeds.
    drawn: seeds that Keras drew for stateless operations of the graph, to replace too.
  """
  others: dict[int, int] = {}  # a seed that Keras drew → its replacement
  for index, operation in enumerate(graph.get_operations()):
    if "seed" in operation.node_def.attr and "seed2" in operation.node_def.attr:
      tensorflow_internals.set_attribute(operation, "seed", i=seed)
      tensorflow_internals.set_attribute(operation, "seed2", i=index)
    elif operation.type == "Const" and operation.outputs[0].shape.as_list() == [2]:
      value = tf.get_static_value(operation.outputs[0])
      if value[0] in drawn and not value[1]:  # Keras passes a drawn seed as [seed, 0]
        other = others.setdefault(value[0], seed_for(seed, f"draw {len(others)}"))
        proto = tf.make_tensor_proto(np.array([other, 0], value.dtype))
        tensorflow_internals.set_attribute(operation, "value", tensor=proto)


@contextlib.contextmanager
def record_eager_draws() -> Iterator[list]:
  """Records the operations that run eagerly while the context is open and may draw random numbers.

  Yields:
    A list that receives the type of each such operation.
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
  """Sets the seed for the random numbers of an input_fn, so that each call draws the same.

  `tf.random.set_seed` also clears all eager kernels, since these hold the state of eager random
  operations. With them it discards compiled functions: the next training loop starts as slowly as
  the first one. Kernels are therefore cleared only

  - for an input_fn that may run random operations eagerly, as its first call shows,
  - and on every 64th call, because the kernels of deleted datasets would stay in memory.
  """

  _EVERY = 64  # calls after which it clears kernels in any case

  def __init__(self) -> None:
    # input_fns whose last call ran no random operation eagerly.
    self._draw_nothing: weakref.WeakSet = weakref.WeakSet()
    self._calls = 0

  @contextlib.contextmanager
  def set(self, input_fn: Callable, seed: int) -> Iterator[None]:
    """Sets the seed while the context is open. Call the input_fn inside."""
    self._calls += 1
    known = _can_be_kept(input_fn)
    keeps_kernels = known and input_fn in self._draw_nothing and self._calls % self._EVERY
    with (
      contextlib.nullcontext() if keeps_kernels else _exclusive_draws("An input_fn"),
      patches.set_context(_eager_state, _EagerState(seed)),
      record_eager_draws() as draws,
    ):
      # _EagerState holds for this thread only. The threads that run the dataset read the process's
      # seed, for instance in a from_generator function that draws eagerly.
      tensorflow_internals.set_process_seed(seed)
      if not keeps_kernels:
        tensorflow_internals.clear_kernels()
      yield
    if known:
      (self._draw_nothing.discard if draws else self._draw_nothing.add)(input_fn)


def _can_be_kept(function):
  """Whether a WeakSet can hold the function."""
  try:
    hash(weakref.ref(function))
  except TypeError:
    return False
  return True


def _may_draw(op_type):
  """Whether an operation is random and stateful, or calls a function that may be."""
  is_suspect = op_type.startswith("__") or any(
    word in op_type for word in ("Random", "Normal", "Multinomial", "Call")
  )
  return is_suspect and not op_type.startswith("Stateless") and "Dataset" not in op_type
