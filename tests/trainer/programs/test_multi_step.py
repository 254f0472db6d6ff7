"""Several steps in one program do what as many steps do that the host calls: on one core, which
XLA compiles them for, and on XLA devices.
"""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors, testing
from trainer.optimization import schedules
from trainer.pjrt import installed

PER_PROGRAM = 4

try:
  installed.require()
  DEVICES = ["cpu", "xla:8"]
except errors.VersionError:
  DEVICES = ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request):
  return request.param


@pytest.fixture
def seen():
  """(what, step, value) of the host_call and of the hooks."""
  return []


def everything(seen, dropout=0.5):
  """A model_fn with all that depends on the step or outlives it."""

  def note(step, x):
    # The tensors of all cores, one after another.
    tf.py_function(
      lambda *values: seen.append([value.numpy().tolist() for value in values]), [step, x], []
    )

  def model_fn(features, labels, mode, params):
    x = keras.layers.Dropout(dropout)(features["x"], training=mode == trainer.ModeKeys.TRAIN)
    w = tf.Variable(tf.zeros([programs.WIDTH]), name="w")
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) - labels))
    tf.summary.scalar("largest", tf.reduce_max(features["x"]))
    optimizer = keras.optimizers.Adam(schedules.linear(0.1, warmup=3, duration=20))
    train_op = trainer.minimize(optimizer, loss, clip_norm=0.5, accumulate_steps=3, ema_decay=0.9)
    step = tf.compat.v1.train.get_global_step()
    host_call = note, [tf.reshape(step, [1]), features["x"][:1, 0]]
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op, host_call=host_call)

  return model_fn


def train(folder, seen, device, steps_per_program, model_fn=None, steps=11, **config):
  """Trains in loops of 7 steps, of which no program's length is a divisor."""
  tpu = trainer.TPUConfig(
    iterations_per_loop=7, host_call_every_n_steps=5, steps_per_program=steps_per_program
  )
  estimator = programs.estimator(
    folder, model_fn or everything(seen), device, train_steps=20, tpu_config=tpu, **config
  )
  hook = lambda step, metrics, _: seen.append((step, sorted(metrics.items())))
  return testing.values(estimator.train(programs.train_input, hooks=[hook], max_steps=steps))


def _numbers(value):
  return [each[1] if isinstance(each, tuple) else each for each in value]


def test_a_training_that_is_resumed_comes_to_the_same_bits(tmp_path, device):
  """The checkpoint is written inside of a stack."""
  runs = []
  for name, stops in (("whole", [11]), ("parts", [6, 11])):
    for stop in stops:
      values = train(
        tmp_path / name, [], device, PER_PROGRAM, steps=stop, xla=True, save_checkpoints_steps=6
      )
    runs.append(values)
  testing.assert_same_values(*runs)


def test_an_input_that_ends_inside_a_stack(tmp_path, device):
  """Every whole step is done, none twice: the batches add up."""

  def model_fn(features, labels, mode, params):
    total = tf.Variable(0.0, name="total", aggregation=tf.VariableAggregation.MEAN)
    w = tf.Variable(0.0, name="w")
    loss = w * 0.0 + tf.reduce_sum(features["x"])
    with tf.control_dependencies([total.assign_add(tf.reduce_sum(features["x"]))]):
      train_op = trainer.minimize(keras.optimizers.SGD(), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  tpu = trainer.TPUConfig(steps_per_program=PER_PROGRAM)
  estimator = programs.estimator(tmp_path, model_fn, device, xla=True, tpu_config=tpu)
  cores = estimator.device.replicas
  steps = []
  estimator.train(
    programs.batches(6 * cores + cores // 2), hooks=[lambda step, *_: steps.append(step)]
  )
  assert steps[-1] == 6
  x, _ = programs.arrays(40)
  rows = np.arange(6 * 8) % 40
  mean = x[rows].sum() / cores
  assert testing.values(estimator)["total"] == pytest.approx(mean, rel=1e-4)


def test_the_first_step_that_is_not_finite(tmp_path, device):
  """On whichever core; and the next loop begins anew."""

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    step = tf.compat.v1.train.get_global_step()
    replica = tf.distribute.get_replica_context()
    is_last = tf.equal(replica.replica_id_in_sync_group, replica.num_replicas_in_sync - 1)
    spec.loss = tf.where((step >= 5) & (step < 8) & is_last, math.nan, spec.loss)
    return spec

  tpu = trainer.TPUConfig(steps_per_program=PER_PROGRAM)
  estimator = programs.estimator(tmp_path, model_fn, device, xla=True, tpu_config=tpu)
  source, found = estimator.trace("train", programs.train_input), []
  for steps in (5, 2, 2, 2):
    result = source.traced.run(source.iterator, steps)
    found.append((int(result["non_finite_step"]), math.isfinite(float(result["loss"]))))
  assert found == [(-1, True), (6, False), (8, False), (-1, True)]


def test_a_rollback_goes_on_with_the_examples_that_follow(tmp_path):
  """The rest of the stack that the bad step was in is not lost."""

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    # No step with this example ends well: not the row, but what came after, decides.
    is_bad = tf.reduce_any(tf.equal(labels, bad))
    spec.loss = tf.where(is_bad, math.inf, spec.loss)
    return spec

  x, y = programs.arrays(400)
  bad = y[8 * 9]  # the first example of step 10

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(
      params["batch_size"], drop_remainder=True
    )

  estimators = [
    programs.estimator(
      tmp_path / name,
      model_fn,
      on_non_finite="rollback",
      save_checkpoints_steps=4,
      xla=is_xla,
      tpu_config=trainer.TPUConfig(iterations_per_loop=4, steps_per_program=3),
    ).train(input_fn, max_steps=16)
    for name, is_xla in (("host", False), ("program", True))
  ]
  testing.assert_same_values(*map(testing.values, estimators), tolerance=1e-6)


def test_a_stack_that_is_too_large_names_the_setting(tmp_path):
  tpu = trainer.TPUConfig(steps_per_program=10, stacked_input_bytes=1000)
  with pytest.raises(
    errors.SettingError, match=r"(?s)steps_per_program is 10.*stacked_input_bytes.*7 steps"
  ):
    programs.estimator(tmp_path, xla=True, tpu_config=tpu).train(programs.train_input, steps=1)
  assert not (tmp_path / "model.ckpt-0.index").exists()


def test_other_devices_leave_it_to_the_host(tmp_path):
  tpu = trainer.TPUConfig(steps_per_program=PER_PROGRAM)
  estimator = programs.estimator(tmp_path, device="cpu:2", tpu_config=tpu)
  for kind, input_fn in (("train", programs.train_input), ("eval", programs.examples(9))):
    assert isinstance(estimator.trace(kind, input_fn).iterator, tf.data.Iterator)
