"""Assertions for tests of your own models, input pipelines and gin files.

They work with pytest and unittest.

    from trainer import testing

    def test_my_model():
      testing.assert_learns(mine.model_fn, input_fn, below=0.5)
      testing.assert_resumes_exactly(mine.model_fn, input_fn)
      testing.assert_same_on_eight_cores(mine.model_fn, input_fn)
      testing.assert_export_matches(mine.model_fn, input_fn)

    def test_my_experiment():
      testing.run_gin("gin_configs/mine.gin", steps=2)

Everything runs in temporary folders. If an assertion does not hold, an AssertionError names the
variables and the differences. If the model does not run at all, the error is the run's own, an
errors.OctetError.

Arguments that several functions have:

    model_fn: of the model, with its arguments bound, for example by functools.partial.
    input_fn: for training: endless full batches of (features, labels).
    batch_size: global, of all cores together.
    params: for both functions.
    device: see `trainer.devices.device`.

TensorFlow makes eight virtual cores only before it computes anything. In a session with several
tests, put this into conftest.py or setUpModule:

    from trainer.devices import device
    device.connect("cpu:8")
"""

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainer import config, errors, experiment, run_config
from trainer.estimator import estimator
from trainer.inputs import call
from trainer.outputs import options, served_inputs
from trainer.settings.kinds import Kind

_SHOWN = 8  # The most variables in a message.


def run_gin(
  file: str | os.PathLike[str],
  steps: int = 2,
  device: str = "cpu",
  bindings: Sequence[str] = (),
  model_dir: str | os.PathLike[str] | None = None,
  mode: str = "train_and_evaluate",
  strict_gin: bool = True,
) -> Any:
  """Runs an experiment for a few steps: training, an evaluation of one batch, an export.

  Args:
    file: path of a gin file.
    steps: number of training steps.
    device: see the module.
    bindings: gin bindings that come after the file, such as "run.train_batch_size = 16".
    model_dir: folder of the run; None for a temporary one.
    mode: see `trainer.experiment.MODES`.
    strict_gin: whether unused bindings are an error. If `bindings` replace the data of the file,
      the file's bindings for its own data have no use.

  Returns:
    The metrics of the evaluation, a dict; None in a mode without one.

  Raises:
    OctetError: the experiment does not run.
  """
  few = [f"run.train_steps = {steps}", "run.eval_steps = 1"]
  config.load([os.fspath(file)], [*few, *bindings], modules=None)  # A test trusts its subject.
  try:
    with tempfile.TemporaryDirectory() as folder:
      return experiment.run(
        experiment.Flags(
          model_dir=os.fspath(model_dir or folder), mode=mode, device=device, strict_gin=strict_gin
        )
      )
  finally:
    config.clear()


def random_batch(spec: Any, batch_size: int | None = None, below: int = 2, seed: int = 0) -> Any:
  """Makes random arrays with the shapes and dtypes of a spec.

      spec = {"image": tf.TensorSpec([8, 32, 32, 3])}, tf.TensorSpec([8], tf.int32)
      features, labels = testing.random_batch(spec, below=10)
      testing.random_batch(my_dataset.element_spec, batch_size=64)

  Args:
    spec: nest of tf.TensorSpec with shapes [batch, ...].
    batch_size: size of the first axis; None to take it from the specs.
    below: integers are in [0, below).
    seed: equal seeds give equal arrays.

  Returns:
    The same nest of numpy arrays; floats are uniform in [0, 1).

  Raises:
    SettingError: the size of an axis is unknown, or a dtype is not a number.
  """
  random = np.random.default_rng(seed)

  def draw(leaf):
    shape = leaf.shape.as_list() if leaf.shape.rank is not None else []
    if batch_size is not None:
      shape = [batch_size, *shape[1:]]
    if not shape or None in shape:
      raise errors.SettingError(
        f"random_batch: {leaf} has an axis of unknown size: give batch_size, and specs with all "
        "other axes."
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
  model_fn: Callable[..., Any],
  input_fn: Callable[..., Any],
  *,
  steps: int = 100,
  below: float | None = None,
  fixed: Collection[str] = (),
  batch_size: int = 16,
  params: Mapping[str, Any] | None = None,
  device: str = "cpu",
) -> None:
  """Asserts that the loss stays finite and falls, and that every trainable variable changes.

  Args:
    model_fn: see the module.
    input_fn: see the module.
    steps: number of training steps, at least 10.
    below: the mean loss of the last tenth of the steps must be less than this; None for the mean of
      the first tenth.
    fixed: names of trainable variables that may stay unchanged.
    batch_size: see the module.
    params: see the module.
    device: see the module.

  Raises:
    AssertionError: the model does not learn.
  """
  losses: list[float] = []
  initial: dict[str, np.ndarray] = {}

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
      f"{', '.join(still[:_SHOWN])}{more} did not move in {steps} steps: the loss does not depend "
      "on them, or their gradients are zero. If you froze them on purpose, name them in fixed=."
    )


