"""variable.op.name in a model_fn is the variable's name, on one core and on eight."""

import re

import keras
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer.devices import device as device_lib
from trainer.internals import patches
from trainer.tracing import variable_store

v1 = tf.compat.v1


@long.ON_TWO_CORES
def test_programs_choose_variables_by_operation_names(device, tmp_path):
  """As BERT does: what decays, and what a checkpoint is asked for."""
  seen = {}

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    with v1.variable_scope("bert"):
      scale = v1.get_variable("scale", [], initializer=v1.ones_initializer())
    keras.layers.Dense(1, name="head")(features["x"])
    decays = [v for v in v1.trainable_variables() if not re.search("bias|scale", v.op.name)]
    assignment = {v.op.name: v for v in v1.trainable_variables()}
    seen[mode] = (
      [v.op.name for v in v1.trainable_variables()],
      [v.op.name for v in decays],
      assignment["bert/scale"] is scale,
      {v.op.type for v in v1.global_variables()},
    )
    return spec

  estimator = programs.estimator(tmp_path, model_fn, device)
  estimator.train(programs.train_input, steps=1)
  estimator.evaluate(programs.examples(8))
  names = ["w", "b", "bert/scale", "head/kernel", "head/bias"]
  assert seen["train"] == seen["eval"] == (names, ["w", "b", "head/kernel"], True, {"VarHandleOp"})


def test_the_slots_of_an_optimizer_are_found_again(tmp_path):
  """It keeps them by the operations of the variables, where these have some."""

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    optimizer = v1.train.MomentumOptimizer(0.01, 0.9)
    train_op = optimizer.minimize(spec.loss, v1.train.get_global_step())
    slots = [optimizer.get_slot(v, "momentum").op.name for v in v1.trainable_variables()]
    assert slots == ["w/Momentum", "b/Momentum"]
    return trainer.EstimatorSpec(mode, loss=spec.loss, train_op=train_op)

  estimator = programs.estimator(tmp_path, model_fn)
  estimator.train(programs.train_input, steps=2)
  assert estimator.get_variable_value("w/Momentum").any()


def test_outside_of_a_model_fn_there_is_none():
  with device_lib.connect("cpu:8").strategy.scope():
    mirrored = tf.Variable(0.0, name="all/of/them")
  variable = tf.Variable(0.0, name="a/b")
  with variable_store.VariableStore(tf.distribute.get_strategy()).as_current():
    assert variable.op == variable_store.VariableOp("a/b")
    assert {part.op.name for part in mirrored.values[:1]} == {mirrored.op.name} == {"all/of/them"}
    with tf.Graph().as_default():
      assert tf.Variable(0.0, name="in_a_graph").op.type == "VarHandleOp"
      assert isinstance(tf.Variable(0.0, name="in_a_graph").op, tf.Operation)
  for each in (variable, mirrored):
    with pytest.raises(AttributeError):
      _ = each.op


def test_a_property_is_replaced_too():
  class Counter:
    @property
    def count(self):
      return 3

  @patches.replaces(Counter, "count")
  def _count(original, counter):
    return original(counter) + 1

  patches.install()
  assert Counter().count == 4
