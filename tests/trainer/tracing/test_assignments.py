"""An evaluation changes no variable of the model, whatever the model_fn builds in it."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

import trainer
from tests import node_defs
from tests.trainer import programs
from trainer import errors, testing
from trainer.internals import patches
from trainer.tracing import assignments

v1 = tf.compat.v1
ModeKeys = trainer.ModeKeys


@pytest.fixture(autouse=True)
def _installed():
  patches.install()


def update(variable):
  return variable.assign_add([1.0, 1.0])


in_a_function = tf.function(update)

# Ways to change a variable that begins with [1, 2].
CHANGES = {
  "assign": lambda w: w.assign([5.0, 6.0]),
  "assign_sub": lambda w: w.assign_sub([5.0, 6.0]),
  "v1.assign_add": lambda w: v1.assign_add(w, [1.0, 1.0]),
  "scatter": lambda w: w.scatter_update(tf.IndexedSlices([9.0], [0])),
  "strided slice": lambda w: w[0].assign(9.0),
  "raw assignment": lambda w: tf.raw_ops.AssignVariableOp(resource=w.handle, value=[5.0, 6.0]),
  "raw optimizer": lambda w: tf.raw_ops.ResourceApplyGradientDescent(
    var=w.handle, alpha=0.1, delta=[1.0, 1.0]
  ),
  "under tf.cond": lambda w: tf.cond(w[0] > 0, lambda: update(w) + 0.0, lambda: tf.zeros([2])),
  "in a loop": lambda w: tf.while_loop(
    lambda n: n < 3, lambda n: n + tf.cast(update(w)[0] * 0 + 1, tf.int32), (tf.constant(0),)
  ),
  "in a function": lambda w: tf.function(lambda: update(w))(),
  "in a function of variables": in_a_function,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_left_out_where_it_is_made(change):
  w = tf.Variable([1.0, 2.0])

  @tf.function(autograph=False)
  def changed(leave_out):
    with assignments.leave_out(lambda handle: leave_out):
      change(w)
      return w.read_value()

  np.testing.assert_array_equal(changed(True), [1.0, 2.0])
  np.testing.assert_array_equal(w, [1.0, 2.0])
  assert not np.array_equal(changed(False), [1.0, 2.0])


@pytest.mark.parametrize("first", [True, False])
def test_a_function_is_traced_for_each_of_both(first):
  w = tf.Variable([1.0, 2.0])
  function = tf.function(update)

  @tf.function(autograph=False)
  def changed(leave_out):
    with assignments.leave_out(lambda handle: leave_out):
      function(w)

  for leave_out in (first, not first):
    changed(leave_out)
  np.testing.assert_array_equal(w, [2.0, 3.0])


def test_which_variable_it_is_is_known_in_branches_and_functions():
  w, other = tf.Variable(1.0), tf.Variable(1.0)

  @tf.function(autograph=False)
  def changed():
    with assignments.leave_out(lambda handle: handle is w.handle):

      def change():
        tf.function(lambda: (w.assign_add(1.0), other.assign_add(1.0)))()
        return 0

      tf.cond(other > 0, change, lambda: 1)

  changed()
  assert (w.numpy(), other.numpy()) == (1.0, 2.0)


def test_a_random_generator_draws_without_moving_on():
  """Two numbers of a batch differ; those of the next batch are the same."""
  generator = tf.random.Generator.from_seed(3)
  before = generator.state.numpy()

  @tf.function(autograph=False)
  def draw():
    with assignments.leave_out(lambda handle: True):
      generator.skip(5)
      return generator.normal([2]), generator.normal([2])

  first, second = draw()
  assert not np.array_equal(first, second)
  for one, again in zip((first, second), draw(), strict=True):
    np.testing.assert_array_equal(one, again)
  np.testing.assert_array_equal(generator.state, before)


def test_what_cannot_be_left_out_is_an_error():
  w = tf.Variable(1)

  @tf.function(autograph=False)
  def count():
    with assignments.leave_out(lambda handle: True):
      return tf.raw_ops.ResourceCountUpTo(resource=w.handle, limit=3, T=tf.int32)

  with pytest.raises(
    errors.ModelFnError, match="ResourceCountUpTo changes a variable.*in training"
  ):
    count()


# Operations that change something else than a variable, by how their names begin.
OF_OTHER_RESOURCES = (
  "Boosted",
  "Close",
  "CreateSummary",
  "Delete",
  "Deserialize",
  "DestroyResource",
  "DisableCopyOnRead",
  "FlushSummary",
  "ImportEvent",
  "InitializeTable",
  "LookupTable",
  "Queue",
  "Reader",
  "ResourceAccumulator",
  "Stack",
  "StatsAggregator",
  "TensorArray",
  "Write",
)


def test_all_operations_that_change_a_variable_are_known():
  """A version of TensorFlow that has another one must not let it through."""
  definitions = [op_def_registry.get(name) for name in dir(tf.raw_ops)]
  changes = [
    definition.name
    for definition in definitions
    if definition is not None
    and definition.is_stateful
    and definition.input_arg
    and definition.input_arg[0].type == tf.resource.as_datatype_enum
    and not definition.output_arg
    and not definition.name.startswith(OF_OTHER_RESOURCES)
  ]
  assert len(changes) > 40
  assert [name for name in changes if not assignments.changes_a_variable(name)] == []


# ------------------------------------------------------------------- in modes


class Descent(v1.train.Optimizer):
  """Plain gradient descent, by an apply_gradients of its own."""

  def __init__(self):
    super().__init__(False, "Descent")

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    updates = []
    for gradient, variable in grads_and_vars:
      steps = v1.get_variable("descents", [], initializer=v1.zeros_initializer(), trainable=False)
      updates += [variable.assign_sub(0.05 * gradient), steps.assign_add(1.0)]
    return tf.group(*updates, name=name)


def everything(features, labels, mode, params):
  """A line that is trained in every mode, with whatever else a train_op may change."""
  w = v1.get_variable("w", [programs.WIDTH], initializer=v1.zeros_initializer())
  count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), trainable=False)
  branch = v1.get_variable("branch", [], tf.int32, v1.zeros_initializer(), trainable=False)
  raw = v1.get_variable("raw", [1], initializer=v1.zeros_initializer(), trainable=False)
  pair = v1.get_variable("pair", [2], initializer=v1.zeros_initializer(), trainable=False)
  y = tf.linalg.matvec(features["x"], w)
  loss = tf.reduce_mean(tf.square(y - (0.0 if labels is None else labels)))
  descent = Descent().minimize(loss, v1.train.get_global_step(), [w])
  momentum = v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss, var_list=[w])
  average = v1.train.ExponentialMovingAverage(0.5)
  with tf.control_dependencies([descent, momentum]):
    averaged = average.apply([w])
  global_step = v1.train.get_global_step()
  train_op = tf.group(
    averaged,
    v1.assign_add(count, 1.0),
    in_a_function(pair),
    tf.cond(global_step >= 0, lambda: branch.assign_add(1), lambda: 0),
    tf.raw_ops.ResourceApplyGradientDescent(var=raw.handle, alpha=-1.0, delta=[1.0]),
    global_step.assign(global_step + 1),
  )
  if mode == ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions={"y": y})
  return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.long_on_several_cores
def test_neither_evaluation_nor_prediction_changes_anything(tmp_path, device):
  estimator = programs.estimator(tmp_path / "model", everything, device)
  estimator.train(programs.train_input, steps=2)
  before = _on_each_replica(estimator)
  names = {"count": 2, "branch": 2, "raw": 2, "pair": 4, "descents": 2, "global_step": 2}
  assert {name: float(before[name][0].sum()) for name in names} == names
  assert all(before[name][0].any() for name in before)
  estimator.evaluate(programs.examples(20))
  list(estimator.predict(programs.examples(20)))
  after = _on_each_replica(estimator)
  assert before.keys() == after.keys()
  for name, values in before.items():
    np.testing.assert_array_equal(values, after[name], err_msg=name)
  for values in after.values():  # nor are replicas apart
    np.testing.assert_array_equal(values, [values[0]] * len(values))


def test_evaluation_before_training_changes_no_trained_value(tmp_path):
  twice = programs.estimator(tmp_path / "twice", everything)
  twice.trace("eval", programs.examples(20))
  once = programs.estimator(tmp_path / "once", everything)
  for estimator in (twice, once):
    estimator.train(programs.train_input, steps=2)
  testing.assert_same_values(testing.values(twice), testing.values(once))


def test_what_is_served_assigns_nothing(tmp_path):
  estimator = programs.estimator(tmp_path / "model", everything)
  estimator.train(programs.train_input, steps=1)
  path = estimator.export_saved_model(str(tmp_path / "export"))
  serve = tf.saved_model.load(path).signatures["serving_default"]
  kinds = {node.op for node in node_defs.operations(serve)}
  assert "MatMul" in kinds or "BatchMatMulV2" in kinds
  assert not {kind for kind in kinds if assignments.changes_a_variable(kind)}


@pytest.mark.of_tensorflows_replicas
@pytest.mark.long_on_several_cores
def test_model_fn_metrics_count_in_eval_and_not_in_checkpoints(tmp_path, device):
  def model_fn(features, labels, mode, params):
    result = programs.line(features, labels, mode, params)
    _, count = v1.metrics.mean(3.0 * tf.ones_like(features["x"][:, 0]), name="rows")
    with tf.control_dependencies([count]):
      total = next(each for each in v1.local_variables() if "total" in each.name).read_value()
    if mode == ModeKeys.PREDICT:
      return trainer.EstimatorSpec(mode, predictions={"total": total + 0 * features["x"][:, 0]})
    return trainer.EstimatorSpec(mode, loss=total + 0 * result.loss, train_op=result.train_op)

  estimator = programs.estimator(tmp_path / "model", model_fn, device)
  estimator.train(programs.train_input, steps=1)
  assert not [name for name in estimator.get_variable_names() if "total" in name]
  of_a_batch = 3.0 * 8 / len(_on_each_replica(estimator)["w"])
  for evaluations in (1, 2):
    loss = estimator.evaluate(programs.examples(8))["loss"]
    assert loss == of_a_batch * (1 + evaluations)
  for prediction in estimator.predict(programs.examples(16)):
    assert prediction["total"] == loss
  path = estimator.export_saved_model(str(tmp_path / "export"))
  served = tf.saved_model.load(path).signatures["serving_default"](x=tf.ones([2, programs.WIDTH]))
  np.testing.assert_array_equal(served["total"], [0.0, 0.0])


def _on_each_replica(estimator):
  """dict of name → [value on each replica]."""
  return {
    name: [part.numpy() for part in getattr(variable, "values", [variable])]
    for name, variable in estimator.variables.items()
  }
