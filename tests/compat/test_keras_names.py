"""Variables of Keras's layers have the names of TensorFlow 2.15, in scopes and out of them."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow

import trainer.compat.v1 as tf
import trainer.compat.v2 as v2
from tests import long
from tests.compat import keras_names_2_15
from trainer.checkpoints import former_names, reader
from trainer.compat.graph_mode import habits, keras_names
from trainer.compat.graph_mode import layer_calls as _layer_calls  # noqa: F401 (its replacement)
from trainer.devices import device as device_lib
from trainer.tracing import variable_store

CASES = keras_names_2_15.CASES
WANTED = json.loads(pathlib.Path(__file__).with_name("keras_names_2_15.json").read_text())
OF_OCTET = {"examples_seen"}


def traced(case, strategy=None):
  """(variables by name, names of those that are trainable) of a case, traced on each replica."""
  trainable = []

  def fn():
    with habits.enable(), keras_names.model_fn_scope():
      outputs = case(tf, tf.keras, tensorflow.ones([4, 4]))
      trainable[:] = [variable.op.name for variable in tf.trainable_variables()]
    return outputs

  return variables_of(fn, strategy), trainable


def variables_of(fn, strategy=None):
  """The variables of a function, traced on each replica, by name."""
  store = variable_store.VariableStore(strategy or tensorflow.distribute.get_strategy())
  step = tensorflow.constant(0, tensorflow.int64)
  function = tensorflow.function(lambda: store.run(fn, (), step), autograph=False)
  function.get_concrete_function()
  return store.variables


@pytest.mark.parametrize("name", CASES)
def test_as_in_2_15(name):
  if name == "a_sequential_in_a_sequential" and keras.__version__.startswith("3.5."):
    pytest.skip("Keras 3.5 cannot build it.")
  variables, trainable = traced(CASES[name])
  wanted = dict(WANTED[name]["stored"])
  del wanted["global_step"]
  assert {key: variable.shape.as_list() for key, variable in variables.items()} == wanted
  assert trainable == WANTED[name]["trainable"]


@pytest.mark.parametrize(
  "name", ["a_scope_twice", "layers_of_tf_between", "a_subclass_called_twice", "bidirectional"]
)
def test_on_two_cores_names_are_those_of_one(name):
  one, on_one = traced(CASES[name])
  two, on_two = traced(CASES[name], device_lib.connect("cpu:2").strategy)
  assert (list(one), on_one) == (list(two), on_two)


SLOTS = [(name, how) for name in keras_names_2_15.WITH_SLOTS for how in keras_names_2_15.OPTIMIZERS]


@pytest.mark.parametrize(
  "name,optimizer",
  long.except_for(
    [("batch_normalization", "AdamOptimizer"), ("embedding", "FtrlOptimizer")], SLOTS
  ),
)
def test_slots_are_named_as_in_2_15(tmp_path, name, optimizer):
  estimator, _ = keras_names_2_15.estimator_of(tf, CASES[name], tmp_path, optimizer, device="cpu")
  estimator.train(lambda: keras_names_2_15.batches(tf), steps=1)
  found = {name for name, _ in tf.train.list_variables(estimator.latest_checkpoint())}
  assert found - OF_OCTET == set(WANTED[f"slots of {name}"][optimizer])


def two_towers(tf, keras, x):
  """Variables whose names by Keras's scopes differ; some are now those of another variable."""
  with tf.variable_scope("one"):
    x = tf.layers.dense(x, 4)
    x = keras.layers.Dense(4)(x)
    x = keras.layers.Dense(4, name="d")(x)
  with tf.variable_scope("two"):
    x = keras.Sequential([keras.layers.Dense(4, name="d", input_shape=(4,))])(x)
    x = tf.layers.dense(x, 4, name="d")
  return keras.Sequential([keras.layers.Dense(2)], name="top")(x)


# Name of a kernel → that by Keras's scopes, where it is another one.
FORMER = {
  "one/dense_1/kernel": "dense/kernel",
  "one/d/kernel": "d/kernel",
  "two/d/kernel": "d/kernel_1",
  "two/d/kernel_1": "two/d/kernel",
  "top/dense_2/kernel": "top/dense_1/kernel",
}
FORMER |= {
  name.replace("kernel", "bias"): old.replace("kernel", "bias") for name, old in FORMER.items()
}


