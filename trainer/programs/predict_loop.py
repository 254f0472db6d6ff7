"""Predicts for many groups of batches."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from trainer.programs import eval_loop, executor, group_results
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind

# Number of groups that one call predicts. For a light step (see `executor`) the point is to save
# Python's overhead: the digits model gains nothing from 64. For a heavy step the point is that a
# core without work in one group starts on the next one.
_SMALL_GROUPS = 32
_LARGE_GROUPS = 4
# Number of groups that such a call computes at the same time. With more, heavy steps are no faster
# and need more memory.
_STEPS_AT_WORK = 2


@dataclasses.dataclass(frozen=True)
class TracedPrediction:
  """A traced prediction step for one kind of input.

  Attributes:
    function: the concrete function of (iterator), which predicts the next group. A tf.function
      would look it up for every group, which takes as long as a light step.
    step: the TracedStep.
    at_once: the number of groups that `several` predicts; 1 if groups differ in their shapes, since
      `several` stacks them, and on several cores.
    several: the tf.function of (iterator) that predicts `at_once` groups.
  """

  function: tf.types.experimental.ConcreteFunction
  step: step_lib.TracedStep
  at_once: int
  several: tf.types.experimental.PolymorphicFunction

  def read(self, dataset: tf.data.Dataset) -> tf.data.Iterator:
    """Returns the iterator from which `run` takes the groups of a dataset."""
    return iter(dataset)

  def run(
    self, iterator: tf.data.Iterator, groups: int | None = None, with_examples: bool = False
  ) -> Iterator[tuple[Any, Any]]:
    """Predicts for the groups of an iterator.

    If Octet knows the number of groups, one call predicts several groups. With one group per call,
    Python's overhead would take longer than a light step; in a heavy step one core would wait for
    the other at its end. Otherwise the input may be slow, and each group's predictions come as soon
    as possible.

    Args:
      iterator: over groups, see `trainer.inputs.groups`.
      groups: number of groups in the iterator, or None.
      with_examples: whether to return the examples too.

    Yields:
      (predictions, element): nests of numpy arrays, the real examples only, in order. The element
      is None unless with_examples is true.
    """
    for predictions, rows, element in self._with_padding(iterator, groups):
      yield group_results.without_padding(predictions, rows, element if with_examples else None)

  def _with_padding(self, iterator, groups):
    if self.at_once > 1 and groups is not None and groups >= 2 * self.at_once:
      for _ in range(groups // self.at_once):
        results = group_results.on_host(self.several(iterator))
        for i in range(self.at_once):
          yield tf.nest.map_structure(lambda array, i=i: array[i], results)
    while True:
      try:
        result = self.function(iterator)
      except tf.errors.OutOfRangeError:
        return
      yield group_results.on_host(result)


def trace(
  program: step_lib.Program, replicas: int, is_one_cpu: bool, group_spec: tuple
) -> TracedPrediction:
  """Traces a prediction step.

  Args:
    program: the program.
    replicas: the batches of a group.
    is_one_cpu: whether the device is a CPU as one core.
    group_spec: of the iterator over groups, see `trainer.inputs.groups`.
  """
  found = []

  def predict(iterator):
    element, rows = next(iterator)
    batches = eval_loop.split(element, replicas)
    predictions, traced = program.run_step(Kind.PREDICT, batches)
    found.append(traced)
    return predictions, rows, tf.nest.map_structure(_of_all_replicas, element)

  function = tf.function(predict, autograph=False).get_concrete_function(
    tf.data.IteratorSpec(group_spec)
  )
  at_once = 1
  if is_one_cpu and all(
    leaf.shape.is_fully_defined() for leaf in tf.nest.flatten(function.structured_outputs)
  ):
    at_once = _SMALL_GROUPS if executor.is_light(function.graph) else _LARGE_GROUPS
  several = tf.function(functools.partial(_several, function, at_once), autograph=False)
  return TracedPrediction(function, found[-1], at_once, several)


def _of_all_replicas(tensor):
  """[replicas, batch, ...] as [replicas * batch, ...], where some sizes may be unknown."""
  sizes = tensor.shape.as_list()[2:]
  shape = tf.concat([[-1], tf.shape(tensor)[2:]], 0) if None in sizes else [-1, *sizes]
  return tf.reshape(tensor, shape)


def _several(traced, count, iterator):
  """Calls `traced` for the next `count` groups; stacks the results along a new first axis."""
  like = traced.structured_outputs

  def body(done, arrays):
    results = tf.nest.flatten(traced(iterator))
    return done + 1, [
      array.write(done, result) for array, result in zip(arrays, results, strict=True)
    ]

  arrays = [
    tf.TensorArray(leaf.dtype, count, element_shape=leaf.shape) for leaf in tf.nest.flatten(like)
  ]
  _, arrays = tf.while_loop(
    lambda done, _: done < count, body, (tf.constant(0), arrays), parallel_iterations=_STEPS_AT_WORK
  )
  return tf.nest.pack_sequence_as(like, [array.stack() for array in arrays])
