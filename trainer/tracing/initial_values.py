"""Computes a variable's initial value from the run's seed and the variable's name only.

    initial_value = InitialValue(lambda: tf.random.normal([3]), "dense/kernel", run_seed)
    tf.Variable(initial_value.for_tensorflow())
    variable.assign(initial_value())           # later: the same value again

An eager random operation continues from earlier draws: by other variables, by an input_fn, or by
the first call for the same variable. So each call sets the seed anew.
"""

import contextlib
import functools
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, tensorflow_internals
from trainer.tracing import keras_scope, seeds

v1 = tf.compat.v1


class InitialValue:
  """A variable's initial value. Every call returns the same value.

  Args:
    value: the argument of `tf.Variable`: a number, an array, a tensor (also of the traced graph),
      or a function without arguments.
    name: the variable's name.
    seed: the run's seed.

  Raises:
    ModelFnError: the value is a tensor that depends on the step's input.
  """

  def __init__(self, value: Any, name: str, seed: int) -> None:
    self._seed = seeds.seed_for(seed, name)
    if tf.is_tensor(value) and not hasattr(value, "numpy"):
      value = _evaluate(value, name, self._seed)
    self._value = _with_seed(value, self._seed) if callable(value) else value
    # Whether the function draws by operations with a state. The first call finds out.
    self._draws: bool | None = None

  def for_tensorflow(self) -> Any:
    """Returns what to pass to tf.Variable: the value itself, or this object for a function.

    A value tells TensorFlow the shape without a call.
    """
    return self if callable(self._value) else self._value

  def __call__(self) -> Any:
    """Returns the value: what the function returns with the variable's own seed."""
    if not callable(self._value):
      return self._value
    # A draw starts from the seed only without kernels, and to clear them is slow: TensorFlow makes
    # the kernels of all operations anew, and starts all compiled functions again. Zeros and Keras's
    # initializers, whose operations have no state, keep the kernels.
    if self._draws is None:
      with (
        keras_scope.initial_value_scope(self._seed),
        seeds.eager_seed_scope(self._seed, clears_kernels=False),
        seeds.record_eager_draws() as draws,
      ):
        value = self._value()
      self._draws = bool(draws)
      if not draws:
        return value
    seeded = seeds.eager_seed_scope(self._seed) if self._draws else contextlib.nullcontext()
    with keras_scope.initial_value_scope(self._seed), seeded:
      return self._value()


def _evaluate(tensor, name, seed):
  """Returns a tensor of the traced graph as a numpy array, computed outside of that graph.

  `tf.Variable(tf.random.normal(shape))` in a model_fn passes such a tensor.
  """
  value = tf.get_static_value(tensor)
  if value is not None:
    return value

  def copy_and_compute():
    graph = v1.get_default_graph()
    copy = tensorflow_internals.lift_to_graph([tensor], graph)[tensor]
    seeds.reseed_operations(graph, seed, drawn)
    return copy

  drawn = keras_scope.seeds_drawn()
  try:
    with tf.init_scope():
      return v1.wrap_function(copy_and_compute, [])().numpy()
  except tensorflow_internals.UnliftableError as error:
    raise errors.ModelFnError(
      f"The initial value of the variable {name} is a tensor of the step's input, of a variable or "
      "of keras.random. TensorFlow has no value for it when it creates the variable: pass a "
      "function without arguments, as in tf.Variable(lambda: 2 * other)."
    ) from error


def _with_seed(function, seed):
  """Gives a Keras initializer that has no seed this seed; returns other functions unchanged.

  get_variable wraps its initializer in a functools.partial with the shape and dtype.
  """
  if isinstance(function, functools.partial) and keras_internals.lacks_seed(function.func):
    initializer = function.func.clone()
    initializer.seed = seed
    return functools.partial(initializer, *function.args, **function.keywords)
  return function