def by_keras(name):
  variable = max((own for own in FORMER if f"{name}/".startswith(f"{own}/")), key=len, default="")
  return name.replace(variable, FORMER[variable], 1) if variable else name


def test_a_checkpoint_with_names_by_keras_is_read(tmp_path):
  def estimator(folder):
    optimizer = "MomentumOptimizer"
    return keras_names_2_15.estimator_of(tf, two_towers, folder, optimizer, device="cpu")[0]

  def train(estimator):
    return estimator.train(lambda: keras_names_2_15.batches(tf), steps=1)

  new, old = estimator(tmp_path / "new"), estimator(tmp_path / "old")
  train(new)
  values = reader.read(new.latest_checkpoint(), list(reader.shapes(new.latest_checkpoint())))
  earlier = {by_keras(name): value for name, value in values.items()}
  assert len(earlier.keys() - values.keys()) == 16  # kernels, biases, and a slot of each
  (tmp_path / "old").mkdir()
  tensorflow.raw_ops.SaveV2(
    prefix=str(tmp_path / "old" / "model.ckpt-1"),
    tensor_names=list(earlier),
    shape_and_slices=[""] * len(earlier),
    tensors=list(earlier.values()),
  )
  (tmp_path / "old" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
  for made in (new, old):
    train(made)
  assert old.get_variable_names() == new.get_variable_names()
  for name in new.get_variable_names():
    assert np.array_equal(old.get_variable_value(name), new.get_variable_value(name)), name

  store = old.octet._parts.program.store
  old.octet._parts.values.assign_to(store, str(tmp_path / "old" / "model.ckpt-1"))  # as an export
  for name, variable in store.variables.items():
    assert np.array_equal(variable.numpy(), values[name]), name


def test_names_of_now_are_not_taken_for_those_of_before():
  now = {"a/kernel", "b/kernel", "b/kernel/Adam"}
  former = {"a/kernel": "kernel", "b/kernel": "a/kernel"}
  before = {"kernel", "a/kernel", "a/kernel/Adam"}
  assert former_names.stored_as(now, now | {"kernel"}, former) == {}
  assert former_names.stored_as(now, before, former) == {
    "a/kernel": "kernel",
    "b/kernel": "a/kernel",
    "b/kernel/Adam": "a/kernel/Adam",
  }
  assert former_names.stored_as(now, {"kernel", "b/kernel", "b/kernel/Adam"}, former) == {}


def test_two_layers_of_one_name_begin_with_different_values():
  variables, _ = traced(CASES["two_functionals"])
  one, two = variables["one/d/kernel"].numpy(), variables["two/d/kernel"].numpy()
  assert not np.array_equal(one, two)


def test_a_native_model_fn_has_the_names_of_keras():
  """Also once a program of compat.v1 was traced in the process: names on disk do not change."""
  traced(CASES["dense_in_a_scope"])

  def fn():
    with tf.variable_scope("dnn"):
      model = keras.Sequential([keras.Input([4]), keras.layers.Dense(2, use_bias=False)])
      return keras.layers.DepthwiseConv1D(1, use_bias=False)(model(tensorflow.ones([4, 4]))[None])

  assert list(variables_of(fn)) == ["sequential/dense/kernel", "depthwise_conv1d/kernel"]


@pytest.mark.parametrize("api", [tf, v2])
def test_older_arguments_of_keras_have_their_meaning(api):
  optimizers = api.keras.optimizers
  assert float(optimizers.Adam(lr=0.5).learning_rate) == 0.5
  decaying = optimizers.SGD(lr=0.5, decay=0.25, momentum=0.9)
  decaying.iterations.assign(4)
  assert float(decaying.learning_rate) == 0.25  # 0.5 / (1 + 0.25 * 4)
  model = api.keras.Sequential([api.keras.layers.Embedding(10, 4, input_length=6)])
  assert model.built
  assert model.output_shape == (None, 6, 4)
