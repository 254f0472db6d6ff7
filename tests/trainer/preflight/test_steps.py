import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.trainer.preflight import programs
from trainer import errors
from trainer.devices import replica
from trainer.preflight import steps as steps_lib
from trainer.programs import graph_operations, lowering
from trainer.settings import kinds
from trainer.tracing import user_frames


def steps_of(experiment, replicas=8):
  return steps_lib.Steps(
    experiment, "tpu", replicas, {kind: experiment.per_core(kind, replicas) for kind in kinds.Kind}
  )


def traced(experiment, kind="train", replicas=8):
  """(Steps, what was traced of many)."""
  steps = steps_of(experiment, replicas)
  return steps, steps.trace(kind, *steps.call_input_fn(kind))


def operations(program, *types):
  return [each for each in graph_operations.walk(program.concrete.graph) if each.type in types]


def all_reduces(program):
  return operations(program, "XlaAllReduce")


@pytest.mark.parametrize("kind", kinds.Kind)
def test_each_kind_of_step_becomes_a_program(kind):
  steps, program = traced(programs.experiment(), kind)
  assert program.specs[0].shape == (program.plan.length, 8, programs.SIDE, programs.SIDE, 3)
  made = steps.lower(program).lower()
  assert made.replicas == 8
  assert len(made.code) > 1000


def test_an_evaluation_has_no_more_groups_than_its_input():
  def few(params):
    return programs.input_fn(params).take(17)

  _, program = traced(programs.experiment(inputs=few), "eval")
  assert program.plan.length == 3  # two of eight batches, and one of the rest


def test_every_gradient_is_reduced_over_all_replicas():
  steps, program = traced(programs.experiment())
  reduced = all_reduces(program)
  assert sorted(operation.outputs[0].shape.num_elements() for operation in reduced) == sorted(
    variable.shape.num_elements()
    for variable in steps.program.store.variables.values()
    if variable.trainable
  )
  for operation in reduced:
    np.testing.assert_array_equal(tf.get_static_value(operation.inputs[1]), [range(8)])


def test_optimizers_of_v1_and_synchronized_batch_norm_reduce_too():
  _, program = traced(programs.experiment(programs.old_optimizer))
  assert len(all_reduces(program)) == 2
  plain, normed = (
    len(all_reduces(program))
    for _, program in (
      traced(programs.experiment()),
      traced(
        programs.experiment(
          lambda features, labels, mode, params: programs.model_fn(
            features, labels, mode, params, norm=True
          )
        )
      ),
    )
  )
  assert normed > plain + 2  # beyond the gradients of its scale and offset


def test_accumulating_clipping_averaging_step_becomes_hlo():
  steps, program = traced(programs.experiment(programs.accumulates))
  assert len(steps.lower(program).lower().code) > 1000
  assert len(all_reduces(program)) == 2


def test_bfloat16_computes_in_it_and_reduces_in_float32():
  _, program = traced(programs.experiment(precision="bfloat16"))
  assert {each.outputs[0].dtype for each in operations(program, "Conv2D")} == {tf.bfloat16}
  assert {each.outputs[0].dtype for each in all_reduces(program)} == {tf.float32}


def test_eval_and_predict_reduce_nothing_and_keep_one_replica():
  for kind in ("eval", "predict"):
    _, program = traced(programs.experiment(), kind)
    assert not all_reduces(program)
    kept = tf.nest.flatten(program.kept.variables())
    assert [program.plan.length, 8, 10] in [list(variable.shape) for variable in kept]


def test_strategy_takes_the_mean_over_all():
  strategy = replica.OneOfMany(4)
  assert strategy.num_replicas_in_sync == 4

  @tf.function
  def reduced(x):
    return strategy.run(
      lambda x: tf.distribute.get_replica_context().all_reduce(
        tf.distribute.ReduceOp.MEAN, {"a": x}
      ),
      (x,),
    )

  graph = reduced.get_concrete_function(tf.TensorSpec([3])).graph
  types = [operation.type for operation in graph.get_operations()]
  assert types.count("XlaAllReduce") == 1
  assert "RealDiv" in types


def test_partial_batch_stops_at_the_contract_with_its_place():
  place = r"drop_remainder=True\. .*ensure_shape\(x, \[8, \.\.\.\]\)\. \(.*programs\.py:\d+\)"
  with pytest.raises(errors.InputError, match=place):
    steps_of(programs.experiment(inputs=programs.partial_batches)).call_input_fn("train")


def test_partial_batch_is_padded_to_evaluate():
  steps = steps_of(programs.experiment(inputs=programs.partial_batches))
  element, _ = steps.call_input_fn("eval")
  assert {leaf.shape[0] for leaf in tf.nest.flatten(element)} == {8}


def test_string_stops_at_the_contract():
  with pytest.raises(
    errors.InputError,
    match=r'features\["name"\] \(train\) has dtype '
    r"string.*programs\.py:",
  ):
    steps_of(programs.experiment(inputs=programs.names)).call_input_fn("train")


def test_mistake_in_model_fn_stops_at_the_trace():
  with pytest.raises(errors.ModelFnError, match=rf"programs\.py:{programs.line_of('raises')}"):
    traced(programs.experiment(programs.raises))


@pytest.mark.parametrize(
  "model, op, comment, advice",
  [
    (programs.asks_python, "EagerPyFunc", "asks Python", "in the input_fn"),
    (programs.shape_of_data, "Reshape", "a shape of data", "pad to a fixed size"),
  ],
)
def test_what_xla_cannot_compile_is_named_with_its_place(model, op, comment, advice):
  steps, program = traced(programs.experiment(model))
  with pytest.raises(lowering.LowerError, match=advice) as caught:
    steps.lower(program)
  assert caught.value.op == op
  assert (caught.value.file, caught.value.line) == (programs.__file__, programs.line_of(comment))


def test_user_frame_skips_packages_and_the_framework():
  here = (__file__, 3)
  assert user_frames.innermost([here, (tf.__file__, 1), (lowering.__file__, 2)]) == here
  assert user_frames.innermost([(tf.__file__, 1)]) == ("", 0)
  assert user_frames.innermost([(__file__.lstrip("/"), 3)]) == here


def test_no_initial_value_is_computed():
  computed = []

  def ones(shape, dtype=None):
    computed.append(tf.executing_eagerly())
    return tf.ones(shape, dtype)

  def model_fn(features, labels, mode, params):
    x = keras.layers.Flatten()(features["image"])
    logits = keras.layers.Dense(10, kernel_initializer=ones)(x) * tf.Variable(3.0, name="scale")
    return programs.classifier(logits, labels, mode)

  steps, program = traced(programs.experiment(model_fn))
  assert steps.lower(program).lower().code
  assert steps.program.store.variables["dense/kernel"].shape == [programs.SIDE**2 * 3, 10]
  assert steps.program.store.variables["adam/dense_kernel_momentum"].shape == [
    programs.SIDE**2 * 3,
    10,
  ]
  assert steps.program.store.variables["scale"].dtype == tf.float32
  assert computed
  assert not any(computed)
