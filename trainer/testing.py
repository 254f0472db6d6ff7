"""Tests of models, input pipelines and gin files of your own, for pytest and unittest alike.

    from trainer import testing

    def test_my_model():
      testing.assert_learns(mine.model_fn, input_fn, below=0.5)
      testing.assert_resumes_exactly(mine.model_fn, input_fn)
      testing.assert_same_on_eight_cores(mine.model_fn, input_fn)
      testing.assert_export_matches(mine.model_fn, input_fn)

    def test_my_experiment():
      testing.run_gin("gin_configs/mine.gin", steps=2)

Everything is run in temporary folders. Where a model does not do what it should, an AssertionError
names the variables and the differences; where it does not run at all, the error is that of the run,
an errors.OctetError.

Arguments that several of them have:

    model_fn: with its knobs bound, as by functools.partial.
    input_fn: one to train with: whole batches of (features, labels), without end.
    batch_size: global, of all cores together.
    params: dict for both.
    device: see `trainer.devices.device`.

Eight virtual cores must be made before TensorFlow starts to compute. In a session of several tests,
put this into conftest.py or setUpModule:

    from trainer.devices import device
    device.connect("cpu:8")
"""

import os
import tempfile

import keras
import numpy as np
import tensorflow as tf

from trainer import config, errors, estimator, experiment, run_config
from trainer.inputs import call
from trainer.kinds import Kind
from trainer.outputs import options, saved_model

_SHOWN = 8  # variables in a message


def run_gin(
  file,
  steps=2,
  device="cpu",
  bindings=(),
  model_dir=None,
  mode="train_and_evaluate",
  strict_gin=True,
):
  """Runs an experiment for a few steps: training, an evaluation of one batch, an export.

  Args:
    file: path of a gin file.
    steps: train steps.
    device: where.
    bindings: list of strings of gin that come after the file, such as "run.train_batch_size = 16".
    model_dir: folder for what the run writes; None for one that is removed.
    mode: see `trainer.experiment.MODES`.
    strict_gin: whether bindings that nobody uses are an error. Where `bindings` put other data in
      the place of the file's own, those of its own are.

  Returns:
    The metrics of the evaluation (dict), None in a mode without one.

  Raises:
    errors.OctetError: the experiment does not run.
  """
  config.load([os.fspath(file)], [f"run.train_steps = {steps}", "run.eval_steps = 1", *bindings])
  try:
    with tempfile.TemporaryDirectory() as folder:
      return experiment.run(
        model_dir=os.fspath(model_dir or folder), mode=mode, device=device, strict_gin=strict_gin
      )
  finally:
    config.clear()


def random_batch(spec, batch_size=None, below=2, seed=0):
  """Arrays that a spec describes, the same for the same seed.

      spec = {"image": tf.TensorSpec([8, 32, 32, 3])}, tf.TensorSpec([8], tf.int32)
      features, labels = testing.random_batch(spec, below=10)
      testing.random_batch(my_dataset.element_spec, batch_size=64)

  Args:
    spec: nest of tf.TensorSpec, the first axis of each the batch.
    batch_size: that axis; None for what the specs say.
    below: integers are in [0, below): classes of labels, words of a vocabulary.
    seed: int.

  Returns:
    The same nest of numpy arrays; floats are uniform in [0, 1).

  Raises:
    SettingError: an axis is not known, or a dtype is no number.
  """
  random = np.random.default_rng(seed)

  def draw(leaf):
    shape = leaf.shape.as_list() if leaf.shape.rank is not None else []
    if batch_size is not None:
      shape = [batch_size, *shape[1:]]
    if not shape or None in shape:
      raise errors.SettingError(
        f"random_batch: {leaf} has an axis whose size is not known: give "
        "batch_size, and specs with all other axes."
      )
    if leaf.dtype.is_floating:
      return random.random(shape).astype(leaf.dtype.as_numpy_dtype)
    if leaf.dtype.is_integer or leaf.dtype.is_bool:
      return random.integers(0, below if leaf.dtype.is_integer else 2, shape).astype(
        leaf.dtype.as_numpy_dtype
      )
    raise errors.SettingError(
      f"random_batch: {leaf} is of {leaf.dtype.name}; expected a float, integer or bool."
    )

  return tf.nest.map_structure(draw, spec)


