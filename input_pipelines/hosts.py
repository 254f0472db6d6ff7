"""Divides a set among hosts: together they read the whole set, and no example twice."""

import tensorflow as tf


def part_of(input_context: tf.distribute.InputContext | None) -> tuple[int, int]:
  """Returns the index of this host and the number of hosts that read; (0, 1) for None."""
  if input_context is None:
    return 0, 1
  return input_context.input_pipeline_id, input_context.num_input_pipelines


def examples_seen(start: int, input_context: tf.distribute.InputContext | None) -> int:
  """Returns how many examples this host has seen, if all hosts together have seen `start`."""
  return start // part_of(input_context)[1]


def even_range(count: int, index: int, parts: int) -> tuple[int, int]:
  """Returns (start, stop) of part `index` of `count` things; sizes of parts differ by at most 1."""
  return count * index // parts, count * (index + 1) // parts
