"""What a program takes for granted in its model_fn, and what stays as it is elsewhere."""

from importlib import util

import numpy as np
import pytest
import tensorflow
from absl import logging

import trainer.compat.v1 as tf
import trainer.compat.v2 as tf_v2
from tests.compat import programs
from trainer import errors
from trainer.compat.estimator import input_fns
from trainer.compat.graph_mode import behavior, habits
from trainer.compat.names import absent
from trainer.compat.v1 import contrib


def test_the_version_is_that_of_the_names():
  """Programs of TensorFlow 1 ask `tf.__version__ < "2"`; those of TensorFlow 2 ask the reverse."""
  assert [tf.__version__, tf.VERSION, tf.version.VERSION] == ["1.15.5"] * 3
  assert [tf_v2.__version__, tf_v2.version.VERSION] == ["2.15.1"] * 2
  assert not hasattr(tf_v2, "VERSION")
  assert tf.version.COMPILER_VERSION == tensorflow.version.COMPILER_VERSION


def in_a_model_fn(tmp_path, look):
  """Calls `look` with the features of a model_fn."""

  def model_fn(features, labels, mode):
    look(features["x"])
    return programs.model_fn(features, labels, mode)

  def input_fn():
    return programs.eval_input_fn({"batch_size": 16})

  programs.estimator(tmp_path, fn=model_fn).train(input_fn, steps=1)


def test_equality_is_identity_in_the_graph_of_a_model_fn(tmp_path):
  seen = {}

  def body(count):
    inner = tf.identity(count)
    seen["looped"] = [inner == count, {inner: 1}[inner]]
    return count + 1

  def look(x):
    other = tf.identity(x)
    with tf.variable_scope("looked_at"):
      variable = tf.get_variable("v", [2])
    tf.while_loop(lambda count: count < 3, body, [tf.constant(0)])
    seen.update(
      tensors=[x == other, x == x, x in [other], {x: 1}[x]],
      variables=[variable in tf.trainable_variables(), variable != variable],
      compared=tf.data.Dataset.range(3).map(lambda number: number == 1),
    )

  in_a_model_fn(tmp_path, look)
  assert seen["tensors"] == [False, True, False, 1]
  assert seen["looped"] == [False, 1]
  assert seen["variables"] == [True, False]
  a = tensorflow.constant([1, 2])
  assert (a == a).numpy().tolist() == [True, True]
  with pytest.raises(TypeError, match="unhashable"):
    hash(a)


def test_a_dimension_has_a_value_in_a_model_fn(tmp_path):
  seen = []
  in_a_model_fn(
    tmp_path, lambda x: seen.extend([x.shape[-1].value, [d.value for d in x.shape[1:]]])
  )
  assert seen == [6, [6]]
  assert not hasattr(tensorflow.zeros([3]).shape[0], "value")


@pytest.fixture
def _v2_behavior_afterwards():
  yield
  tf.enable_v2_behavior()


@pytest.mark.usefixtures("_v2_behavior_afterwards")
def test_an_unknown_dimension_is_none_or_a_dimension(tmp_path):
  for switch, kind in ((tf.disable_v2_behavior, tf.Dimension), (tf.enable_v2_behavior, type(None))):
    switch()
    seen = []
    in_a_model_fn(tmp_path / kind.__name__, lambda x: seen.append(tf.TensorShape([None, 2])[0]))
    assert type(seen[0]) is kind


@pytest.mark.usefixtures("_v2_behavior_afterwards")
def test_a_program_without_eager_execution_sees_none():
  """BLEURT makes placeholders for its export only then."""
  for switch, eager in (
    (tf.enable_eager_execution, True),
    (tf.disable_v2_tensorshape, True),
    (tf.disable_eager_execution, False),
    (tf.enable_v2_behavior, True),
    (tf.disable_v2_behavior, False),
  ):
    switch()
    assert tf.executing_eagerly() is eager
    assert tensorflow.executing_eagerly()
  tf.enable_eager_execution()
  with tensorflow.Graph().as_default():
    assert not tf.executing_eagerly()


