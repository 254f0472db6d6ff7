"""One step: what goes wrong in a model_fn is said in its terms; host_call gets the tensors of
all replicas.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.settings.kinds import Kind

ModeKeys = trainer.ModeKeys


def spoiled(spoil, modes=(ModeKeys.TRAIN,)):
  """The line, whose spec `spoil` changes in these modes."""

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    if mode in modes:
      spoil(spec)
    return spec

  return model_fn


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
@pytest.mark.parametrize(
  "loss, shape",
  [
    (lambda loss: tf.stack([loss, loss]), r"\(2,\)"),
    (lambda loss: tf.reshape(loss, [1, 1]), r"\(1, 1\)"),
  ],
)
def test_a_loss_is_a_scalar(loss, shape, mode, tmp_path):
  def spoil(spec):
    spec.loss = loss(spec.loss)

  estimator = programs.estimator(tmp_path, spoiled(spoil, (mode,)))
  with pytest.raises(
    errors.SpecError,
    match=rf"mode '{mode}': the loss has shape {shape}: "
    r"expected a scalar, as tf.reduce_mean gives",
  ):
    estimator.trace(mode, programs.train_input)


def test_a_loss_is_a_tensor(tmp_path):
  def spoil(spec):
    spec.loss = 1.0

  with pytest.raises(errors.SpecError, match="loss"):
    programs.estimator(tmp_path, spoiled(spoil)).train(programs.train_input, steps=1)


def test_an_integer_loss_is_taken_as_the_number_it_is(tmp_path):
  def spoil(spec):
    spec.loss = tf.constant(7)

  losses = []
  programs.estimator(tmp_path, spoiled(spoil)).train(
    programs.train_input, steps=1, hooks=[lambda step, metrics, _: losses.append(metrics["loss"])]
  )
  assert losses == [7.0]


@pytest.mark.parametrize(
  "predictions", [lambda y: tf.reduce_mean(y), lambda y: y[:3]], ids=["scalar", "another batch"]
)
def test_predictions_have_the_batch_first(predictions, tmp_path):
  def spoil(spec):
    spec.predictions = {"mean": predictions(spec.predictions["y"])}

  estimator = programs.estimator(tmp_path, spoiled(spoil, (ModeKeys.PREDICT,))).train(
    programs.train_input, steps=1
  )
  with pytest.raises(errors.SpecError, match="mean"):
    list(estimator.predict(programs.examples(8)))


@pytest.mark.parametrize(
  "tensor", [lambda y: tf.reduce_mean(y), lambda y: y[:3]], ids=["scalar", "another batch"]
)
def test_tensors_of_metrics_have_the_batch_first(tensor, tmp_path):
  def spoil(spec):
    fn, tensors = spec.eval_metrics
    spec.eval_metrics = fn, {name: tensor(value) for name, value in tensors.items()}

  estimator = programs.estimator(tmp_path, spoiled(spoil, (ModeKeys.EVAL,))).train(
    programs.train_input, steps=1
  )
  with pytest.raises(errors.SpecError, match="labels"):
    estimator.evaluate(programs.examples(8))


def _fails(features, labels, mode, params):
  return features["x"] @ tf.zeros([4, 2])


def test_model_fn_error_comes_with_shapes_and_line(tmp_path):
  given = r'given features\["x"\] float32\[8, 3\], labels float32\[8\]: '
  with pytest.raises(
    errors.ModelFnError,
    match=r"model_fn _fails failed in mode "
    rf"'train'.*{given}",
  ):
    programs.estimator(tmp_path, _fails).train(programs.train_input, steps=1)


def test_the_line_is_named_wherever_the_program_lies(tmp_path):
  line = _fails.__code__.co_firstlineno + 1
  with pytest.raises(errors.ModelFnError, match=rf"\({__file__}:{line}\)"):
    programs.estimator(tmp_path, _fails).train(programs.train_input, steps=1)


def test_an_error_of_a_model_fn_keeps_its_cause(tmp_path):
  def model_fn(features, labels, mode, params):
    raise KeyError("width")

  with pytest.raises(errors.ModelFnError, match="KeyError: 'width'") as raised:
    programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)
  assert isinstance(raised.value.__cause__, KeyError)


def test_the_true_step_is_known_inside(tmp_path):
  """tf.compat.v1.train.get_global_step() is the number of the step that is being done, from 0."""
  seen = []

  def model_fn(features, labels, mode, params):
    tf.summary.scalar("step", tf.compat.v1.train.get_global_step())
    return programs.line(features, labels, mode, params)

  programs.estimator(tmp_path, model_fn, **programs.fixed_loops(3)).train(
    programs.train_input,
    steps=7,
    hooks=[lambda step, metrics, _: seen.append((step, metrics["step"]))],
  )
  assert seen == [(3, 2.0), (6, 5.0), (7, 6.0)]


# ------------------------------------------------------------------- host_call


def host_calling(received, tensors, **kwargs):
  def host_fn(*args, **keywords):
    def write(*arrays):
      received.append([array.copy() for array in arrays])
      return np.int64(0)

    values = [*args, *(keywords[key] for key in sorted(keywords))]
    return tf.numpy_function(write, values, tf.int64)

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    spec.host_call = (host_fn, tensors(features))
    return spec

  return model_fn


@pytest.mark.parametrize(
  "tensors",
  [
    lambda features: [features["x"][:, 0], tf.reshape(tf.compat.v1.train.get_global_step(), [1])],
    lambda features: {
      "a": features["x"][:, 0],
      "b": tf.reshape(tf.compat.v1.train.get_global_step(), [1]),
    },
  ],
  ids=["list", "dict"],
)
@long.ON_TWO_CORES
def test_host_calls_get_all_replicas_in_order_in_each_step(tensors, tmp_path, device):
  received = []
  estimator = programs.estimator(
    tmp_path, host_calling(received, tensors), device, batch_size=16, **programs.fixed_loops(4)
  )
  estimator.train(programs.train_input, steps=2)
  x, _ = programs.arrays(40)
  # The dataset goes round after 40 points.
  np.testing.assert_array_equal([x_0 for x_0, _ in received], x[:32, 0].reshape(2, 16))
  assert [steps.tolist() for _, steps in received] == [
    [step] * estimator.device.replicas for step in (0, 1)
  ]


def test_host_calls_every_so_many_steps(tmp_path):
  received = []
  model_fn = host_calling(
    received, lambda features: [tf.reshape(tf.compat.v1.train.get_global_step(), [1])]
  )
  config = trainer.TPUConfig(iterations_per_loop=4, host_call_every_n_steps=3)
  programs.estimator(tmp_path, model_fn, tpu_config=config).train(programs.train_input, steps=7)
  assert [steps.tolist() for (steps,) in received] == [[2], [5]]


def test_host_calls_take_no_scalars(tmp_path):
  model_fn = host_calling([], lambda features: [tf.constant(1.0)])
  with pytest.raises(
    errors.SpecError,
    match=r"host_call: the tensor .* is a "
    r"scalar.*tf.reshape\(tensor, \[1\]\)",
  ):
    programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=1)


def test_bfloat16_is_for_the_computation(tmp_path):
  dtypes = {}

  def model_fn(features, labels, mode, params):
    y = keras.layers.Dense(1)(features["x"])
    dtypes[mode] = y.dtype
    y = tf.cast(y, tf.float32)[:, 0]
    if mode == ModeKeys.PREDICT:
      return trainer.EstimatorSpec(mode, predictions=y)
    loss = tf.reduce_mean(tf.square(y - labels))
    return trainer.EstimatorSpec(
      mode,
      loss=loss,
      train_op=trainer.minimize(keras.optimizers.SGD(0.05), loss) if mode == "train" else None,
    )

  estimator = programs.estimator(tmp_path, model_fn, precision="bfloat16").train(
    programs.train_input, steps=2
  )
  estimator.evaluate(programs.examples(8))
  assert dtypes == {"train": tf.bfloat16, "eval": tf.bfloat16}
  assert {
    name: estimator.get_variable_value(name).dtype for name in ("dense/kernel", "dense/bias")
  } == {"dense/kernel": np.float32, "dense/bias": np.float32}


def fails_in_metric_fn(features, labels, mode, params):
  specification = programs.line(features, labels, mode, params)
  if mode != trainer.ModeKeys.EVAL:
    return specification

  def metric_fn(labels):
    metric = keras.metrics.Mean()
    metric.update_state(tf.reshape(labels, [7, -1]))  # of eight labels
    return {"mean": metric}

  return trainer.EstimatorSpec(mode, loss=specification.loss, eval_metrics=(metric_fn, [labels]))


def fails_in_loss(features, labels, mode, params):
  with tf.control_dependencies([tf.debugging.assert_less(labels, -1e9, "a label is too large")]):
    return programs.line(features, tf.identity(labels), mode, params)


@pytest.mark.parametrize(
  ("model_fn", "kind", "what"),
  [
    (fails_in_loss, Kind.TRAIN, "a label is too large"),
    (fails_in_loss, Kind.EVAL, "a label is too large"),
    (fails_in_metric_fn, Kind.EVAL, "requires a multiple of 7"),
  ],
)
def test_failing_operation_is_reported_in_one_line_with_place(tmp_path, model_fn, kind, what):
  estimator = programs.estimator(tmp_path, model_fn)
  with pytest.raises(errors.ModelFnError, match=what) as tried:
    estimator.try_step(kind, programs.train_input)
  assert "\n" not in str(tried.value)
  assert f"failed in a step, mode '{kind}' ({__file__}:" in str(tried.value)


def test_an_evaluation_tells_it_the_same_way(tmp_path):
  estimator = programs.estimator(tmp_path, fails_in_metric_fn)
  estimator.train(programs.train_input, max_steps=1)
  with pytest.raises(errors.ModelFnError, match="failed in a step, mode 'eval'.*multiple of 7"):
    estimator.evaluate(programs.train_input, steps=1)


def without_train_op(features, labels, mode, params):
  loss = programs.line(features, labels, ModeKeys.EVAL, params).loss
  return trainer.EstimatorSpec(mode, loss=loss)


def asks_for_a_value(features, labels, mode, params):
  if tf.reduce_mean(labels) > 0:
    labels = -labels
  return programs.line(features, labels, mode, params)


@pytest.mark.parametrize(
  ("model_fn", "error", "what"),
  [
    (without_train_op, errors.SpecError, r"trainer.minimize\(optimizer, loss\) makes a train_op"),
    (asks_for_a_value, errors.ModelFnError, "use tf.where, tf.cond"),
  ],
)
def test_a_mistake_is_told_with_its_place_and_the_way_out(tmp_path, model_fn, error, what):
  with pytest.raises(error, match=what) as raised:
    programs.estimator(tmp_path, model_fn).train(programs.train_input, max_steps=1)
  assert f"({__file__}:" in str(raised.value)
  assert "\n" not in str(raised.value)