def assert_learns(
  model_fn, input_fn, *, steps=100, below=None, fixed=(), batch_size=16, params=None, device="cpu"
):
  """The loss stays finite and falls, and every trainable variable moves.

  Args:
    steps: of training, at least 10.
    below: float; what the mean loss of the last tenth of the steps has to be less than. None: that
      of the first tenth.
    fixed: names of trainable variables that may stay as they are.

  Raises:
    AssertionError: it does not learn.
  """
  losses, initial = [], {}

  class Watch:
    def begin(self, runner):
      initial.update(values(runner))

    def __call__(self, step, metrics, runner):
      losses.append(metrics["loss"])

  with tempfile.TemporaryDirectory() as folder:
    tenth = run_config.TPUConfig(iterations_per_loop=max(1, steps // 10))
    runner = _estimator(model_fn, folder, batch_size, params, device, tpu_config=tenth)
    try:
      runner.train(input_fn, max_steps=steps, hooks=[Watch()])
    except errors.NonFiniteError as error:
      raise AssertionError(f"The loss does not stay finite: {error}") from error
    final = values(runner)
  shown = ", ".join(f"{loss:.4g}" for loss in losses)
  limit = losses[0] if below is None else below
  if not losses[-1] < limit:
    raise AssertionError(
      f"The loss does not fall below {limit:.4g} in {steps} steps; its means were {shown}."
    )
  trained = [
    variable.value if isinstance(variable, keras.Variable) else variable
    for variable in runner._parts.program.store.trainable_variables()
  ]
  still = [
    name
    for name, variable in runner.variables.items()
    if name not in fixed
    and any(variable is other for other in trained)
    and np.array_equal(initial[name], final[name])
  ]
  if still:
    more = f" and {len(still) - _SHOWN} more" if len(still) > _SHOWN else ""
    raise AssertionError(
      f"{', '.join(still[:_SHOWN])}{more} did not move in {steps} steps: the loss does not "
      "depend on them, or their gradients are zero. Those that "
      "are meant to stay are named by fixed=."
    )


def assert_resumes_exactly(
  model_fn, input_fn, *, steps=6, batch_size=16, params=None, device="cpu"
):
  """A training that stops half-way and goes on from its checkpoint comes to the same bits as one
  that does not stop.

  Raises:
    AssertionError: names the variables. Usual causes: numbers that the model_fn keeps in Python,
      random numbers that do not come from Keras (tf.nn.dropout, tf.random, numpy), an input_fn that
      gives other batches when it is called again.
  """
  half = steps // 2
  with tempfile.TemporaryDirectory() as folder:

    def train(name, until):
      # Both save at the same steps: saving gives all cores the mean of what each keeps for itself,
      # such as batch norm's averages.
      runner = _estimator(
        model_fn,
        os.path.join(folder, name),
        batch_size,
        params,
        device,
        save_checkpoints_steps=half,
      )
      return values(runner.train(input_fn, max_steps=until))

    whole = train("whole", steps)
    train("halves", half)
    resumed = train("halves", steps)
  assert_same_values(
    whole,
    resumed,
    names=(f"{steps} steps in one go", f"{half} steps, and the others after a restart"),
  )


def assert_same_on_eight_cores(
  model_fn, input_fn, *, steps=3, tolerance=1e-5, batch_size=16, params=None
):
  """Eight virtual cores with an eighth of the batch each come to the values that one core with all
  of it comes to.

  What looks at other examples of the batch (batch norm in training) or draws random numbers
  (dropout) is different on eight cores by nature: bind such knobs to nothing, as in
  `functools.partial(model_fn, dropout=0.0)`.

  Args:
    tolerance: the largest difference of any value.

  Raises:
    AssertionError: names the variables. Usual causes: gradients that are applied without being
      combined, a loss that is a sum over the batch.
    SettingError: the batch cannot be cut into eight, or TensorFlow has already started with fewer
      cores.
  """
  with tempfile.TemporaryDirectory() as folder:
    eight, one = [  # the eight first: they must be made before TensorFlow starts
      values(
        _estimator(model_fn, os.path.join(folder, device[-1]), batch_size, params, device).train(
          input_fn, max_steps=steps
        )
      )
      for device in ("cpu:8", "cpu")
    ]
  assert_same_values(one, eight, tolerance, names=("one core", "eight cores"))


def assert_export_matches(
  model_fn, input_fn, *, tolerance=1e-5, batch_size=16, params=None, device="cpu"
):
  """A SavedModel serves what the Estimator predicts: for the first batch of input_fn, and for its
  last example alone.

  Args:
    tolerance: the largest difference of any value.

  Raises:
    AssertionError: names the predictions. Usual causes: layers in training mode, statistics of the
      batch, or random numbers in predictions.
  """
  with tempfile.TemporaryDirectory() as folder:
    # It is, below.
    runner = _estimator(
      model_fn,
      folder,
      batch_size,
      params,
      device,
      export_options=options.ExportOptions(verify=False),
    )
    runner.train(input_fn, max_steps=1)
    features = next(
      iter(
        call.call(
          input_fn, dict(params or {}), batch_size, runner.config.tf_random_seed, Kind.TRAIN
        )
      )
    )[0]
    predictions = next(
      runner.predict(
        lambda params: tf.data.Dataset.from_tensor_slices(features).batch(params["batch_size"]),
        yield_single_examples=False,
      )
    )
    path = runner.export_saved_model(os.path.join(folder, "export"))
    assert_serves(path, features, predictions, tolerance)
    # The last example, and not the first: what is drawn at random for a batch begins with what is
    # drawn for its first example.
    last = tf.nest.map_structure(lambda array: array[-1:], (features, predictions))
    assert_serves(path, *last, tolerance)


def assert_serves(path, features, predictions, tolerance=1e-5):
  """A SavedModel gives these predictions for these features, by its signature "serving_default".

  Args:
    path: of the SavedModel.
    features: nest of arrays, as the model_fn takes them.
    predictions: dict of arrays, or an array. What the SavedModel does not serve is not looked at.
    tolerance: the largest difference of any value.

  Raises:
    AssertionError: names the predictions that differ.
  """
  serve = tf.saved_model.load(path).signatures["serving_default"]
  features = tf.nest.map_structure(tf.convert_to_tensor, features)
  spec = saved_model.free_batch(
    tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), features)
  )
  arguments = {
    leaf.name: tensor
    for leaf, tensor in zip(tf.nest.flatten(spec), tf.nest.flatten(features), strict=True)
  }
  served = {name: tensor.numpy() for name, tensor in serve(**arguments).items()}
  predicted = predictions if isinstance(predictions, dict) else dict.fromkeys(served, predictions)
  common = [name for name in predicted if name in served]
  if not common:
    raise AssertionError(
      f"The SavedModel serves {sorted(served)}, the model predicts "
      f"{sorted(predicted)}: they have nothing in common."
    )
  count = len(tf.nest.flatten(features)[0])
  assert_same_values(
    {name: predicted[name] for name in common},
    {name: served[name] for name in common},
    tolerance,
    names=(f"predicted for {count} example{'s' * (count > 1)}", "served"),
  )


