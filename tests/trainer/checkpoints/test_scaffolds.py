"""A scaffold_fn is called once when a training begins, and for evaluation and prediction; what
it asks for is done or refused.
"""

import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.checkpoints import reader

v1 = tf.compat.v1
Scaffold, Saver = v1.train.Scaffold, v1.train.Saver
ModeKeys = trainer.ModeKeys

START = {"w": np.float32([5, 1, 2]), "b": np.float32(-2)}
DECAY = 0.5


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
  return programs.v1_checkpoint(tmp_path_factory.mktemp("pretrained"), START)


def with_scaffold(
  make, modes=(ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT), calls=None, averaging=True
):
  """A line with moving averages; in these modes it has a scaffold_fn that returns make(average)."""

  def model_fn(features, labels, mode, params):
    w = v1.get_variable("w", [3], initializer=v1.ones_initializer())
    b = v1.get_variable("b", [], initializer=v1.ones_initializer())
    average = v1.train.ExponentialMovingAverage(DECAY)

    def scaffold_fn():
      if calls is not None:
        calls.append(mode)
      return make(average)

    scaffold_fn = scaffold_fn if mode in modes else None
    y = tf.linalg.matvec(features["x"], w) + b
    if mode == ModeKeys.PREDICT:
      return trainer.EstimatorSpec(mode, predictions={"y": y}, scaffold_fn=scaffold_fn)
    loss = tf.reduce_mean(tf.square(y - labels))
    train_op = None
    if mode == ModeKeys.TRAIN:
      train_op = v1.train.GradientDescentOptimizer(0.05).minimize(loss, v1.train.get_global_step())
      if averaging:
        with tf.control_dependencies([train_op]):
          train_op = average.apply([w, b])
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold_fn=scaffold_fn)

  return model_fn


def values(estimator, step):
  path = estimator.checkpoint_path(step)
  return reader.read(path, ["w", "b", "w/ExponentialMovingAverage", "b/ExponentialMovingAverage"])


def restores_averages(average):
  return Scaffold(saver=Saver(average.variables_to_restore()))


# ------------------------------------------------------------ initial values


def test_a_training_begins_where_its_scaffold_fn_says(pretrained, device, tmp_path):
  calls = []

  def make(average):
    v1.train.init_from_checkpoint(pretrained, {v.op.name: v for v in v1.trainable_variables()})
    return Scaffold()

  model_fn = with_scaffold(make, calls=calls)
  estimator = programs.estimator(tmp_path, model_fn, device)
  estimator.train(programs.train_input, max_steps=2)
  assert calls == [ModeKeys.TRAIN]
  first, last = values(estimator, 0), values(estimator, 2)
  for name, value in START.items():
    np.testing.assert_array_equal(first[name], value)
    np.testing.assert_array_equal(first[f"{name}/ExponentialMovingAverage"], value)
    assert not np.array_equal(last[name], value)
  for _ in range(2):
    estimator.evaluate(programs.examples(8))
    list(estimator.predict(programs.examples(8)))
  assert calls == ["train", "eval", "infer"]
  assert values(estimator, 2)["w"].tolist() == last["w"].tolist()
  programs.estimator(tmp_path, model_fn, device).train(programs.train_input, max_steps=3)
  assert calls == ["train", "eval", "infer"]  # a training that goes on does not begin


def test_a_warm_start_goes_over_it(pretrained, tmp_path):
  """As with TPUEstimator, whose warm start comes after the model_fn."""
  other = programs.v1_checkpoint(tmp_path, {"w": [9, 9, 9], "b": 9})

  def make(average):
    v1.train.init_from_checkpoint(pretrained, {"w": "w", "b": "b"})
    return Scaffold()

  settings = trainer.WarmStartSettings(other, vars_to_warm_start="w$")
  config = trainer.RunConfig(device="cpu")
  estimator = trainer.Estimator(
    with_scaffold(make),
    str(tmp_path / "model"),
    config,
    train_batch_size=8,
    warm_start_from=settings,
  )
  estimator.train(programs.train_input, max_steps=1)
  first = values(estimator, 0)
  assert (first["w"].tolist(), first["b"]) == ([9, 9, 9], -2)
  assert (first["w/ExponentialMovingAverage"].tolist(), first["b/ExponentialMovingAverage"]) == (
    [9, 9, 9],
    -2,
  )


# --------------------------------------------------------------------- names


def loss_of(found, suffix=""):
  x, y = programs.arrays(11)
  return np.mean((x @ found[f"w{suffix}"] + found[f"b{suffix}"] - y) ** 2)


