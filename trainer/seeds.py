"""Random numbers that come from the run's seed, and from nothing that happened before.

A number that the process draws on the way (Python's `random`, TensorFlow's eager generator) depends on what was traced first and on how often the
run was restarted. Here every seed is a function of the run's seed and of a name, so that one replica and eight, a first run and a resumed one agree.
"""

import contextlib
import hashlib
import weakref
from unittest import mock

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks


def seed_for(seed, name):
  """An int in [0, 2**31) for this name in a run with this seed."""
  digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
  return int.from_bytes(digest, "little") & 0x7FFFFFFF


@contextlib.contextmanager
def eager_seed(seed):
  """TensorFlow's eager random operations start from `seed` inside, and go on as if nothing had happened after."""
  state = context.context()
  saved = {name: getattr(state, name) for name in ("_seed", "_rng") if hasattr(state, name)}  # it has no _rng before the first seed
  tf.random.set_seed(seed)
  try:
    yield
  finally:
    del state._rng
    vars(state).update(saved)


def reseed_operations(graph, seed):
  """Gives the stateful random operations of a graph seeds of their own: those they have count the operations before them."""
  for index, operation in enumerate(graph.get_operations()):
    if "seed" in operation.node_def.attr and "seed2" in operation.node_def.attr:
      operation._set_attr("seed", attr_value_pb2.AttrValue(i=seed))
      operation._set_attr("seed2", attr_value_pb2.AttrValue(i=index))


@contextlib.contextmanager
def eager_draws():
  """Yields a list that receives the types of operations that run eagerly inside and draw random numbers, or may."""
  draws = []

  def look(op_type, inputs, attributes, outputs, op_name=None, graph=None):
    if graph is None and _may_draw(tf.compat.as_str(op_type)):  # it may be bytes
      draws.append(op_type)

  op_callbacks.add_op_callback(look)
  try:
    yield draws
  finally:
    op_callbacks.remove_op_callback(look)


class InputSeeds:
  """Sets the seed that an input_fn's random numbers come from, so that each call of it draws the same.

  `tf.random.set_seed` also throws away TensorFlow's kernels, which hold the state of random operations that ran eagerly, and with them every function
  that is ready to run: the first training loop after it takes as long to start as the very first one. That is done where an input_fn draws numbers
  eagerly, or may, which its first call tells; and now and then, since kernels of data sets that are gone stay.
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
    if known and input_fn in self._draw_nothing and self._calls % self._EVERY:
      with mock.patch.object(context.pywrap_tfe, "TFE_ContextClearCaches", return_value=None):
        tf.random.set_seed(seed)
    else:
      tf.random.set_seed(seed)
    with eager_draws() as draws:
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
  """Whether an operation holds the state of random numbers, or calls a function that may have one that does."""
  named = op_type.startswith("__") or any(word in op_type for word in ("Random", "Normal", "Multinomial", "Call"))
  return named and not op_type.startswith("Stateless") and "Dataset" not in op_type
