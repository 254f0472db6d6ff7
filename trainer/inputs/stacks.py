"""Stacks the batches of several steps, so that they go to the XLA devices in one piece.

    reader = StackReader(stack(dataset, steps=20, replicas=8), executable.put)
    while stacked := reader.current():
      run(stacked.elements, stacked.first, count)  # at most stacked.left steps
      stacked.first += count

A stack has, for each core, an element whose tensors have one more axis in front, the steps: [steps,
per-core batch, ...]. At the end of a dataset a stack may have fewer steps than others. Padding
gives every stack the same shapes, so that a remainder needs no program of its own.

A step of an evaluation or a prediction is a group, see `trainer.inputs.groups`; `stack_groups` and
GroupStackReader are for them.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.inputs import groups


def stack(dataset: tf.data.Dataset, steps: int, replicas: int) -> tf.data.Dataset:
  """Stacks per-core batches.

  Args:
    dataset: per-core batches, which the cores take in turn.
    steps: the steps in a stack.
    replicas: number of cores.

  Returns:
    A dataset of (steps, elements): int64 scalar, the number of real steps in the stack; and for
    each core its element. It drops batches at the end of the data that are too few for a step.
  """

  # AutoGraph would read the source of every function called here, which takes longer than the rest.
  @tf.autograph.experimental.do_not_convert
  def split(*element):
    leaves = tf.nest.flatten(element)
    real = tf.shape(leaves[0], out_type=tf.int64)[0] // replicas
    whole = [_by_step(leaf, steps, replicas) for leaf in leaves]
    elements = zip(*(tf.unstack(leaf, axis=1) for leaf in whole), strict=True)
    return real, tuple(tf.nest.pack_sequence_as(element, leaves) for leaves in elements)

  is_any_real = tf.autograph.experimental.do_not_convert(lambda real, _: real > 0)
  stacked = dataset.batch(steps * replicas).map(split).filter(is_any_real)
  # The host makes one stack while the device works on the one before.
  return groups.without_tuning(stacked.prefetch(1))


def stack_groups(dataset: tf.data.Dataset, steps: int) -> tf.data.Dataset:
  """Stacks groups.

  Args:
    dataset: groups.
    steps: the groups in a stack.

  Returns:
    A dataset of (steps, rows, elements): int64 scalar, how many groups of the stack are real; int64
    [steps, replicas], the groups' rows; and for each core its element.
  """

  @tf.autograph.experimental.do_not_convert
  def split(element, rows):
    real = tf.shape(rows, out_type=tf.int64)[0]
    leaves = [_padded(leaf, steps) for leaf in tf.nest.flatten(element)]
    elements = zip(*(tf.unstack(leaf, rows.shape[1], 1) for leaf in leaves), strict=True)
    split_up = tuple(tf.nest.pack_sequence_as(element, leaves) for leaves in elements)
    return real, _padded(rows, steps), split_up

  return groups.without_tuning(dataset.batch(steps).map(split).prefetch(1))


def _by_step(leaf, steps, replicas):
  """[at most steps · replicas, ...] → [steps, replicas, ...], padded with zeros at its end."""
  padded = _padded(leaf, steps * replicas)
  return tf.reshape(padded, [steps, replicas, *padded.shape[1:]])


def _padded(leaf, size):
  """[at most size, ...] → [size, ...], padded with zeros at its end."""
  missing = size - tf.shape(leaf)[0]
  inner = leaf.shape.as_list()[1:]
  padded = tf.cond(
    tf.equal(missing, 0),
    lambda: leaf,
    lambda: tf.concat([leaf, tf.zeros([missing, *inner], leaf.dtype)], 0),
  )
  return tf.ensure_shape(padded, [size, *inner])


def spec_of(element: Any, steps: int) -> Any:
  """Returns the spec of one core's element of a stack.

  Args:
    element: the specs of one core's batch.
    steps: the steps in a stack.
  """
  return tf.nest.map_structure(
    lambda leaf: tf.TensorSpec([steps, *leaf.shape], leaf.dtype), element
  )


def bytes_of_step(element_spec: Any) -> int:
  """Returns the bytes of one core's batch.

  Args:
    element_spec: of per-core batches with static shapes. Strings count as their place in memory.
  """
  return sum(leaf.shape.num_elements() * leaf.dtype.size for leaf in tf.nest.flatten(element_spec))


@dataclasses.dataclass
class Stack:
  """A stack on the devices.

  Attributes:
    elements: on the devices.
    steps: the number of its real steps.
    on_host: for each core its element, on the host.
    rows: for groups, int64 [steps, cores]: how many examples of each batch are real.
    first: the first unused step.
  """

  elements: Any
  steps: int
  on_host: tuple
  rows: Any = None
  first: int = 0

  @property
  def left(self) -> int:
    """The number of unused steps."""
    return self.steps - self.first

  def batch(self, step: int, core: int, examples: int | None = None) -> Any:
    """Returns the first examples of one batch, tensors; None for all."""
    return tf.nest.map_structure(lambda tensor: tensor[step, :examples], self.on_host[core])

  def examples(self, step: int) -> Any:
    """Returns the element of a group, padding included, as numpy arrays [cores · batch, ...]."""
    return tf.nest.map_structure(
      lambda *of_cores: np.concatenate([tensor[step].numpy() for tensor in of_cores]), *self.on_host
    )


class StackReader:
  """Reads stacks and puts them on the devices; the next loop uses the rest of a stack.

  Args:
    dataset: the result of `stack`.
    put: function of a stack's elements that puts them on the devices.
    exchange: returns the values of all hosts, see `hosts.Hosts`; by default this host is alone.
  """

  def __init__(
    self,
    dataset: tf.data.Dataset,
    put: Callable[[Sequence], Any],
    exchange: Callable[[Any], list[Any]] = lambda own: [own],
  ) -> None:
    self._iterator: Iterator = iter(dataset)
    self._put, self._exchange = put, exchange
    self._stack: Stack | None = None
    self._fetched: list[Stack | None] = []

  def current(self) -> Stack | None:
    """Returns the stack with unused steps, or the next one; None at the end."""
    if self._stack is None or not self._stack.left:
      self._stack = None  # This frees its memory before there is another one.
      self._stack = self._fetched.pop() if self._fetched else self._read()
    return self._stack

  def fetch(self) -> None:
    """Puts the next stack on the devices, where the current one has no step left."""
    if not self._fetched and self._stack is not None and not self._stack.left:
      self._fetched.append(self._read())

  def _read(self) -> Stack | None:
    own, elements = next(self._iterator, (0, ()))
    # The shortest stack of all hosts counts: a host alone in a step would wait for the others'
    # all-reduce for ever.
    real = min(self._exchange(int(own)))
    return Stack(self._put(elements), real, elements) if real else None


class GroupStackReader(StackReader):
  """Reads stacks of groups from `stack_groups`, the same ones on all hosts."""

  def _read(self) -> Stack | None:
    real, rows, elements = next(self._iterator, (0, None, ()))
    own = None if rows is None else rows.numpy().tolist()
    if any(rows_of_host != own for rows_of_host in self._exchange(own)):
      raise errors.InputError(
        "An input_fn gives other batches on other hosts. In evaluation and prediction each host "
        "makes the batches of the whole set: the batches must not depend on the host."
      )
    return None if rows is None else Stack(self._put(elements), int(real), elements, rows.numpy())