@pytest.mark.long_on_several_cores
def test_averages_are_evaluated_predicted_with_and_exported(device, tmp_path):
  losses, model_fn = [], with_scaffold(restores_averages, modes=("eval", "infer"))

  def evaluate_in_between(step, metrics, runner):
    runner.save_checkpoint()
    losses.append(runner.evaluate(programs.examples(11))["loss"])

  estimator = programs.estimator(tmp_path, model_fn, device, **programs.fixed_loops(2))
  estimator.train(programs.train_input, max_steps=4, hooks=[evaluate_in_between])
  found = values(estimator, 4)
  assert abs(loss_of(found) - loss_of(found, "/ExponentialMovingAverage")) > 0.1
  expected = [loss_of(values(estimator, step), "/ExponentialMovingAverage") for step in (2, 4)]
  assert losses == pytest.approx(expected, rel=1e-5)  # of the averages as they are in the training
  fresh = programs.estimator(tmp_path, model_fn)  # and as they are in a checkpoint
  x, _ = programs.arrays(11)
  y = x @ found["w/ExponentialMovingAverage"] + found["b/ExponentialMovingAverage"]
  for each in (estimator, fresh):
    assert each.evaluate(programs.examples(11))["loss"] == pytest.approx(expected[1], rel=1e-5)
    np.testing.assert_allclose([p["y"] for p in each.predict(programs.examples(11))], y, atol=1e-5)
  serve = tf.saved_model.load(fresh.export_saved_model(tmp_path / "export")).signatures[
    "serving_default"
  ]
  np.testing.assert_allclose(serve(x=tf.constant(x))["y"], y, atol=1e-5)


def test_a_mode_without_a_saver_has_the_values_of_the_training(tmp_path):
  estimator = programs.estimator(tmp_path, with_scaffold(restores_averages, modes=("infer",)))
  estimator.train(programs.train_input, max_steps=3)
  found = values(estimator, 3)
  x, _ = programs.arrays(11)
  for _ in range(2):  # one after the other, with the same variables
    assert estimator.evaluate(programs.examples(11))["loss"] == pytest.approx(
      loss_of(found), rel=1e-5
    )
    y = [prediction["y"] for prediction in estimator.predict(programs.examples(11))]
    averaged = x @ found["w/ExponentialMovingAverage"] + found["b/ExponentialMovingAverage"]
    np.testing.assert_allclose(y, averaged, atol=1e-5)


def test_evaluation_of_averages_leaves_training_values(tmp_path):
  model_fn = with_scaffold(restores_averages, modes=("eval",))
  evaluated = programs.estimator(tmp_path / "evaluated", model_fn).train(
    programs.train_input, max_steps=2
  )
  evaluated.evaluate(programs.examples(11))
  evaluated.train(programs.train_input, max_steps=4)
  plain = programs.estimator(tmp_path / "plain", model_fn).train(programs.train_input, max_steps=4)
  for name, value in values(plain, 4).items():
    np.testing.assert_array_equal(values(evaluated, 4)[name], value, name)


def test_a_name_that_is_not_in_the_checkpoint_is_said(tmp_path):
  def make(average):
    return Scaffold(saver=Saver({"w/renamed": v1.trainable_variables()[0]}))

  model_fn = with_scaffold(make, modes=("eval",))
  estimator = programs.estimator(tmp_path, model_fn).train(programs.train_input, max_steps=1)
  with pytest.raises(errors.CheckpointError, match=r"model.ckpt-1 has no w/renamed"):
    estimator.evaluate(programs.examples(8))
  estimator = programs.estimator(tmp_path, model_fn)
  with pytest.raises(
    errors.CheckpointError,
    match=r"w: no w/renamed in the checkpoint; \(3,\) in "
    r"the model",
  ):
    estimator.evaluate(programs.examples(8))


@pytest.mark.parametrize(
  "make",
  [
    lambda average: Scaffold(),
    lambda average: Scaffold(saver=Saver()),
    lambda average: Scaffold(saver=Saver(v1.trainable_variables(), sharded=True)),
    lambda average: Scaffold(
      saver=Saver({v.op.name: v for v in v1.global_variables()}, max_to_keep=3)
    ),
  ],
  ids=["no saver", "of all", "of some", "by their own names"],
)
def test_a_saver_of_own_names_changes_nothing(make, tmp_path):
  """Nor does it write a file of its own in each step."""
  estimator = programs.estimator(tmp_path, with_scaffold(make), keep_checkpoint_max=3)
  estimator.train(programs.train_input, max_steps=1)
  assert estimator.evaluate(programs.examples(11))["loss"] == pytest.approx(
    loss_of(values(estimator, 1)), rel=1e-5
  )


