"""Replacements that stay: installed once, by whichever thread is first, and asleep outside of a trace."""

import contextvars
import threading
import types

import keras
import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import patches

_factor = contextvars.ContextVar("factor", default=None)


@pytest.fixture
def library():
  """A class and a module with a function each, replaced by ones that multiply."""

  class Counter:
    def count(self, number):
      """Counts."""
      return number

  module = types.ModuleType("module")
  module.count = lambda number: number

  @patches.replaces(Counter, "count")
  def _method(original, counter, number):
    return original(counter, number) * (_factor.get() or 1)

  @patches.replaces(module, "count")
  def _function(original, number):
    return original(number) * (_factor.get() or 1)

  return Counter, module


def test_a_replacement_asks_its_context(library):
  counter, module = library
  patches.install()
  assert (counter().count(3), module.count(3)) == (3, 3)
  with patches.setting(_factor, 2):
    assert (counter().count(3), module.count(number=3)) == (6, 6)
  assert (counter().count(3), module.count(3)) == (3, 3)
  assert (counter.count.__name__, counter.count.__doc__) == ("count", "Counts.")


def test_it_is_installed_once_by_whichever_thread_is_first(library):
  counter, _ = library
  start = threading.Barrier(8)

  def install():
    start.wait()
    patches.install()

  threads = [threading.Thread(target=install) for _ in range(8)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  installed = counter.count
  patches.install()
  assert counter.count is installed
  with patches.setting(_factor, 2):
    assert counter().count(3) == 6


def test_a_function_carries_the_context_to_the_threads_that_call_it_at_the_same_time():
  both, seen = threading.Barrier(2), []

  def look():
    both.wait()
    seen.append(_factor.get())

  with patches.setting(_factor, 5):
    carried = patches.carried(look)
  threads = [threading.Thread(target=carried) for _ in range(2)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert seen == [5, 5]
  assert _factor.get() is None


def test_traces_that_overlap_in_two_threads_leave_keras_as_it_was(tmp_path):
  """The first that begins is the first that ends, and would put back what the second one needs."""
  first_began, second_began, first_ended = (threading.Event() for _ in range(3))
  results, seen = {}, []
  tf.compat.v1.get_collection_ref("mine")[:] = ["the program's"]

  def first(features, labels, mode, params):
    first_began.set()
    seen.append(tf.compat.v1.get_collection("mine"))
    tf.compat.v1.add_to_collection("mine", mode)
    assert second_began.wait(60)
    return programs.line(features, labels, mode, params)

  def second(features, labels, mode, params):
    second_began.set()
    assert first_ended.wait(60)
    seen.append(tf.compat.v1.get_collection("mine"))
    tf.compat.v1.add_to_collection("mine", mode)
    return programs.line(features, labels, mode, params)

  def evaluate(name, model_fn):
    estimator = programs.estimator(tmp_path, model_fn)
    results[name] = estimator.evaluate(programs.examples(16))
    first_ended.set()

  alone = programs.estimator(tmp_path).train(programs.train_input, steps=2)
  alone = alone.evaluate(programs.examples(16))
  thread = threading.Thread(target=evaluate, args=("first", first))
  thread.start()
  assert first_began.wait(60)
  evaluate("second", second)
  thread.join()
  assert results == {"first": alone, "second": alone}
  assert seen == [[], []]
  assert tf.compat.v1.get_collection("mine") == ["the program's"]
  variable = keras.Variable([1.0])
  keras.optimizers.SGD(0.5).apply_gradients([(tf.constant([1.0]), variable)])
  assert variable.numpy() == [0.5]
