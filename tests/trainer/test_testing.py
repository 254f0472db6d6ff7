"""What users test their models with: a model that is right passes each test, and each finds the
model that is broken in its way.
"""

import unittest

import gin
import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import sources, test_imports
from tests.trainer import programs
from trainer import errors, testing

LINE = dict(model_fn=programs.line, input_fn=programs.train_input)


def line_with(train_op, noise=lambda y: y, reduce=tf.reduce_mean):
  """A line that is trained by train_op(loss, w), whose output goes through `noise` and whose
  errors are `reduce`d to the loss.
  """

  def model_fn(features, labels, mode, params):
    w = tf.Variable(tf.zeros([programs.WIDTH]), name="w")
    y = noise(tf.linalg.matvec(features["x"], w))
    if mode == trainer.ModeKeys.PREDICT:
      return trainer.EstimatorSpec(mode, predictions={"y": y, "x": features["x"]})
    loss = reduce(tf.square(y - labels))
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=train_op(loss, w) if mode == trainer.ModeKeys.TRAIN else None
    )

  return dict(model_fn=model_fn, input_fn=programs.train_input)


def descend(loss, w, rate=0.05):
  return trainer.minimize(keras.optimizers.SGD(rate), loss)


def noisy(y):
  return y + tf.random.normal(tf.shape(y))


def dropped(y):
  return keras.layers.Dropout(0.5)(y + 1, training=True)


# -------------------------------------------------------------- a right model


@pytest.mark.long_on_several_cores
def test_a_right_model_passes(device):
  testing.assert_learns(**LINE, steps=50, below=1.0, device=device)
  testing.assert_resumes_exactly(**LINE, device=device)
  testing.assert_export_matches(**LINE, device=device)


def test_a_right_model_is_the_same_on_eight_cores():
  testing.assert_same_on_eight_cores(**LINE)


class ForUnittest(unittest.TestCase):
  """As users of unittest write it."""

  def test_line(self):
    testing.assert_learns(**LINE, steps=20)
    with self.assertRaisesRegex(self.failureException, "does not fall below 0 in 20 steps"):  # noqa: PT027
      testing.assert_learns(**LINE, steps=20, below=0.0)


# -------------------------------------------------------------- broken models


@pytest.mark.parametrize(
  "rate, message",
  [
    (-0.05, r"The loss does not fall below .* in 20 steps; its means were .*, "),
    (1e30, "The loss does not stay finite: .*step"),
  ],
)
def test_a_model_that_goes_the_wrong_way(rate, message):
  with pytest.raises(AssertionError, match=message):
    testing.assert_learns(**line_with(lambda loss, w: descend(loss, w, rate)), steps=20)


def test_a_variable_that_stays_where_it_is():
  def train_op(loss, w):
    forgotten = tf.Variable(1.0, name="forgotten")
    return descend(loss + 0 * forgotten, w)

  broken = line_with(train_op)
  with pytest.raises(AssertionError, match="^forgotten did not move in 20 steps"):
    testing.assert_learns(**broken, steps=20)
  testing.assert_learns(**broken, steps=20, fixed=["forgotten"])


def test_a_model_that_counts_in_python():
  calls = []

  def train_op(loss, w):
    calls.append(loss)
    return descend(loss, w, 0.1 / len(calls))

  with pytest.raises(
    AssertionError,
    match=r"differ between 6 steps in one go and 3 steps, and the "
    r"remaining steps after a restart:\n  w differs by up to",
  ):
    testing.assert_resumes_exactly(**line_with(train_op))


def test_a_model_whose_random_numbers_start_anew():
  with pytest.raises(AssertionError, match="w differs by up to"):
    testing.assert_resumes_exactly(**line_with(descend, noisy))


def test_an_input_fn_that_gives_other_batches_each_time():
  random = np.random.RandomState(1)

  def input_fn(params):
    x = random.randn(params["batch_size"], programs.WIDTH).astype(np.float32)
    return tf.data.Dataset.from_tensors(({"x": x}, x[:, 0])).repeat()

  with pytest.raises(AssertionError, match="w differs by up to"):
    testing.assert_resumes_exactly(programs.line, input_fn)


def test_gradients_that_are_not_combined():
  def train_op(loss, w):
    return w.assign_sub(0.05 * tf.gradients(loss, w)[0])

  def model_fn(features, labels, mode, params):
    w = tf.Variable(
      tf.zeros([programs.WIDTH]), name="w", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
    )
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], w) - labels))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op(loss, w))

  with pytest.raises(
    AssertionError,
    match=r"1 of 2 differ by more than 1e-05 between one core and "
    r"eight cores:\n  w differs by up to",
  ):
    testing.assert_same_on_eight_cores(model_fn, programs.train_input)


def test_a_loss_that_is_a_sum():
  with pytest.raises(AssertionError, match="w differs by up to"):
    testing.assert_same_on_eight_cores(
      **line_with(lambda loss, w: descend(loss, w, 0.001), reduce=tf.reduce_sum)
    )


