"""The first value of a variable, which follows from the run's seed and the variable's name alone.

    initial_value = InitialValue(lambda: tf.random.normal([3]), "dense/kernel", run_seed)
    tf.Variable(initial_value.for_tensorflow())
    variable.assign(initial_value())           # later: the same value again

What draws random numbers eagerly would otherwise go on from what was drawn before: by the variables
that were made earlier, by an input_fn, or by the variable itself when it was made.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import errors
from trainer.internals import keras_internals, tensorflow_internals
from trainer.tracing import keras_scope, seeds

v1 = tf.compat.v1


class InitialValue:
  """What a variable begins with; called, it gives the same each time.

  Args:
    value: what `tf.Variable` takes: a number, an array, a tensor, also of a graph that is being
      traced, or a function without arguments.
    name: the variable's name.
    seed: the run's seed.

  Raises:
    ModelFnError: the value is a tensor that cannot be computed before the step.
  """

  def __init__(self, value: Any, name: str, seed: int):
    self._seed = seeds.seed_for(seed, name)
    if tf.is_tensor(value) and not hasattr(value, "numpy"):
      value = _evaluate(value, name, self._seed)
    self._value = _with_seed(value, self._seed) if callable(value) else value
    self._draws = None  # whether the function draws random numbers; its first call tells

  def for_tensorflow(self) -> Any:
    """The value, or self where it is a function: TensorFlow knows the shape of a value at once."""
    return self if callable(self._value) else self._value

  def __call__(self) -> Any:
    if not callable(self._value):
      return self._value
    with keras_scope.initial_value_scope(self._seed):
      if self._draws is False:  # a seed throws away TensorFlow's kernels, which costs
        return self._value()
      with seeds.eager_seed_scope(self._seed), seeds.record_eager_draws() as draws:
        value = self._value()
    self._draws = bool(draws)
    return value


def _evaluate(tensor: tf.Tensor, name: str, seed: int) -> Any:
  """The value (numpy array) of a tensor of the graph that is being traced.

  `tf.Variable(tf.random.normal(shape))` gives one. What it is computed from is computed aside.
  """
  value = tf.get_static_value(tensor)
  if value is not None:
    return value

  def lifted():
    graph = v1.get_default_graph()
    copy = tensorflow_internals.lift_to_graph([tensor], graph)[tensor]
    seeds.reseed_operations(graph, seed, drawn)
    return copy

  drawn = keras_scope.seeds_drawn()
  try:
    with tf.init_scope():
      return v1.wrap_function(lifted, [])().numpy()
  except tensorflow_internals.UnliftableError as error:
    raise errors.ModelFnError(
      f"The variable {name} begins with a tensor that is computed from the step's input, from a "
      "variable or from keras.random, which are not known yet: give a function without arguments "
      "that returns it, as in tf.Variable(lambda: 2 * other)."
    ) from error


def _with_seed(function: Callable, seed: int) -> Callable:
  """The function, where it is an initializer of Keras without a seed, as get_variable takes it."""
  if isinstance(function, functools.partial) and keras_internals.lacks_seed(function.func):
    initializer = function.func.clone()
    initializer.seed = seed
    return functools.partial(initializer, *function.args, **function.keywords)
  return function
