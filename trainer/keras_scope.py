"""What Keras needs while a model_fn is traced: names that start anew, the precision, random numbers by seed, step and replica, and fast kernels.

Keras numbers its layers, and keeps its dtype policy and its seed generators, in state of the process. A model_fn is traced many times, so each
trace gets a state of its own.
"""

import contextlib
import weakref
from unittest import mock

import keras
import tensorflow as tf
from keras.src import backend
from keras.src.backend.common import global_state
from keras.src.losses import loss as keras_loss
from keras.src.random import seed_generator

from trainer import kernels, seeds

# The seeds of a generator that is used twice in a step are this far apart: 2**32 divided by the golden ratio, which spreads any number of uses.
_STRIDE = 0x9E3779B9


class KerasScope:
  """Keras's state for one trace: `trace()` is entered once around it, `replica()` on each replica inside.

  Args:
    precision: the dtype policy of the layers, such as "float32" or "mixed_bfloat16".
    seed: int, the run's seed.
    step: int64 scalar tensor, the step that the random numbers are for.
    on_cpu: whether what is traced runs on CPUs alone, and is to use `trainer.kernels`.
  """

  def __init__(self, precision, seed, step, on_cpu=False):
    self._policy = keras.dtype_policies.get(precision)
    self._seed = seed
    self._step = step
    self._on_cpu = on_cpu
    self._making = []
    self._uses = weakref.WeakKeyDictionary()

  @property
  def variable_being_made(self):
    """The Keras variable whose tf.Variable is being created, or None: a creator of tf.Variables hears only the last part of its path."""
    return self._making[-1] if self._making else None

  @contextlib.contextmanager
  def trace(self):
    initialize = self._following(backend.Variable._initialize)
    with_initializer = self._following(self._seeding(backend.Variable._initialize_with_initializer))
    scope = self
    with (
        mock.patch.object(backend.Variable, "_initialize", initialize),
        mock.patch.object(backend.Variable, "_initialize_with_initializer", with_initializer),
        mock.patch.object(seed_generator.SeedGenerator, "next", lambda generator, ordered=True: scope._next_seed(generator)),
        # Keras's losses divide by the number of replicas, for gradients that are summed; here they are averaged.
        mock.patch.object(keras_loss, "scale_loss_for_distribution", lambda value: value),
        kernels.used() if self._on_cpu else contextlib.nullcontext(),
    ):
      yield

  @contextlib.contextmanager
  def replica(self):
    """Names start anew. The state is per thread, and a strategy may trace each replica in a thread of its own."""
    fresh = dict(object_name_uids=None, name_scope_stack=None, global_seed_generator=None, dtype_policy=self._policy)
    saved = {key: global_state.get_global_attribute(key) for key in fresh}
    for key, value in fresh.items():
      global_state.set_global_attribute(key, value)
    try:
      yield
    finally:
      for key, value in saved.items():
        global_state.set_global_attribute(key, value)

  def _following(self, initialize):
    def wrapper(variable, value):
      self._making.append(variable)
      try:
        initialize(variable, value)
      finally:
        self._making.pop()
    return wrapper

  def _seeding(self, initialize):
    """An initializer that nobody gave a seed gets one by the name of its variable; Keras would draw it from Python's `random`."""
    def wrapper(variable, initializer):
      if getattr(initializer, "_init_seed", 0) is None:
        initializer = initializer.clone()
        initializer.seed = seeds.seed_for(self._seed, variable.path)
      initialize(variable, initializer)
    return wrapper

  def _next_seed(self, generator):
    """In place of SeedGenerator.next, whose state is a variable and the same on all replicas: a seed by step and replica needs no memory.

    Returns:
      int32 [2]: one number for the generator and its use in this step, one for the step and the replica.
    """
    context = tf.distribute.get_replica_context()
    use = self._uses.get(generator, 0)
    self._uses[generator] = use + 1
    first = generator._initial_seed
    if first is None:
      first = seeds.seed_for(self._seed, generator.state.path)
    first = (first + use * _STRIDE) % tf.int32.max
    second = tf.cast(self._step, tf.int64) * context.num_replicas_in_sync + tf.cast(context.replica_id_in_sync_group, tf.int64)
    return tf.stack([tf.constant(first, tf.int32), tf.cast(second % tf.int32.max, tf.int32)])
