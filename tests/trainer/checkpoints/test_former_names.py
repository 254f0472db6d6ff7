"""Checkpoints in which optimizers have the names that Keras before 3.15 gave them."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import former_names, reader
from trainer.internals import keras_internals
from trainer.tracing import variable_store

OPTIMIZERS = [
  value
  for value in vars(keras.optimizers).values()
  if inspect.isclass(value)
  and issubclass(value, keras.optimizers.Optimizer)
  and value is not keras.optimizers.Optimizer
  and "inner_optimizer" not in inspect.signature(value).parameters
  and value.__name__ != "MultiOptimizer"
]


class Mine(keras.optimizers.Adam):
  """An optimizer of a program's own."""


def names(*makers):
  store = variable_store.VariableStore(tf.distribute.get_strategy())

  def fn():
    for make in makers:
      make()
    return tf.constant(0)

  step = tf.constant(0, tf.int64)
  tf.function(lambda: store.run(fn, (), step), autograph=False).get_concrete_function()
  return [name.removesuffix("/iteration") for name in store.variables if "iteration" in name]


@pytest.mark.parametrize("kind", [*OPTIMIZERS, Mine], ids=lambda kind: kind.__name__)
def test_under_every_keras_an_optimizer_is_named_by_its_class(kind):
  name = keras_internals.to_snake_case(kind.__name__)
  assert names(kind, kind) == [name, f"{name}_1"]


def test_a_name_that_is_given_is_kept():
  assert names(lambda: keras.optimizers.SGD(name="mine"), lambda: Mine(name="SGDx")) == [
    "mine",
    "SGDx",
  ]
  assert names(lambda: keras.optimizers.get("sgd")) == ["sgd"]


def test_outside_of_a_trace_keras_names_as_ever():
  optimizer = keras.optimizers.Adamax(name="outside")
  assert optimizer.name == "outside"


def test_which_names_are_found():
  found = ["SGD/iteration", "SGD/dense_kernel_momentum", "dense/kernel", "adamw/iteration"]
  wanted = ["sgd/iteration", "sgd/dense_kernel_momentum", "dense/kernel", "adam_w/iteration", "w"]
  assert former_names.stored_as(wanted, found) == {
    "sgd/iteration": "SGD/iteration",
    "sgd/dense_kernel_momentum": "SGD/dense_kernel_momentum",
    "adam_w/iteration": "adamw/iteration",
  }


def test_those_of_a_second_optimizer():
  found = ["adam/iteration", "adam/a_momentum", "adam/iteration_1", "adam/b_momentum"]
  wanted = ["adam/iteration", "adam/a_momentum", "adam_1/iteration", "adam_1/b_momentum"]
  assert former_names.stored_as(wanted, found) == {
    "adam_1/iteration": "adam/iteration_1",
    "adam_1/b_momentum": "adam/b_momentum",
  }


def test_no_variable_gets_what_another_has():
  wanted = ["adam/iteration", "adam_1/iteration", "rm_sprop/iteration", "net/kernel", "sgd"]
  found = ["adam/iteration", "rm_sprop/iteration", "SGD", "rmsprop/iteration"]
  assert former_names.stored_as(wanted, found) == {}


def momentum(features, labels, mode, params):
  """programs.line, trained by an optimizer that remembers."""
  spec = programs.line(features, labels, trainer.ModeKeys.EVAL, params)
  if mode == trainer.ModeKeys.EVAL:
    return spec
  optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
  return trainer.EstimatorSpec(
    mode, loss=spec.loss, train_op=trainer.minimize(optimizer, spec.loss)
  )


def renamed(path, change):
  """Writes a checkpoint again, with other names in it."""
  values = reader.read(path, list(reader.shapes(path)))
  tensors = {change(name): tf.constant(value) for name, value in values.items()}
  tf.raw_ops.SaveV2(
    prefix=path,
    tensor_names=list(tensors),
    shape_and_slices=[""] * len(tensors),
    tensors=list(tensors.values()),
  )


def test_training_resumes_from_former_names_to_the_same_bits(tmp_path):
  for folder in ("undisturbed", "renamed"):
    programs.estimator(tmp_path / folder, momentum).train(programs.train_input, steps=3)
  path = str(tmp_path / "renamed" / "model.ckpt-3")
  renamed(path, lambda name: name.replace("sgd/", "SGD/"))
  assert "SGD/w_0_momentum" in reader.shapes(path)
  values = []
  for folder in ("undisturbed", "renamed"):
    estimator = programs.estimator(tmp_path / folder, momentum)
    estimator.train(programs.train_input, steps=2)
    values.append({name: estimator.get_variable_value(name) for name in estimator.variables})
  assert "sgd/w_0_momentum" in values[1]
  assert values[0].keys() == values[1].keys()
  for name, value in values[0].items():
    np.testing.assert_array_equal(value, values[1][name], err_msg=name)


def test_what_is_missing_is_still_told_by_its_own_name(tmp_path):
  programs.estimator(tmp_path, momentum).train(programs.train_input, steps=1)
  renamed(str(tmp_path / "model.ckpt-1"), lambda name: name.replace("sgd/", "other/"))
  with pytest.raises(errors.CheckpointError, match="sgd/w_0_momentum: not in the checkpoint"):
    programs.estimator(tmp_path, momentum).train(programs.train_input, steps=1)