def test_a_scaffold_that_is_made_in_the_model_fn(tmp_path, monkeypatch):
  """As a plain Estimator has it. In a graph a Saver makes operations that read and write files."""
  monkeypatch.chdir(tmp_path)

  def model_fn(features, labels, mode, params):
    spec = with_scaffold(restores_averages)(features, labels, mode, params)
    average = v1.train.ExponentialMovingAverage(DECAY)
    names = None if mode == ModeKeys.TRAIN else average.variables_to_restore()
    scaffold = Scaffold(saver=Saver(names))
    spec.scaffold_fn = lambda: scaffold
    return spec

  estimator = programs.estimator(tmp_path / "model", model_fn)
  estimator.train(programs.train_input, max_steps=3)
  expected = loss_of(values(estimator, 3), "/ExponentialMovingAverage")
  assert estimator.evaluate(programs.examples(11))["loss"] == pytest.approx(expected, rel=1e-5)
  assert [path.name for path in tmp_path.iterdir()] == ["model"]


# --------------------------------------------------------------- what is refused


class _Finalizing(Scaffold):
  def finalize(self):
    return super().finalize()


def _makes_a_variable(average):
  v1.get_variable("late", [])
  return Scaffold()


def _fails(average):
  raise KeyError("no such thing")


@pytest.mark.parametrize(
  ("make", "error", "message"),
  [
    (
      lambda a: Scaffold(init_op=tf.no_op(), summary_op=tf.no_op()),
      errors.SettingError,
      "with init_op, summary_op, and Octet has no session",
    ),
    (
      lambda a: Scaffold(init_fn=lambda scaffold, session: None),
      errors.SettingError,
      "with init_fn, and Octet has no",
    ),
    (
      lambda a: Scaffold(local_init_op=tf.no_op(), ready_op=tf.no_op()),
      errors.SettingError,
      "with ready_op, local_init_op, and Octet has no",
    ),
    (lambda a: _Finalizing(), errors.SettingError, "with finalize, and Octet has no"),
    (
      restores_averages,
      errors.SettingError,
      "returns a Saver that saves w as w/ExponentialMovingAverage",
    ),
    (
      lambda a: Scaffold(saver=Saver(max_to_keep=20)),
      errors.SettingError,
      r"max_to_keep=20 .*keep_checkpoint_max=20",
    ),
    (
      lambda a: Scaffold(saver=Saver(keep_checkpoint_every_n_hours=2)),
      errors.SettingError,
      r"keep_checkpoint_every_n_hours=2, .*retention=Retention\(every_n_hours=2\)",
    ),
    (
      lambda a: Scaffold(saver=Saver({"x": tf.Variable(1.0)})),
      errors.ModelFnError,
      "makes the variable",
    ),
    (
      lambda a: None,
      errors.SpecError,
      "must return a tf.compat.v1.train.Scaffold; it returned None",
    ),
    (
      _makes_a_variable,
      errors.ModelFnError,
      "A scaffold_fn makes the variable late: make it in the model_fn",
    ),
    (
      _fails,
      errors.ModelFnError,
      r"model_fn, mode 'train', failed \(.*test_scaffolds.py:\d+\): "
      r"KeyError: 'no such thing'",
    ),
  ],
)
def test_what_cannot_be_honoured_is_named_before_a_training(make, error, message, tmp_path):
  estimator = programs.estimator(tmp_path / "model", with_scaffold(make))
  with pytest.raises(error, match=message):
    estimator.train(programs.train_input, max_steps=1)
  assert not (tmp_path / "model").exists()


def test_init_fn_is_ignored_in_an_evaluation(tmp_path):
  model_fn = with_scaffold(
    lambda average: Scaffold(init_fn=lambda scaffold, session: None), modes=("eval",)
  )
  estimator = programs.estimator(tmp_path, model_fn).train(programs.train_input, max_steps=1)
  assert estimator.evaluate(programs.examples(8))["global_step"] == 1


def test_local_init_op_is_refused_in_a_prediction(tmp_path):
  programs.estimator(tmp_path).train(programs.train_input, max_steps=1)
  model_fn = with_scaffold(lambda average: Scaffold(local_init_op=tf.no_op()), modes=("infer",))
  with pytest.raises(
    errors.SettingError, match="mode 'infer', returns a Scaffold with local_init_op"
  ):
    programs.estimator(tmp_path, model_fn).predict(programs.examples(8))


def test_saver_with_a_variable_outside_the_model_is_refused(tmp_path):
  outside = tf.Variable(1.0, name="outside")
  model_fn = with_scaffold(lambda average: Scaffold(saver=Saver({"x": outside})))
  with pytest.raises(
    errors.SettingError,
    match="returns a Saver of 'x'; expected an unpartitioned variable from the model_fn",
  ):
    programs.estimator(tmp_path / "model", model_fn).train(programs.train_input, max_steps=1)
