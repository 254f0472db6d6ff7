"""The installed TensorFlow has what Octet needs of it, and it does what is written of it."""

import tensorflow as tf

from tests.trainer.internals import names_asked_for

# Before the file itself is imported, which fails where anything is missing.
MISSING = names_asked_for.missing("tensorflow_internals.py")
if not MISSING:
  from trainer.internals import tensorflow_internals


def test_nothing_is_missing_in_this_version():
  assert MISSING == []
  assert len(names_asked_for.paths("tensorflow_internals.py")) > 7


def test_a_loss_that_is_a_sum():
  losses = tf.compat.v1.losses
  with tf.Graph().as_default() as graph:
    assert not tensorflow_internals.newest_loss_is_sum(graph)
    losses.mean_squared_error([1.0], [2.0], reduction=losses.Reduction.SUM)
    assert tensorflow_internals.newest_loss_is_sum(graph)
    losses.mean_squared_error([1.0], [2.0])
    assert not tensorflow_internals.newest_loss_is_sum(graph)


def test_the_collections_of_a_graph_are_exchanged():
  graph = tf.Graph()
  graph.add_to_collection("mine", 1)
  before = tensorflow_internals.swap_collections(graph, {"mine": [2]})
  assert graph.get_collection("mine") == [2]
  tensorflow_internals.swap_collections(graph, before)
  assert graph.get_collection("mine") == [1]


def test_this_process_has_started():
  assert tf.constant(1) == 1
  assert tensorflow_internals.has_started()


def test_functions_run_in_a_single_thread():
  loop = tf.function(lambda: tf.while_loop(lambda n: n < 3, lambda n: n + 1, (tf.constant(0),))[0])
  with tensorflow_internals.single_thread():
    assert loop() == 3


def test_functions_and_attributes_of_graphs():
  @tf.function
  def called():
    return tf.constant(1)

  graph = tf.function(lambda: called()).get_concrete_function().graph
  call = next(operation for operation in graph.get_operations() if "Call" in operation.type)
  function = tensorflow_internals.function_named(graph, call.get_attr("f").name)
  assert function.graph.get_operations()[0].type == "Const"
  assert tensorflow_internals.function_named(graph, "nobody") is None
  tensorflow_internals.set_attribute(call, "_mine", i=3)
  assert call.get_attr("_mine") == 3


def test_the_stages_of_a_data_set():
  def double(number):
    return 2 * number

  numbers = tf.data.Dataset.range(8)
  mapped = numbers.map(double)
  batched = mapped.batch(4)
  assert tensorflow_internals.inputs_of(batched) == [mapped]
  assert tensorflow_internals.inputs_of(numbers) == []
  assert tensorflow_internals.batch_size_of(batched) == 4
  assert tensorflow_internals.function_of(mapped).__name__ == "double"
  assert tensorflow_internals.function_of(numbers) is None
  assert not tensorflow_internals.ends_with_prefetch(batched)
  assert tensorflow_internals.ends_with_prefetch(
    batched.prefetch(1).with_options(tf.data.Options())
  )
  nothing = tf.data.Dataset.from_tensors((1, None)).element_spec[1]
  assert isinstance(nothing, tensorflow_internals.NoneTensorSpec)


def test_a_step_s_operations_all_happen():
  variable = tf.Variable(0)

  @tf.function(autograph=False)
  def step():
    with tf.Graph().as_default():
      pass
    with tensorflow_internals.AutomaticControlDependencies() as everything:
      variable.assign_add(1)
      return everything.mark_as_return(tf.constant(5))

  assert step() == 5
  assert variable == 1