def assert_resumes_exactly(
  model_fn: Callable[..., Any],
  input_fn: Callable[..., Any],
  *,
  steps: int = 6,
  batch_size: int = 16,
  params: Mapping[str, Any] | None = None,
  device: str = "cpu",
) -> None:
  """Asserts that a training that resumes half-way ends with the same bits as an uninterrupted one.

  Args:
    model_fn: see the module.
    input_fn: see the module.
    steps: number of training steps.
    batch_size: see the module.
    params: see the module.
    device: see the module.

  Raises:
    AssertionError: names the variables that differ. Usual causes: numbers that the model_fn keeps
      in Python, random numbers from elsewhere than Keras (tf.nn.dropout, tf.random, numpy), an
      input_fn with other batches at its second call.
  """
  half = steps // 2
  with tempfile.TemporaryDirectory() as folder:

    def train(name, until):
      # Both trainings save at the same steps, because a save changes values on several cores: each
      # core's own values, such as batch norm's averages, become their mean.
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
    names=(f"{steps} steps in one go", f"{half} steps, and the remaining steps after a restart"),
  )


def assert_same_on_eight_cores(
  model_fn: Callable[..., Any],
  input_fn: Callable[..., Any],
  *,
  steps: int = 3,
  tolerance: float = 1e-5,
  batch_size: int = 16,
  params: Mapping[str, Any] | None = None,
) -> None:
  """Asserts that eight virtual cores, with an eighth of the batch each, train as one core does.

  Layers that depend on other examples of the batch (batch norm in training) or on random numbers
  (dropout) always differ on eight cores. Switch them off, as in `functools.partial(model_fn,
  dropout=0.0)`.

  Args:
    model_fn: see the module.
    input_fn: see the module.
    steps: number of training steps.
    tolerance: the largest allowed difference of any value.
    batch_size: see the module.
    params: see the module.

  Raises:
    AssertionError: names the variables that differ. Usual causes: gradients without an all-reduce,
      a loss that is a sum over the batch.
    SettingError: the batch is not divisible by eight, or TensorFlow has already started with fewer
      cores.
  """
  with tempfile.TemporaryDirectory() as folder:
    eight, one = [  # Eight cores first: TensorFlow must not have started.
      values(
        _estimator(model_fn, os.path.join(folder, device[-1]), batch_size, params, device).train(
          input_fn, max_steps=steps
        )
      )
      for device in ("cpu:8", "cpu")
    ]
  assert_same_values(one, eight, tolerance, names=("one core", "eight cores"))


def assert_export_matches(
  model_fn: Callable[..., Any],
  input_fn: Callable[..., Any],
  *,
  tolerance: float = 1e-5,
  batch_size: int = 16,
  params: Mapping[str, Any] | None = None,
  device: str = "cpu",
) -> None:
  """Asserts that an exported SavedModel gives the predictions of the Estimator.

  It predicts the first batch of input_fn, and then its last example alone.

  Args:
    model_fn: see the module.
    input_fn: see the module.
    tolerance: the largest allowed difference of any value.
    batch_size: see the module.
    params: see the module.
    device: see the module.

  Raises:
    AssertionError: names the predictions that differ. Usual causes: layers in training mode,
      statistics of the batch, or random numbers in predictions.
  """
  with tempfile.TemporaryDirectory() as folder:
    # The export's own verification is off: the lines below verify the same.
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
    # The last example, not the first: random numbers for a batch begin with those for its first
    # example, so randomness would not show.
    last = tf.nest.map_structure(lambda array: array[-1:], (features, predictions))
    assert_serves(path, last[0], last[1], tolerance)


def assert_serves(path: str, features: Any, predictions: Any, tolerance: float = 1e-5) -> None:
  """Asserts that a SavedModel's signature "serving_default" gives certain predictions.

  Args:
    path: of the SavedModel.
    features: nest of arrays, as the model_fn takes them.
    predictions: dict of arrays, or an array. The check ignores predictions that the SavedModel does
      not give.
    tolerance: the largest allowed difference of any value.

  Raises:
    AssertionError: names the predictions that differ.
  """
  serve = tf.saved_model.load(path).signatures["serving_default"]
  features = tf.nest.map_structure(tf.convert_to_tensor, features)
  spec = served_inputs.free_batch(
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


def values(runner: estimator.Estimator) -> dict[str, np.ndarray]:
  """Returns name → value of all variables of an Estimator."""
  return {name: variable.numpy() for name, variable in runner.variables.items()}


def assert_same_values(
  first: Mapping[str, Any],
  second: Mapping[str, Any],
  tolerance: float = 0.0,
  names: Sequence[str] = ("the first", "the second"),
) -> None:
  """Asserts that two dicts of arrays have the same names, shapes and values; NaN equals NaN.

  Args:
    first: name → array.
    second: name → array.
    tolerance: the largest allowed difference of any value; 0 for the same bits.
    names: for the two, in the message.

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
  """Returns the largest absolute difference of two arrays of one shape.

  The difference is infinite if only one of them has a NaN at some place, or if strings differ.
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
