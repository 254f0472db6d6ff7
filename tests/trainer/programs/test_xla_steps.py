"""Training on eight XLA devices: what the host sees at boundaries, and what it gives back."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import runtimes
from tests.trainer import programs
from trainer import errors, testing
from trainer.devices import device as device_lib
from trainer.inputs import stacks
from trainer.optimization import schedules

runtimes.require_jax()

device_values = pytest.importorskip("trainer.pjrt.device_values")
jaxlib_internals = pytest.importorskip("trainer.pjrt.jaxlib_internals")

# Two devices show what eight do; tests/conformance/test_xla_devices.py has eight in the gate.
XLA, CPU = "xla:2", "cpu:2"
EIGHT = "xla:8"
PER_PROGRAM = 4


@pytest.fixture(scope="module", autouse=True)
def _eight_devices():
  """A process keeps the XLA devices that it began with: eight, which other tests need."""
  device_lib.connect(EIGHT)


def everything(seen):
  """A model_fn with all that depends on the step or outlives it."""

  def note(step, x):
    # The tensors of all cores, one after another.
    tf.py_function(
      lambda *values: seen.append([value.numpy().tolist() for value in values]), [step, x], []
    )

  def model_fn(features, labels, mode, params):
    w = tf.Variable(tf.zeros([programs.WIDTH]), name="w")
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], w) - labels))
    tf.summary.scalar("largest", tf.reduce_max(features["x"]))
    optimizer = keras.optimizers.Adam(schedules.linear(0.1, warmup=3, duration=20))
    train_op = trainer.minimize(optimizer, loss, clip_norm=0.5, accumulate_steps=3, ema_decay=0.9)
    step = tf.compat.v1.train.get_global_step()
    host_call = note, [tf.reshape(step, [1]), features["x"][:1, 0]]
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op, host_call=host_call)

  return model_fn


def train(folder, seen, device, steps=11, **config):
  """Trains in loops of 7 steps, of which no program's length is a divisor."""
  tpu = trainer.TPUConfig(
    iterations_per_loop=7, host_call_every_n_steps=5, steps_per_program=PER_PROGRAM
  )
  estimator = programs.estimator(
    folder, everything(seen), device, train_steps=20, tpu_config=tpu, **config
  )
  hook = lambda step, metrics, _: seen.append((step, sorted(metrics.items())))
  return testing.values(estimator.train(programs.train_input, hooks=[hook], max_steps=steps))


def _numbers(value):
  return [each[1] if isinstance(each, tuple) else each for each in value]


def reported(folder, device, **settings):
  seen = []
  values = train(folder, seen, device, **settings)
  return values, seen


@pytest.fixture(scope="module")
def on_cores(tmp_path_factory):
  """(values, reports) of a training on the cores of the CPU."""
  return reported(tmp_path_factory.mktemp("cpu"), CPU)


def test_it_trains_reports_and_host_calls_as_cores_do(tmp_path, on_cores):
  """With clipping, accumulated gradients, moving averages, a schedule, scalars and hooks."""
  own, mine = reported(tmp_path, XLA)
  other, theirs = on_cores
  testing.assert_same_values(own, other, tolerance=1e-5)
  assert float(np.abs(own["w"]).max()) > 0
  assert len(mine) == len(theirs) == 4
  for one, another in zip(mine, theirs, strict=True):
    assert one[0] == another[0]
    np.testing.assert_allclose(_numbers(one[1]), _numbers(another[1]), rtol=1e-5)


@pytest.mark.long  # the conformance tests resume on XLA devices in the gate; so do masks below
def test_a_training_that_is_resumed_comes_to_the_same_bits(tmp_path):
  whole, _ = reported(tmp_path / "whole", XLA, save_checkpoints_steps=6)
  reported(tmp_path / "parts", XLA, steps=6, save_checkpoints_steps=6)
  parts, _ = reported(tmp_path / "parts", XLA, save_checkpoints_steps=6)
  testing.assert_same_values(whole, parts)


