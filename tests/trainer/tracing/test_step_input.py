"""The iterator behind a placeholder of a loop's graph."""

import gc

import tensorflow as tf

from trainer.tracing import step_input


def traced(dataset):
  """The concrete function of an iterator, and the placeholder of its resource."""
  function = tf.function(lambda iterator: next(iterator)).get_concrete_function(
    tf.data.IteratorSpec(dataset.element_spec)
  )
  (placeholder,) = [each for each in function.graph.inputs if each.dtype == tf.resource]
  return function, placeholder


def test_a_placeholder_leads_to_the_newest_iterator_of_its_graph():
  dataset = tf.data.Dataset.range(5)
  function, placeholder = traced(dataset)
  assert step_input.resource_of(placeholder) is None
  step_input.read_from(function.graph, iter(dataset))
  iterator = iter(dataset)
  next(iterator)
  step_input.read_from(function.graph, iterator)
  batch = tf.raw_ops.IteratorGetNext(
    iterator=step_input.resource_of(placeholder), output_types=[tf.int64], output_shapes=[[]]
  )
  assert int(batch[0]) == 1


def test_an_iterator_that_is_gone_is_not_kept():
  dataset = tf.data.Dataset.range(5)
  function, placeholder = traced(dataset)
  iterator = iter(dataset)
  step_input.read_from(function.graph, iterator)
  del iterator
  gc.collect()
  assert step_input.resource_of(placeholder) is None


def test_a_tensor_of_the_graph_is_no_iterator():
  dataset = tf.data.Dataset.range(5)
  function, _ = traced(dataset)
  iterator = iter(dataset)
  step_input.read_from(function.graph, iterator)
  assert step_input.resource_of(function.graph.outputs[0]) is None
