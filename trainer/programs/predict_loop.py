"""Predicts for many groups of batches."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from trainer.inputs import stacks
from trainer.programs import eval_loop, executor, multi_group, tpu_only
from trainer.programs import step as step_lib

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
  """A prediction step that was traced for one kind of input.

  Attributes:
    function: the concrete function of (iterator), which predicts for the next group. A tf.function
      would look it up for every group, which takes as long as a light step.
    step: what the trace found.
    at_once: how many groups `several` predicts for.
    several: the tf.function of (iterator) that predicts for `at_once` groups.
  """

  function: tf.types.experimental.ConcreteFunction
  step: step_lib.TracedStep
  at_once: int
  several: tf.types.experimental.PolymorphicFunction


class PredictLoop:
  """The predictions of a Program.

  Args:
    program: the program.
    replicas: number of batches in a group: the replicas of this process.
    on_one_cpu: whether the device is a CPU as one core.
  """

  def __init__(self, program: step_lib.Program, replicas: int, on_one_cpu: bool = False) -> None:
    self._program = program
    self._replicas = replicas
    self._on_one_cpu = on_one_cpu
    self._traces: dict[Any, TracedPrediction] = {}

  def trace(self, group_spec: tuple) -> TracedPrediction:
    """Traces a prediction step, once for each kind of input.

    Args:
      group_spec: of the iterator over groups, see `trainer.inputs.groups`.
    """
    key = tf.data.IteratorSpec(group_spec)
    if key not in self._traces:
      self._traces[key] = self._trace(key)
    return self._traces[key]

  def _trace(self, iterator_spec):
    found = []

    def predict(iterator):
      element, rows = next(iterator)
      predictions, traced = self._program.predict(eval_loop.split(element, self._replicas))
      found.append(traced)
      return predictions, rows, tf.nest.map_structure(_of_all_replicas, element)

    traced = tf.function(predict, autograph=False).get_concrete_function(iterator_spec)
    tpu_only.check(traced, self._program.calls.model_name)
    at_once = _SMALL_GROUPS if executor.is_light(traced.graph) else _LARGE_GROUPS
    several = tf.function(functools.partial(_several, traced, at_once), autograph=False)
    return TracedPrediction(traced, found[-1], at_once, several)

  def run(
    self,
    traced: TracedPrediction | multi_group.GroupProgram,
    iterator: tf.data.Iterator | stacks.GroupStackReader,
    groups: int | None = None,
    with_examples: bool = False,
  ) -> Iterator[tuple[Any, Any]]:
    """Predicts for the groups of an iterator.

    If the number of groups is known, one call predicts several groups. With one group per call,
    Python's overhead would take longer than a light step; in a heavy step one core would wait for
    the other at its end. If the number is not known, the input may be slow, and each group's
    predictions come as soon as possible.

    Args:
      traced: what was traced for this kind of input.
      iterator: over groups, see `trainer.inputs.groups`; or of stacks of them.
      groups: number of groups in the iterator, or None.
      with_examples: whether to return the examples too.

    Yields:
      (predictions, element): nests of numpy arrays, the real examples only, in order. The element
      is None unless with_examples is true.
    """
    if isinstance(traced, multi_group.GroupProgram):
      results = multi_group.predict(traced, iterator, with_examples)
    else:
      results = self._one_by_one(traced, iterator, groups, with_examples)
    for result in results:
      yield self._real(result, with_examples)

  def _one_by_one(self, traced, iterator, groups, with_examples):
    """Yields the results of groups that the host hands over one by one, padding included."""
    if self._on_one_cpu and groups is not None and groups >= 2 * traced.at_once:
      for _ in range(groups // traced.at_once):
        results = _on_host(traced.several(iterator))
        for i in range(traced.at_once):
          yield tf.nest.map_structure(lambda array, i=i: array[i], results)
    while True:
      try:
        result = traced.function(iterator)
      except tf.errors.OutOfRangeError:
        return
      yield _on_host(result)

  def _real(self, result, with_examples):
    """Drops the padding from (predictions, rows, element); returns (predictions, element)."""
    predictions, rows, element = result
    size = tf.nest.flatten(predictions)[0].shape[0] // self._replicas
    if (rows == size).all():
      return predictions, element if with_examples else None

    def real(array):
      return np.concatenate([array[i * size : i * size + count] for i, count in enumerate(rows)])

    return tf.nest.map_structure(real, predictions), tf.nest.map_structure(
      real, element
    ) if with_examples else None


def _of_all_replicas(tensor):
  """[replicas, batch, ...] as [replicas * batch, ...], where some sizes may be unknown."""
  sizes = tensor.shape.as_list()[2:]
  shape = tf.concat([[-1], tf.shape(tensor)[2:]], 0) if None in sizes else [-1, *sizes]
  return tf.reshape(tensor, shape)


def _on_host(tensors):
  return tf.nest.map_structure(lambda tensor: tensor.numpy(), tensors)


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