def test_checkpoints_move_to_other_devices_and_back(tmp_path, on_cores):
  expected, _ = on_cores
  for steps, device in ((3, XLA), (6, "cpu"), (8, XLA), (11, CPU)):
    found, _ = reported(tmp_path, device, steps=steps)
  testing.assert_same_values(expected, found, tolerance=1e-5)


def test_a_hook_reads_the_newest_values_and_assigns(tmp_path):
  """Through `estimator.variables`, and by a variable that it has kept."""
  kept = {}

  def model_fn(features, labels, mode, params):
    made = programs.line(features, labels, mode, params)
    kept.update({v.name: v for v in tf.compat.v1.global_variables()})
    return made

  class Hook:
    def __init__(self, where):
      self.reads_variables = where == "own"
      self.seen = []

    def __call__(self, step, metrics, estimator):
      b = kept["b:0"] if self.reads_variables else estimator.variables["b"]
      self.seen.append(float(b.numpy()))
      if step == 4:
        b.assign(100.0)

  runs = []
  for device, where in ((CPU, "estimator"), (XLA, "estimator"), (XLA, "own")):
    folder, hook = tmp_path / device[:3] / where, Hook(where)
    estimator = programs.estimator(folder, model_fn, device, **programs.fixed_loops(2))
    estimator.train(programs.train_input, hooks=[hook], max_steps=8)
    runs.append((testing.values(estimator), hook.seen))
  (expected, wanted), *others = runs
  assert wanted[2] > 50
  for values, seen in others:
    testing.assert_same_values(values, expected, tolerance=1e-4)
    np.testing.assert_allclose(seen, wanted, rtol=1e-5)


def test_devices_have_own_statistics_and_checkpoints_the_mean(tmp_path):
  def model_fn(features, labels, mode, params):
    x = keras.layers.BatchNormalization(momentum=0.5)(
      features["x"], training=mode == trainer.ModeKeys.TRAIN
    )
    return programs.line({"x": x}, labels, mode, params)

  runs = {}
  for device in (XLA, CPU):
    estimator = programs.estimator(tmp_path / device[:3], model_fn, device, batch_size=32)
    runs[device] = testing.values(
      estimator.train(programs.train_input, max_steps=3).train(programs.train_input, max_steps=6)
    )
    if device == XLA:
      on_devices = estimator._parts.program.store.on_xla.on_devices
      name = "batch_normalization/moving_mean"
  testing.assert_same_values(runs[XLA], runs[CPU], tolerance=1e-5)
  # The last save has given the mean to all; the next program begins with it.
  assert name in runs[XLA]
  assert on_devices.read_each([name])[name].shape == (2, programs.WIDTH)