@pytest.mark.usefixtures("_v2_behavior_afterwards")
def test_tf2_is_disabled_in_a_program_for_tensorflow_1():
  """tensor2tensor takes tf.layers then, whose names its checkpoints have."""
  fresh = util.module_from_spec(behavior.__spec__)
  behavior.__spec__.loader.exec_module(fresh)
  assert not fresh.is_v2()
  for switch, enabled in ((tf.enable_v2_behavior, True), (tf.disable_v2_behavior, False)):
    switch()
    assert tf.tf2.enabled() is enabled
  assert tf_v2.tf2.enabled()


@pytest.mark.usefixtures("_v2_behavior_afterwards")
def test_sizes_have_values_in_an_input_fn_unknown_ones_too():
  seen = []

  def input_fn():
    def look(x):
      seen.append([x.shape[0].value, tf.boolean_mask(x, x > 0).get_shape()[0].value])
      return x

    return tf.data.Dataset.from_tensors([1.0, 2.0]).map(look)

  input_fns.call(input_fn)
  assert seen[-1] == [2, None]
  assert type(tf.TensorShape([2])[0]) is int


def test_an_absent_name_says_why_and_what_to_use():
  assert not hasattr(contrib, "gan")
  with pytest.raises(absent.AbsentNameError, match="no contrib.gan: it left") as raised:
    contrib.gan  # noqa: B018
  assert raised.value.name == "contrib.gan"
  assert raised.value.replacement
  with pytest.raises(AttributeError, match="no no_such_name: neither"):
    tf.no_such_name  # noqa: B018


@pytest.mark.parametrize(
  ("statement", "told"),
  [
    ("from trainer.compat.v1.contrib import gan", "no contrib.gan: it left .* tensorflow-gan"),
    ("import trainer.compat.v1.contrib.gan.python", "no contrib.gan: it left"),
    (
      "from trainer.compat.v1.contrib.learn import MetricSpec",
      "no contrib.learn.MetricSpec: it belongs to .* Use eval_metric_ops of the EstimatorSpec",
    ),
    (
      "from trainer.compat.v1.estimator.head.sequential_head import SequentialHead",
      "no estimator.head.sequential_head: it is inside of tensorflow_estimator",
    ),
    ("from trainer.compat.v1.estimator.tpu import tpu_estimator", "Use estimator.tpu.TPUEstimator"),
    ("from trainer.compat.v1.estimator import util", "no estimator.util: it is inside of"),
    ("from trainer.compat.v1.train import no_such_name", "no train.no_such_name: neither"),
    ("from trainer.compat.v1 import no_such_name", "no no_such_name: neither"),
  ],
)
def test_an_import_of_an_absent_name_says_why_too(statement, told):
  with pytest.raises(absent.AbsentModuleError, match=told) as raised:
    exec(statement)
  assert isinstance(raised.value, ImportError)


def test_modules_inside_of_contrib_have_its_names():
  from trainer.compat.v1.contrib.framework.python.ops import arg_scope, variables
  from trainer.compat.v1.contrib.tpu.python.tpu import tpu_config, tpu_estimator, tpu_function

  assert tpu_config.TPUConfig is contrib.tpu.TPUConfig
  assert [one.name for one in tpu_estimator.ExportSavedModelApiVersion] == ["V1", "V2"]
  assert tpu_function.get_tpu_context().number_of_shards == 1
  assert arg_scope is contrib.framework.arg_scope
  assert variables.model_variable is contrib.framework.model_variable
  assert contrib.tpu.python.tpu.tpu_optimizer.CrossShardOptimizer is contrib.tpu.CrossShardOptimizer
  with pytest.raises(absent.AbsentNameError, match="no contrib.tpu.python.tpu.tpu_config.gone"):
    tpu_config.gone  # noqa: B018


def test_absent_contrib_modules_import_and_their_names_say_why():
  from trainer.compat.v1.contrib import quantize

  with pytest.raises(absent.AbsentNameError, match="no contrib.quantize.create_training_graph: it"):
    quantize.create_training_graph()
  with pytest.raises(absent.AbsentModuleError, match="no contrib.cloud.BigtableClient: it read"):
    from trainer.compat.v1.contrib.cloud import BigtableClient  # noqa: F401