def values(runner):
  """dict of name → numpy array, all variables of an Estimator."""
  return {name: variable.numpy() for name, variable in runner.variables.items()}


def assert_same_values(first, second, tolerance=0.0, names=("the first", "the second")):
  """Two dicts of name → array have the same names, shapes and, within the tolerance, values; NaN is
  the same as NaN.

  Args:
    tolerance: the largest difference of any value; 0 for the same bits.
    names: what to call the two in a message.

  Raises:
    AssertionError: lists the names with the largest differences.
  """
  problems = [
    (np.inf, f"{name} is only in {names[name in second]}")
    for name in sorted(first.keys() ^ second.keys())
  ]
  for name in first.keys() & second.keys():
    one, other = np.asarray(first[name]), np.asarray(second[name])
    if one.shape != other.shape:
      problems.append((np.inf, f"{name} has shape {one.shape} and {other.shape}"))
    elif not (size := _difference(one, other)) <= tolerance:
      problems.append((size, f"{name} differs by up to {size:.3g}"))
  if problems:
    lines = [line for _, line in sorted(problems, key=lambda problem: (-problem[0], problem[1]))]
    allowed = f" by more than {tolerance:g}" if tolerance else ""
    count = len(first.keys() | second.keys())
    head = f"{len(lines)} of {count} differ{allowed} between {names[0]} and {names[1]}:"
    raise AssertionError(
      "\n  ".join(
        [
          head,
          *lines[:_SHOWN],
          *([f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []),
        ]
      )
    )


def _difference(first, second):
  """The largest absolute difference of two arrays of one shape; infinite where only one has a
  NaN, or where strings differ.
  """
  if first.dtype.kind in "OSU":
    return 0.0 if np.array_equal(first, second) else np.inf
  first, second = first.astype(np.float64), second.astype(np.float64)
  same = (first == second) | (np.isnan(first) & np.isnan(second))
  with np.errstate(invalid="ignore"):
    sizes = np.where(same, 0.0, np.abs(first - second))
  return float(np.max(np.where(np.isnan(sizes), np.inf, sizes), initial=0.0))


def _estimator(model_fn, model_dir, batch_size, params, device, export_options=None, **settings):
  return estimator.Estimator(
    model_fn,
    model_dir,
    run_config.RunConfig(device=device, **settings),
    params,
    train_batch_size=batch_size,
    eval_batch_size=batch_size,
    export_options=export_options,
  )