def test_a_rollback_goes_on_with_the_examples_that_follow(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    step = tf.compat.v1.train.get_global_step()
    bad = tf.equal(step, 5) & tf.reduce_any(tf.abs(features["x"][:, 0] - marked) < 1e-6)
    spec.loss = tf.where(bad, math.inf, spec.loss)
    return spec

  x, y = programs.arrays(400)
  marked = float(x[8 * 5, 0])  # the first example of step 6

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(
      params["batch_size"], drop_remainder=True
    )

  estimator = programs.estimator(
    tmp_path,
    model_fn,
    XLA,
    on_non_finite="rollback",
    save_checkpoints_steps=4,
    tpu_config=trainer.TPUConfig(iterations_per_loop=4),
  ).train(input_fn, max_steps=12)
  values = testing.values(estimator)
  assert values["global_step"] == 12
  assert np.isfinite(values["w"]).all()


def test_a_variable_that_differs_between_devices_is_told(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    first = tf.compat.v1.get_variable(
      "first", [], aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA, trainable=False
    )
    with tf.control_dependencies([first.assign(features["x"][0, 0])]):
      spec.train_op = tf.identity(spec.loss)
    return spec

  with pytest.raises(errors.ModelFnError, match="The variable first has other values on other"):
    programs.estimator(tmp_path, model_fn, XLA).train(programs.train_input, max_steps=2)


def test_strings_are_refused_before_anything_is_compiled(tmp_path):
  def input_fn(params):
    return programs.train_input(params).map(lambda x, y: ({**x, "name": tf.as_string(y)}, y))

  with pytest.raises(errors.InputError, match="name.* has dtype string, and an XLA device"):
    programs.estimator(tmp_path, device=XLA).train(input_fn, max_steps=1)
  assert not list(tmp_path.glob("model.ckpt*"))


def test_operation_without_an_xla_kernel_is_named_with_line(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    spec.loss += tf.ensure_shape(tf.py_function(lambda x: x * 0, [spec.loss], tf.float32), [])
    return spec

  with pytest.raises(errors.OctetError, match=r"PyFunc does not compile .*test_xla_steps"):
    programs.estimator(tmp_path, model_fn, XLA).train(programs.train_input, max_steps=1)


def test_a_program_that_fails_loses_no_checkpoint(tmp_path, monkeypatch):
  import jax

  estimator = programs.estimator(tmp_path, device=XLA, save_checkpoints_steps=2)
  estimator.train(programs.train_input, max_steps=2)
  before = testing.values(estimator)

  def fail(*args):
    raise jax.errors.JaxRuntimeError("INTERNAL: the core melted")

  with monkeypatch.context() as patched:
    patched.setattr(jaxlib_internals, "execute", fail)
    with pytest.raises(device_values.ExecutionError, match="the core melted"):
      estimator.train(programs.train_input, max_steps=4)
  estimator.train(programs.train_input, max_steps=4)
  whole = programs.estimator(tmp_path / "whole", device=XLA, save_checkpoints_steps=2)
  whole.train(programs.train_input, max_steps=2)
  testing.assert_same_values(before, testing.values(whole))
  whole.train(programs.train_input, max_steps=4)
  testing.assert_same_values(testing.values(estimator), testing.values(whole))


def keras_dropout(ones):
  return keras.layers.Dropout(0.25)(ones, training=True)


def stateful_dropout(ones):
  return tf.nn.dropout(ones, 0.25)


def generator(ones):
  drawn = tf.random.Generator.from_seed(3).uniform(ones.shape)
  return tf.where(drawn < 0.25, 0.0, ones)


MASKS = (keras_dropout, stateful_dropout, generator)


def masks_of(folder, steps, **config):
  """Of each of MASKS, shape [steps * 8, size]: the mask of each step and device."""
  notes = []

  def note(*masks):
    tf.py_function(lambda *values: notes.append([each.numpy() for each in values]), masks, [])

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    spec.host_call = note, [mask(tf.ones([1, 2000])) for mask in MASKS]
    return spec

  programs.estimator(folder, model_fn, EIGHT, **config).train(programs.train_input, max_steps=steps)
  return [np.concatenate(each) for each in zip(*notes, strict=True)]


def test_random_numbers_follow_from_the_seed_and_the_step(tmp_path):
  """Also after a restart, and in programs of other lengths; each step and device has its own.

  The masks of a dropout have the right share.
  """
  whole = masks_of(tmp_path / "whole", 5)
  # The steps before the restart use another seed. The rest must not continue with it.
  other = masks_of(tmp_path / "parts", 3, tf_random_seed=2, **programs.fixed_loops(2))
  rest = masks_of(tmp_path / "parts", 5, **programs.fixed_loops(2))
  for mask, *found in zip(MASKS, whole, rest, other, strict=True):
    of_whole, of_rest, of_other = found
    assert of_whole.shape == (40, 2000)
    assert np.mean(of_whole == 0) == pytest.approx(0.25, abs=0.02), mask
    assert len({each.tobytes() for each in of_whole}) == 40, mask
    np.testing.assert_array_equal(of_whole[3 * 8 :], of_rest, err_msg=mask.__name__)
    if mask is not generator:  # which has a seed of its own
      assert not {each.tobytes() for each in of_whole} & {each.tobytes() for each in of_other}


def test_an_input_that_ends_inside_a_stack(tmp_path):
  """Every whole step is done, none twice: the batches add up."""

  def model_fn(features, labels, mode, params):
    total = tf.Variable(0.0, name="total", aggregation=tf.VariableAggregation.MEAN)
    w = tf.Variable(0.0, name="w")
    loss = w * 0.0 + tf.reduce_sum(features["x"])
    with tf.control_dependencies([total.assign_add(tf.reduce_sum(features["x"]))]):
      train_op = trainer.minimize(keras.optimizers.SGD(), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  tpu = trainer.TPUConfig(steps_per_program=PER_PROGRAM)
  estimator = programs.estimator(tmp_path, model_fn, XLA, tpu_config=tpu)
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


def test_the_first_step_that_is_not_finite(tmp_path):
  """On whichever core; and the next loop begins anew."""

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    step = tf.compat.v1.train.get_global_step()
    replica = tf.distribute.get_replica_context()
    is_last = tf.equal(replica.replica_id_in_sync_group, replica.num_replicas_in_sync - 1)
    spec.loss = tf.where((step >= 5) & (step < 8) & is_last, math.nan, spec.loss)
    return spec

  tpu = trainer.TPUConfig(steps_per_program=PER_PROGRAM)
  estimator = programs.estimator(tmp_path, model_fn, XLA, tpu_config=tpu)
  source, found = estimator.trace("train", programs.train_input), []
  for steps in (5, 2, 2, 2):
    result = source.traced.run(source.iterator, steps)
    found.append((int(result["non_finite_step"]), math.isfinite(float(result["loss"]))))
  assert found == [(-1, True), (6, False), (8, False), (-1, True)]


def test_a_stack_that_is_too_large_names_the_setting(tmp_path):
  tpu = trainer.TPUConfig(steps_per_program=10, stacked_input_bytes=500)
  with pytest.raises(
    errors.SettingError, match=r"(?s)steps_per_program is 10.*stacked_input_bytes.*7 steps"
  ):
    programs.estimator(tmp_path, device=XLA, tpu_config=tpu).train(programs.train_input, steps=1)
  assert not (tmp_path / "model.ckpt-0.index").exists()


def test_other_devices_leave_it_to_the_host(tmp_path):
  tpu = trainer.TPUConfig(steps_per_program=PER_PROGRAM)
  estimator = programs.estimator(tmp_path, device="cpu:2", tpu_config=tpu)
  for kind, input_fn in (("train", programs.train_input), ("eval", programs.examples(9))):
    assert not isinstance(estimator.trace(kind, input_fn).iterator, stacks.StackReader)


def test_a_gradient_goes_through_a_branch(tmp_path):
  """Outside of XLA TensorFlow keeps what such a gradient needs as optionals, which XLA has not."""

  def model_fn(features, labels, mode, params):
    w = tf.Variable(tf.zeros([programs.WIDTH]), name="w")
    step = tf.compat.v1.train.get_global_step()
    value = tf.cond(
      step >= 1,
      lambda: tf.linalg.matvec(tf.square(features["x"]) * w, w),
      lambda: tf.linalg.matvec(features["x"], w),
    )
    loss = tf.reduce_mean(tf.square(value - labels))
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.1), loss)
    )

  trained = [
    programs.estimator(tmp_path / device, model_fn, device).train(programs.train_input, steps=3)
    for device in (XLA, CPU)
  ]
  one, other = [each.variables["w"].numpy() for each in trained]
  np.testing.assert_allclose(one, other, rtol=1e-6)
  assert one.any()