def test_names_are_tensorflows_and_those_that_left():
  assert tf.reduce_sum is tensorflow.compat.v1.reduce_sum
  assert tf.compat.v1 is tf
  assert tf.optimizers is tensorflow.optimizers  # which tf.compat.v1 does not have
  assert {"layers", "estimator", "contrib", "reduce_sum"} <= set(dir(tf))


class Told(tf.keras.layers.Layer):
  """Gives whether it trains."""

  def call(self, inputs, training=None):
    return tf.zeros_like(inputs) + float(bool(training))


class Around(tf.keras.layers.Layer):
  """Calls another layer, and does not tell it."""

  def __init__(self):
    super().__init__()
    self.told = Told()

  def call(self, inputs):
    return self.told(inputs)


def test_layers_of_keras_train_in_the_learning_phase():
  found = {}

  def look(x):
    found["unsaid"] = Told()(x)
    for phase in (1, 0):
      tf.keras.backend.set_learning_phase(phase)
      assert tf.keras.backend.learning_phase() == phase
      found[f"phase {phase}"] = Told()(x)
    tf.keras.backend.set_learning_phase(1)
    found["told"] = Told()(x, training=False)
    found["around"] = Around()(x, training=False)

  with tf.Graph().as_default(), habits.enable(), tf.Session() as session:
    look(tf.ones([1]))
    values = {name: float(value[0]) for name, value in session.run(found).items()}
  assert values == {"unsaid": 0, "phase 1": 1, "phase 0": 0, "told": 0, "around": 0}


def test_a_saver_of_all_variables_has_none_of_the_seeds_of_keras(tmp_path):
  seen = []

  def look(x):
    tf.keras.layers.Dropout(0.5)(x, training=True)
    tf.get_variable("looked_at", [2])
    seen.append([variable.op.name for variable in tf.global_variables()])
    assert any("seed_generator" in variable.op.name for variable in tf.local_variables())

  in_a_model_fn(tmp_path, look)
  assert seen[0] == ["looked_at"]


def test_class_of_keras_and_tf_layers_without_equivalent_fails():
  with pytest.raises(errors.SettingError, match="derives from keras.layers.Masking"):

    class Both(tf.keras.layers.Masking, tf.layers.Layer):
      pass


def test_sequential_with_known_input_names_variables_as_2_15(tmp_path):
  """Also where tf.keras is first asked for in the model_fn: what it replaces is in place."""
  layers, names = tf.keras.layers, []

  def in_model(x):
    for first in ({"input_shape": x.shape[1:]}, {}):
      body = [layers.Dense(2, **first), tf.keras.Sequential([layers.Dense(2)])]
      model = tf.keras.Sequential(body)
      model(x)
      names.append([one.path for one in model.trainable_variables if "kernel" in one.path])

  in_a_model_fn(tmp_path, in_model)
  known, unknown = names[0], names[1]
  assert known == ["dense/kernel", "sequential/dense_1/kernel"]
  assert unknown == ["sequential_3/dense_2/kernel", "sequential_3/sequential_2/dense_3/kernel"]


def test_a_placeholder_outside_of_all_graphs_says_what_is_served():
  image = tf.placeholder(tf.float32, [None, 2])
  assert (image.shape.as_list(), image.dtype) == ([None, 2], tf.float32)
  receiver_fn = tf.estimator.export.build_raw_serving_input_receiver_fn({"image": image})
  with tf.Graph().as_default() as graph:
    receiver = receiver_fn()
    assert tf.placeholder(tf.int32, []).graph is graph
  assert receiver.features["image"].shape.as_list() == [None, 2]


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_tags_of_scalars_begin_with_their_scopes(tmp_path, device):
  """As in TensorFlow 1: else the layers of a network would write over each other's."""

  def model_fn(features, labels, mode):
    for value, layer in enumerate(("one", "two")):
      with tf.variable_scope(layer):
        tf.summary.scalar("mean", float(value))
    tf.summary.scalar("mean", 2.0)
    tf.summary.scalar("mean of 2", 3.0)
    tf.summary.scalar("mean", 4.0)
    with tf.name_scope("inner"):
      tf.summary.scalar("mean", 5.0, family="kind")
    return programs.model_fn(features, labels, mode)

  made = programs.estimator(tmp_path, device, model_fn, save_summary_steps=1)
  made.train(lambda: programs.eval_input_fn({"batch_size": 16}), steps=1)
  found = programs.scalars(tmp_path)
  wanted = {
    "one/mean": 0.0,
    "two/mean": 1.0,
    "mean": 2.0,
    "mean_of_2": 3.0,
    "mean_1": 4.0,
    "kind/inner/kind/mean": 5.0,
  }
  assert {tag: value for tag, value in found.items() if "mean" in tag} == wanted