@pytest.mark.parametrize(
  "noise",
  [lambda y: y - tf.reduce_mean(y) + 1, noisy, dropped],
  ids=["of the whole batch", "random", "dropout"],
)
def test_predictions_that_depend_on_more_than_the_example(noise):
  with pytest.raises(
    AssertionError,
    match=r"^1 of 2 differ by more than 1e-05 between predicted "
    r"for \d+ examples? and served:\n  y differs",
  ):
    testing.assert_export_matches(**line_with(descend, noise))


# ------------------------------------------------------------------ gin files


@gin.configurable(module="test_testing")
def rate(value=0.05):
  return value


gin.external_configurable(programs.line, "line", module="test_testing")
gin.external_configurable(programs.train_input, "train_input", module="test_testing")
gin.external_configurable(programs.examples(11), "eleven", module="test_testing")

GIN = """
run.model_fn = @test_testing.line
run.train_input_fn = @test_testing.train_input
run.eval_input_fn = @test_testing.eleven
run.train_batch_size = 8
run.eval_batch_size = 8
run.train_steps = 1000
"""


@pytest.fixture
def gin_file(tmp_path):
  path = tmp_path / "line.gin"
  path.write_text(GIN)
  return path


@pytest.mark.long_on_several_cores
def test_a_gin_file_is_run(gin_file, tmp_path, device):
  metrics = testing.run_gin(
    gin_file,
    steps=3,
    device=device,
    bindings=["run.eval_batch_size = 16"],
    model_dir=tmp_path / "run",
  )
  assert metrics.keys() == {"loss", "absolute_error", "global_step"}
  assert metrics["global_step"] == 3
  assert list((tmp_path / "run" / "export").iterdir())
  assert gin.config_str() == "", "the configuration is forgotten"


def test_a_gin_file_with_a_mistake(gin_file):
  with pytest.raises(errors.SettingError, match="test_testing.rate.value"):
    testing.run_gin(gin_file, bindings=["test_testing.rate.value = 1"], mode="train")
  assert gin.config_str() == ""


# -------------------------------------------------------------------- batches


def test_a_random_batch_is_what_the_spec_says():
  spec = (
    {"image": tf.TensorSpec([None, 4, 3]), "flag": tf.TensorSpec([7], tf.bool)},
    tf.TensorSpec([None], tf.int32),
  )
  features, labels = testing.random_batch(spec, batch_size=100, below=5)
  assert (features["image"].shape, features["image"].dtype) == ((100, 4, 3), np.float32)
  assert (features["flag"].shape, features["flag"].dtype) == ((100,), bool)
  assert (labels.shape, labels.dtype) == ((100,), np.int32)
  assert set(labels) == set(range(5))
  assert 0 <= features["image"].min() < 0.1 < 0.9 < features["image"].max() < 1
  np.testing.assert_array_equal(testing.random_batch(spec, 100, below=5)[1], labels)
  assert not np.array_equal(testing.random_batch(spec, 100, below=5, seed=1)[1], labels)
  assert testing.random_batch(tf.TensorSpec([3, 2], tf.bfloat16)).dtype == tf.bfloat16


@pytest.mark.parametrize(
  "spec",
  [tf.TensorSpec([None, 2]), tf.TensorSpec(None), tf.TensorSpec([2], tf.string), tf.TensorSpec([])],
)
def test_what_no_batch_can_be_made_of(spec):
  with pytest.raises(errors.SettingError, match="random_batch: TensorSpec"):
    testing.random_batch(spec)


# ----------------------------------------------------------------- comparison


@pytest.mark.parametrize(
  "second, message",
  [
    ({"a": [1.0, 2.5], "b": [3]}, r"1 of 2 differ between x and y:\n  a differs by up to 0.5$"),
    (
      {"a": [1.0, np.nan], "b": [4]},
      r"2 of 2 .*\n  a differs by up to inf\n  b differs by up to "
      r"1$",
    ),
    ({"a": [[1.0], [2.0]], "b": [3]}, r"a has shape \(2,\) and \(2, 1\)$"),
    ({"a": [1.0, 2.0]}, "1 of 2 .*\n  b is only in x$"),
    ({"a": [1.0, 2.0], "b": [3], "c": []}, "c is only in y$"),
  ],
)
def test_values_that_differ(second, message):
  with pytest.raises(AssertionError, match=message):
    testing.assert_same_values({"a": [1.0, 2.0], "b": [3]}, second, names=("x", "y"))


def test_values_that_are_the_same():
  testing.assert_same_values(
    {"a": [np.nan, np.inf, 1.0], "s": ["x"], "e": []},
    {"a": [np.nan, np.inf, 1.0], "s": ["x"], "e": []},
  )
  testing.assert_same_values({"a": 1.0}, {"a": 1.25}, tolerance=0.25)


def test_a_message_has_an_end():
  with pytest.raises(AssertionError) as raised:
    testing.assert_same_values({str(i): i for i in range(30)}, {str(i): 2 * i for i in range(30)})
  assert str(raised.value).endswith("\n  and 21 more")
  assert len(str(raised.value).splitlines()) == 10


def test_it_does_not_need_pytest():
  assert "pytest" not in {
    module.partition(".")[0]
    for _, module, _ in test_imports.imports(sources.tree("trainer/testing.py"))
  }
