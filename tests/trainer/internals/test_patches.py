"""Replacements that stay: installed once, by whichever thread is first, and asleep outside of a
trace.
"""

import contextvars
import pathlib
import subprocess
import sys
import threading
import types

import keras
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer.internals import patches

ROOT = pathlib.Path(trainer.__file__).resolve().parents[1]

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
  with patches.set_context(_factor, 2):
    assert (counter().count(3), module.count(number=3)) == (6, 6)
  assert (counter().count(3), module.count(3)) == (3, 3)
  assert (counter.count.__name__, counter.count.__doc__) == ("count", "Counts.")


def test_keras_finds_arguments_of_operations_with_patched_init(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, steps=1)
  assert keras.ops.cond(True, lambda: 1, lambda: 2) == 1  # which makes an Operation


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
  with patches.set_context(_factor, 2):
    assert counter().count(3) == 6


def test_kept_context_reaches_threads_that_call_concurrently():
  both, seen = threading.Barrier(2), []

  def look():
    both.wait()
    seen.append(_factor.get())

  with patches.set_context(_factor, 5):
    carried = patches.keep_context(look)
  threads = [threading.Thread(target=carried) for _ in range(2)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert seen == [5, 5]
  assert _factor.get() is None


def test_overlapping_traces_of_threads_leave_keras_unchanged(tmp_path):
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
  tf.compat.v1.get_default_graph().clear_collection("mine")
  variable = keras.Variable([1.0])
  keras.optimizers.SGD(0.5).apply_gradients([(tf.constant([1.0]), variable)])
  assert variable.numpy() == [0.5]


OUTSIDE = """
import sys
import keras
import numpy as np
import tensorflow as tf
import trainer.estimator.estimator
from trainer.internals import patches

v1 = tf.compat.v1
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
x = np.random.RandomState(1).randn(16, 4, 4, 16).astype("float32")
y = x.mean((1, 2, 3))


def fit(strategy):
  keras.utils.set_random_seed(3)
  with strategy.scope():
    layers = [keras.layers.BatchNormalization(), keras.layers.Dropout(0.25), keras.layers.Flatten()]
    model = keras.Sequential([*layers, keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
  history = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
  return [*model.get_weights(), np.array(history.history["loss"])]


def session():
  with tf.Graph().as_default(), v1.Session() as running:
    v1.set_random_seed(4)
    w = v1.get_variable("w", [16], initializer=v1.random_normal_initializer())
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x.mean((1, 2)), w) - y))
    summary = v1.summary.scalar("loss", loss)
    train_op = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    running.run(v1.global_variables_initializer())
    return [running.run([train_op, summary, w])[i] for i in (1, 2)]


def eager():
  tf.random.set_seed(5)
  noise = tf.random.normal([4])
  with tf.summary.create_file_writer(sys.argv[1]).as_default():
    written = tf.function(lambda: tf.summary.scalar("a", 1.5, step=1))()
  return [noise.numpy(), tf.random.normal([4]).numpy(), written.numpy()]


def everything():
  strategies = tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
  return [value for strategy in strategies for value in fit(strategy)] + session() + eager()


assert not patches.installed()
before = everything()
patches.install()
assert len(patches.installed()) > 15
after = everything()
assert len(before) == len(after) == 2 * 9 + 2 + 3
print([i for i, (a, b) in enumerate(zip(before, after)) if not np.array_equal(a, b)])
"""


@pytest.mark.long
def test_outside_traces_keras_and_tensorflow_keep_their_bits(tmp_path):
  command = [sys.executable, "-c", OUTSIDE, str(tmp_path)]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
  assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr[-3000:]