def test_the_verbosity_is_a_number_or_its_name():
  assert tf.logging.__dict__["WARN"] == tensorflow.compat.v1.logging.WARN
  before = logging.get_verbosity()
  try:
    for given, wanted in ((tf.logging.ERROR, logging.ERROR), ("INFO", logging.INFO)):
      tf.logging.set_verbosity(given)
      assert logging.get_verbosity() == wanted
  finally:
    logging.set_verbosity(before)


def test_class_with_a_tensor_conversion_works_in_a_model_fn(tmp_path):
  class Doubled:
    def __init__(self, tensor):
      self.tensor = tensor

  def convert(value, dtype=None, name=None, as_ref=False):
    return value.tensor * 2.0

  tf.register_tensor_conversion_function(Doubled, convert)
  seen = {}
  in_a_model_fn(tmp_path, lambda x: seen.update(value=tf.reduce_sum(Doubled(x)).dtype))
  assert seen == {"value": tf.float32}


def test_auto_reduction_of_a_keras_loss_is_the_mean():
  for losses in (tf.keras.losses, tf_v2.losses):
    loss = losses.MeanSquaredError(losses.Reduction.AUTO)  # Keras 3 knows no "auto"
    assert float(loss(tf.constant([[1.0], [3.0]]), tf.zeros([2, 1]))) == 5.0


def test_shared_columns_are_made_outside_of_a_graph():
  fc = tf.feature_column
  kinds = [fc.categorical_column_with_identity(key, 5) for key in ("seen", "shown")]
  columns = fc.shared_embedding_columns(kinds, 3, shared_embedding_collection_name="items")
  with tf.Graph().as_default(), tf.Session() as session:
    features = {"seen": tf.constant([[4], [1]]), "shown": tf.constant([[1], [4]])}
    both = fc.input_layer(features, columns)
    session.run(tf.global_variables_initializer())
    weights = session.run(tf.trainable_variables())
    seen, shown = np.split(session.run(both), 2, axis=1)
  assert [each.shape for each in weights] == [(5, 3)]
  np.testing.assert_array_equal(seen, weights[0][[4, 1]])
  np.testing.assert_array_equal(shown, seen[::-1])


def test_a_layer_is_applied():
  layer = tf.keras.layers.Dense(2)
  x = tf.constant([[1.0, 2.0, 3.0]])
  np.testing.assert_array_equal(layer.apply(x), layer(x))


def test_an_input_that_a_hook_feeds_says_what_to_do():
  def input_fn():
    x = tf.placeholder(tf.float32, [None, 2])
    return tf.data.Dataset.from_tensor_slices(x).make_initializable_iterator().get_next()

  with pytest.raises(
    errors.InputError, match=r"input_fn makes a dataset of a tf.placeholder.*give"
  ):
    input_fns.call(input_fn)


def test_a_variable_is_true_whatever_its_value(tmp_path):
  """Programs write `average if average else variable`."""
  seen = {}

  def look(x):
    zero = tf.get_variable("zero", [], initializer=tf.zeros_initializer())
    average = tf.train.ExponentialMovingAverage(0.5)
    average.apply([zero])
    seen["is_true"] = [bool(zero), bool(average.average(zero))]

  in_a_model_fn(tmp_path, look)
  assert seen["is_true"] == [True, True]
  assert not tensorflow.Variable(0.0)
