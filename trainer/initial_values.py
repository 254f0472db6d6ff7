"""The first value of a variable, which follows from the run's seed and the variable's name alone.

    initial_value = InitialValue(lambda: tf.random.normal([3]), seed_for(run_seed, "dense/kernel"))
    tf.Variable(initial_value.for_tensorflow())
    variable.assign(initial_value())           # later: the same value again

What draws random numbers eagerly would otherwise go on from what was drawn before: by the variables
that were made earlier, by an input_fn, or by the variable itself when it was made.
"""

from typing import Any

import tensorflow as tf

from trainer import seeds, tensorflow_internals

v1 = tf.compat.v1


class InitialValue:
  """What a variable begins with; called, it gives the same each time.

  Args:
    value: what `tf.Variable` takes: a number, an array, a tensor, also of a graph that is being
      traced, or a function without arguments.
    seed: int, where its random numbers come from.
  """

  def __init__(self, value: Any, seed: int):
    if tf.is_tensor(value) and not hasattr(value, "numpy"):
      value = _evaluate(value, seed)
    self._value = value
    self._seed = seed
    self._draws = None  # whether the function draws random numbers; its first call tells

  def for_tensorflow(self) -> Any:
    """The value, or self where it is a function: TensorFlow knows the shape of a value at once."""
    return self if callable(self._value) else self._value

  def __call__(self) -> Any:
    if not callable(self._value):
      return self._value
    if self._draws is False:  # a seed throws away TensorFlow's kernels, which costs
      return self._value()
    with seeds.eager_seed(self._seed), seeds.eager_draws() as draws:
      value = self._value()
    self._draws = bool(draws)
    return value


def _evaluate(tensor: tf.Tensor, seed: int) -> Any:
  """The value (numpy array) of a tensor of the graph that is being traced.

  `tf.Variable(tf.random.normal(shape))` gives one. What it is computed from is computed aside.
  """
  value = tf.get_static_value(tensor)
  if value is not None:
    return value

  def lifted():
    graph = v1.get_default_graph()
    copy = tensorflow_internals.lift_to_graph([tensor], graph)[tensor]
    seeds.reseed_operations(graph, seed)
    return copy

  with tf.init_scope():
    return v1.wrap_function(lifted, [])().numpy()
