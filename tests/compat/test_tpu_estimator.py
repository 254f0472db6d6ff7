"""A TPUEstimator program, with nothing but its imports changed."""

import argparse
import itertools

import numpy as np
import pytest
import tensorflow.compat.v2 as tf2

import trainer.compat.v1 as tf
from tests import long
from tests.compat import programs
from trainer import errors
from trainer.compat.estimator import batch_axes
from trainer.compat.v1 import estimator as tf_estimator
from trainer.compat.v1.contrib import tpu as contrib_tpu
from trainer.devices import device as device_lib

ModeKeys = tf_estimator.ModeKeys


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """By device, an Estimator that was trained for 20 steps on the same data."""
  made = {}
  for device in ("cpu", "cpu:2"):
    folder = tmp_path_factory.mktemp("model")
    made[device] = programs.tpu_estimator(folder, device, programs.deep_tpu_model_fn)
    made[device].train(programs.train_input_fn, max_steps=20)
  return made


def test_one_core_and_two_train_alike(trained):
  for name in trained["cpu"].get_variable_names():
    one, two = (trained[device].get_variable_value(name) for device in ("cpu", "cpu:2"))
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6, err_msg=name)


def test_variables_have_the_names_of_tensorflow_1(trained):
  weights = ["net/dense/bias", "net/dense/kernel", "output/bias", "output/kernel"]
  slots = [f"{name}/{slot}" for name in weights for slot in ("Adam", "Adam_1")]
  others = ["beta1_power", "beta2_power", "global_step"]
  assert trained["cpu"].get_variable_names() == sorted([*weights, *slots, *others])


def test_evaluates_and_predicts_every_example(trained):
  results = [estimator.evaluate(programs.eval_input_fn) for estimator in trained.values()]
  assert results[0]["global_step"] == 20
  assert results[0]["accuracy"] == pytest.approx(results[1]["accuracy"])
  assert results[0]["loss"] == pytest.approx(results[1]["loss"], rel=1e-4)
  predictions = list(trained["cpu:2"].predict(programs.eval_input_fn))
  assert len(predictions) == programs.EXAMPLES
  guessed = np.array([np.argmax(one["probabilities"]) for one in predictions])
  assert np.mean(guessed == programs.arrays()[1]) == pytest.approx(results[1]["accuracy"])


class Items:
  """Params of a program's own class, to which a TPUEstimator can add some."""

  def __init__(self, **items):
    vars(self).update(items)

  def __getitem__(self, name):
    return vars(self)[name]

  def __setitem__(self, name, value):
    vars(self)[name] = value


def test_params_of_a_class_with_items_get_the_batch_size(tmp_path):
  seen = []

  def model_fn(features, labels, mode, params):
    seen.append((type(params), params.width, params["batch_size"]))
    return programs.tpu_model_fn(features, labels, mode, params)

  given = Items(width=3)
  programs.tpu_estimator(tmp_path, fn=model_fn, params=given).train(
    programs.train_input_fn, max_steps=1
  )
  assert set(seen) == {(Items, 3, 16)}
  assert vars(given) == {"width": 3}


def test_params_without_items_are_refused(tmp_path):
  with pytest.raises(errors.SettingError, match=r"__setitem__.*vars\(params\)"):
    programs.tpu_estimator(tmp_path, params=argparse.Namespace(width=3))


@pytest.mark.parametrize(
  "kind,train,evaluate",
  [
    pytest.param(True, 16, 16, marks=pytest.mark.long),
    (contrib_tpu.InputPipelineConfig.PER_HOST_V2, 8, 8),
    (contrib_tpu.InputPipelineConfig.SLICED, 16, 16),
  ],
)
def test_an_input_fn_gets_the_batch_size_of_its_configuration(tmp_path, kind, train, evaluate):
  seen = []

  def input_fn(params):
    seen.append((params["batch_size"], params["context"].num_replicas))
    return programs.eval_input_fn(params)

  def train_input_fn(params):
    seen.append((params["batch_size"], params["context"].num_hosts))
    return programs.train_input_fn(params)

  estimator = programs.tpu_estimator(
    tmp_path, "cpu:2", use_tpu=True, per_host_input_for_training=kind
  )
  estimator.train(train_input_fn, steps=1)
  estimator.evaluate(input_fn)
  assert set(seen) == {(train, 1), (evaluate, 2)}


@pytest.mark.parametrize("kind", long.except_for(["PER_HOST_V2"], ["PER_HOST_V1", "PER_HOST_V2"]))
def test_batch_size_fixed_in_the_input_fn_is_shared_by_cores(tmp_path, kind):
  def input_fn(params):
    x, y = programs.arrays()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(16, drop_remainder=True)

  estimator = programs.tpu_estimator(
    tmp_path, "cpu:2", per_host_input_for_training=contrib_tpu.InputPipelineConfig[kind]
  )
  estimator.train(input_fn, steps=2)
  assert estimator.evaluate(input_fn, steps=3)["global_step"] == 2


def test_model_fn_gets_what_tpu_estimator_gave_it(tmp_path):
  seen = {}

  def model_fn(features, labels, mode, params, config):
    seen.update(params=dict(params), config=config, width=features["x"].shape[-1].value)
    return programs.tpu_model_fn(features, labels, mode, params)

  estimator = programs.tpu_estimator(tmp_path, fn=model_fn, params={"width": 3})
  estimator.train(programs.train_input_fn, steps=1)
  assert seen["params"] == {"width": 3, "batch_size": 16, "use_tpu": False}
  assert seen["config"] is estimator.config
  assert seen["width"] == 6


@pytest.mark.parametrize(
  "device,use_tpu,is_given",
  [
    # test_model_fn_gets_what_tpu_estimator_gave_it has no context there either.
    pytest.param("cpu", False, False, marks=pytest.mark.long),
    ("cpu", True, False),
    ("cpu:2", False, False),
    ("cpu:2", True, True),
    pytest.param("xla:8", True, True, marks=pytest.mark.long),
  ],
)
def test_a_context_is_given_where_cores_stand_in_for_a_tpu(tmp_path, device, use_tpu, is_given):
  seen = {}

  def model_fn(features, labels, mode, params):
    at = "export" if "batch_size" not in params else mode
    seen[f"model_fn {at}"] = getattr(params.get("context"), "num_replicas", None)
    assert params["use_tpu"] is (is_given and at != "export")
    return programs.tpu_model_fn(features, labels, mode, params)

  def input_fn(params):
    seen["input_fn"] = getattr(params.get("context"), "num_replicas", None)
    return programs.eval_input_fn(params)

  estimator = programs.tpu_estimator(tmp_path, device, fn=model_fn, use_tpu=use_tpu)
  estimator.train(lambda params: input_fn(params).repeat(), steps=1)
  estimator.evaluate(input_fn)
  next(estimator.predict(input_fn))
  if is_given:
    receiver = {"x": tf.placeholder(tf.float32, [None, 6])}
    receiver_fn = tf_estimator.export.build_raw_serving_input_receiver_fn(receiver)
    estimator.export_saved_model(str(tmp_path / "export"), receiver_fn)
    assert seen.pop("model_fn export") is None
  count = estimator.device.replicas if is_given else None
  assert seen == dict.fromkeys(
    ["input_fn", "model_fn train", "model_fn eval", "model_fn infer"], count
  )


def test_arguments_that_stopped_programs_are_taken(tmp_path):
  resolver = tf.distribute.cluster_resolver.TPUClusterResolver("", zone=None, project=None)
  config = contrib_tpu.RunConfig(
    cluster=resolver,
    master=None,
    model_dir=str(tmp_path),
    session_config=tf.ConfigProto(allow_soft_placement=True),
    keep_checkpoint_every_n_hours=2,
    save_checkpoints_steps=1000,
    tpu_config=contrib_tpu.TPUConfig(
      iterations_per_loop=5,
      num_shards=8,
      per_host_input_for_training=contrib_tpu.InputPipelineConfig.PER_HOST_V2,
      eval_training_input_configuration=contrib_tpu.InputPipelineConfig.SLICED,
    ),
    device="cpu",
  )
  estimator = contrib_tpu.TPUEstimator(
    use_tpu=False,
    model_fn=programs.tpu_model_fn,
    config=config,
    train_batch_size=16,
    eval_batch_size=16,
    export_to_tpu=False,
    params={},
  )
  estimator.train(programs.train_input_fn, steps=2)
  assert estimator.evaluate(programs.eval_input_fn, steps=2)["global_step"] == 2


def test_the_device_of_the_environment_comes_first(tmp_path, monkeypatch):
  monkeypatch.setenv("OCTET_DEVICE", "cpu:8")
  assert programs.tpu_estimator(tmp_path, "cpu").device.replicas == 8


def test_a_model_on_several_cores_is_whole_where_no_tpu_is(tmp_path):
  estimator = programs.tpu_estimator(
    tmp_path, "cpu", num_cores_per_replica=2, input_partition_dims=[{"x": [1, 2]}, None]
  )
  estimator.train(programs.train_input_fn, steps=2)
  assert estimator.evaluate(programs.eval_input_fn, steps=2)["global_step"] == 2


def test_what_cannot_work_is_refused():
  with pytest.raises(ValueError, match="input_partition_dims needs num_cores_per_replica"):
    contrib_tpu.TPUConfig(input_partition_dims=[[1, 2], None])
  with pytest.raises(errors.SettingError, match="num_cores_per_replica=2.* remove both settings"):
    contrib_tpu.TPUConfig(num_cores_per_replica=2).check_device(is_tpu=True)
  with pytest.raises(ValueError, match="'batch_size'.*reserved"):
    programs.tpu_estimator("unused", params={"batch_size": 3})
  with pytest.raises(TypeError, match="no argument 'nonsense'"):
    contrib_tpu.RunConfig(nonsense=1)
  with pytest.raises(ValueError, match="config must be provided"):
    contrib_tpu.TPUEstimator(programs.tpu_model_fn, config=tf_estimator.RunConfig())


def test_scalars_and_values_of_several_rows_can_be_metrics(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.tpu_model_fn(features, labels, mode, params)
    rows = tf.reshape(tf.tile(features["x"][:, :1], [1, 3]), [-1])  # three for an example

    def metric_fn(loss, row, rows):
      means = {"mean_loss": loss, "mean_of_row": row, "rows": rows}
      return {name: tf.metrics.mean(value) for name, value in means.items()}

    given = {"loss": spec.loss, "row": tf.reshape(spec.loss, [1]), "rows": rows}
    return spec._replace(eval_metrics=(metric_fn, given))

  estimator = programs.tpu_estimator(tmp_path, "cpu:2", fn=model_fn)
  estimator.train(programs.train_input_fn, steps=1)
  result = estimator.evaluate(programs.eval_input_fn)
  assert result["mean_loss"] == pytest.approx(result["loss"], rel=1e-5)
  assert result["mean_of_row"] == pytest.approx(result["loss"], rel=1e-5)
  assert result["rows"] == pytest.approx(float(programs.arrays()[0][:, 0].mean()), abs=1e-6)


@pytest.mark.parametrize("kind", long.except_for(["PER_HOST_V1"], ["PER_HOST_V1", "PER_HOST_V2"]))
def test_a_batch_may_be_the_last_axis_of_a_feature(tmp_path, kind):
  """transpose_input, on one core and on two: the losses are those of the features as they were."""

  def transposed(input_fn):
    def transposing_input_fn(params):
      def turn(features, labels):
        return {"x": tf.transpose(tf.reshape(features["x"], [-1, 2, 3]), [1, 2, 0])}, labels

      dataset = input_fn(params).batch(params["batch_size"], drop_remainder=True)
      return dataset.map(turn)

    return transposing_input_fn

  def examples(params):
    x, y = programs.arrays()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat(params["batch_size"])

  shapes = set()

  def model_fn(features, labels, mode, params):
    shapes.add(tuple(features["x"].shape.as_list()))
    rows = tf.reshape(tf.transpose(features["x"], [2, 0, 1]), [-1, 6])
    return programs.tpu_model_fn({"x": rows}, labels, mode, params)

  found = {}
  for device in ("cpu", "cpu:2"):
    estimator = programs.tpu_estimator(
      tmp_path / device,
      device,
      fn=model_fn,
      per_host_input_for_training=contrib_tpu.InputPipelineConfig[kind],
    )
    estimator.train(transposed(examples), steps=3)
    found[device] = estimator.evaluate(transposed(examples), steps=3)
  assert found["cpu"]["loss"] == pytest.approx(found["cpu:2"]["loss"], rel=1e-5)
  assert shapes == {(2, 3, 16), (2, 3, 8)}


def test_replicas_of_a_group_add_up():
  strategy = device_lib.connect("cpu:4").strategy

  @tf.function(autograph=False)
  def summed(groups):
    def on_replica():
      own = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
      return tf.tpu.cross_replica_sum(tf.stack([own, 1.0]), groups)

    return strategy.experimental_local_results(strategy.run(on_replica))

  assert [value.numpy().tolist() for value in summed(None)] == [[6, 4]] * 4
  assert [value.numpy().tolist() for value in summed([[0, 3], [1, 2]])] == [[3, 2]] * 4
  in_pairs = summed([[0, 1], [2, 3]])
  assert [value.numpy().tolist() for value in in_pairs] == [[1, 2], [1, 2], [5, 2], [5, 2]]
  with pytest.raises(errors.SettingError, match="each of the 4 replicas"):
    summed([[0, 1], [2]])


def test_writers_have_an_operation_that_makes_them_ready(tmp_path):
  """In a model_fn, whose scalars Octet writes, and in a host_call, which writes itself."""
  folder = str(tmp_path / "of_the_host")

  def host_fn(step, loss):
    writer = tf2.summary.create_file_writer(folder)
    with tf.control_dependencies([writer.init()]), writer.as_default():
      tf2.summary.scalar("in_the_host", loss[0], step=tf.cast(step[0], tf.int64))
      return tf.summary.all_v2_summary_ops()

  def model_fn(features, labels, mode, params):
    made = programs.tpu_model_fn(features, labels, mode, params)
    if mode != ModeKeys.TRAIN:
      return made
    step = tf.train.get_global_step()
    writer = tf2.summary.create_file_writer(str(tmp_path))
    with tf.control_dependencies([writer.init()]):
      with writer.as_default(), tf2.summary.record_if(True):
        tf2.summary.scalar("in_the_model", made.loss, step=step)
    with tf.control_dependencies([*tf.summary.all_v2_summary_ops(), writer.flush()]):
      train_op = tf.group(made.train_op)
    rows = [tf.reshape(step, [1]), tf.reshape(made.loss, [1])]
    return made._replace(train_op=train_op, host_call=(host_fn, rows))

  estimator = programs.tpu_estimator(tmp_path, fn=model_fn)
  estimator.train(programs.train_input_fn, max_steps=2)
  assert "in_the_host" in programs.scalars(tmp_path / "of_the_host")
  assert "in_the_model" in programs.scalars(tmp_path)


def two_batch_sizes(batch_size):
  """Eight labelled and 24 other examples are a step, as in semi-supervised training."""
  x = np.random.RandomState(0).randn(64, 2).astype(np.float32)
  labelled = tf.data.Dataset.from_tensor_slices(x[:32]).repeat().batch(batch_size, True)
  others = tf.data.Dataset.from_tensor_slices(x[16:]).repeat().batch(3 * batch_size, True)
  return tf.data.Dataset.zip({"x": labelled, "u": others})


@pytest.mark.parametrize("device", long.except_for(["cpu:2"], ["cpu", "cpu:2"]))
@pytest.mark.parametrize("is_tpu_estimator", [True, False])
def test_features_may_have_several_rows_for_each_example(tmp_path, device, is_tpu_estimator):
  shapes = set()

  def model_fn(features, labels, mode):
    del labels
    shapes.add((tuple(features["x"].shape[1:]), features["u"].shape[-1].value))
    with tf.variable_scope("net"):
      w = tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.matmul(tf.concat([features["x"], features["u"]], 0), w) ** 2)
    optimizer = contrib_tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(0.1))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    kind = contrib_tpu.TPUEstimatorSpec if is_tpu_estimator else tf_estimator.EstimatorSpec
    return kind(mode, loss=loss, train_op=train_op)

  if is_tpu_estimator:
    sliced = contrib_tpu.InputPipelineConfig.SLICED
    estimator = programs.tpu_estimator(
      tmp_path, device, model_fn, per_host_input_for_training=sliced
    )
  else:
    estimator = programs.estimator(tmp_path, device, model_fn)
  estimator.train(lambda: two_batch_sizes(16), max_steps=3)
  assert estimator.evaluate(lambda: two_batch_sizes(16), steps=1)
  w = np.ones([2, 1], np.float32)
  for element in two_batch_sizes(16).take(3):
    rows = np.concatenate([element["x"], element["u"]])
    w -= 0.1 * 2 * rows.T @ (rows @ w) / len(rows)
  np.testing.assert_allclose(estimator.get_variable_value("net/w"), w, rtol=1e-5)
  assert shapes == {((2,), 2)}


@pytest.mark.parametrize("kind", long.except_for(["PER_HOST_V2"], ["PER_HOST_V1", "PER_HOST_V2"]))
def test_batches_of_another_size_than_the_program_gave_are_taken(tmp_path, kind):
  """As of a program that counts tokens; on one core and on two, in one call and resumed."""
  told, shapes = set(), set()

  def quarter(input_fn):
    def input_fn_of_quarter(params):
      told.add(("input_fn", params["batch_size"]))
      return input_fn(params, params["batch_size"] // 4)

    return input_fn_of_quarter

  @quarter
  def train_input_fn(params, size):
    return examples().repeat().batch(size, drop_remainder=True)

  @quarter
  def eval_input_fn(params, size):
    return examples().batch(size, drop_remainder=True)

  def examples():
    x, y = programs.arrays()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y))

  def model_fn(features, labels, mode, params):
    told.add((mode, params["batch_size"]))
    shapes.add((mode, features["x"].shape[0].value))
    return programs.deep_tpu_model_fn(features, labels, mode, params)

  found = {}
  for device, calls in (("cpu", [6]), ("cpu:2", [6]), ("cpu:2", [3, 6])):
    for max_steps in calls:
      estimator = programs.tpu_estimator(
        tmp_path / device / str(len(calls)),
        device,
        model_fn,
        per_host_input_for_training=contrib_tpu.InputPipelineConfig[kind],
      )
      estimator.train(train_input_fn, max_steps=max_steps)
    evaluated = [estimator.evaluate(eval_input_fn, steps=steps)["loss"] for steps in (None, 2)]
    predicted = [one["probabilities"] for one in estimator.predict(eval_input_fn)]
    assert len(predicted) == programs.EXAMPLES
    names = estimator.get_variable_names()
    values = {name: estimator.get_variable_value(name) for name in names}
    found[device, len(calls)] = values | {"evaluated": evaluated, "predicted": predicted}
    replicas = estimator.device.replicas
    given = {16 // replicas, 16} if kind == "PER_HOST_V1" else {16 // replicas}
    modes = [ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT]
    assert {size for name, size in told if name == "input_fn"} == {max(given)}
    assert told - {("input_fn", max(given))} == {(mode, 16 // replicas) for mode in modes}
    assert {size for mode, size in shapes if mode != ModeKeys.TRAIN} <= {None, 4 // replicas}
    assert (ModeKeys.TRAIN, 4 // replicas) in shapes
    told.clear()
    shapes.clear()
  expected = found.pop(("cpu", 1))
  for each in found.values():
    for name, value in expected.items():
      np.testing.assert_allclose(each[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_resumed_training_skips_batches_of_unknown_size(tmp_path):
  """Each core takes a batch of its own."""

  def input_fn(params):
    x, y = programs.arrays()
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat()
    return dataset.batch(params["batch_size"])

  found = []
  for calls in ([6], [3, 6]):
    for max_steps in calls:
      kind = contrib_tpu.InputPipelineConfig.PER_HOST_V2
      estimator = programs.tpu_estimator(
        tmp_path / str(len(calls)), "cpu:2", per_host_input_for_training=kind
      )
      estimator.train(input_fn, max_steps=max_steps)
    names = estimator.get_variable_names()
    found.append({name: estimator.get_variable_value(name) for name in names})
  for name, value in found[0].items():
    np.testing.assert_array_equal(found[1][name], value, err_msg=name)


def test_batches_that_the_cores_cannot_share_are_refused(tmp_path):
  def input_fn(params):
    x, y = programs.arrays()
    return tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(3, drop_remainder=True)

  with pytest.raises(errors.SettingError, match="batches of 3, which 2 cores cannot share"):
    programs.tpu_estimator(tmp_path, "cpu:2").train(input_fn, steps=1)


def test_only_a_run_config_of_tpus_has_a_tpu_config():
  assert not hasattr(tf.estimator.RunConfig(), "tpu_config")
  assert tf.estimator.tpu.RunConfig().tpu_config.iterations_per_loop == 2
  assert tf.estimator.tpu.TPUConfig(iterations_per_loop="1000").iterations_per_loop == 1000


def test_optimize_loss_takes_the_optimizer_of_a_tpu(tmp_path):
  kernels = []
  for name, wrap in (("plain", lambda one: one), ("wrapped", contrib_tpu.CrossShardOptimizer)):

    def model_fn(features, labels, mode, params, wrap=wrap):
      loss = tf.losses.sparse_softmax_cross_entropy(labels, programs.logits_of(features))
      train_op = tf.contrib.layers.optimize_loss(
        loss,
        tf.train.get_or_create_global_step(),
        0.1,
        lambda rate: wrap(tf.train.GradientDescentOptimizer(rate)),
        clip_gradients=100.0,
      )
      return contrib_tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = programs.tpu_estimator(tmp_path / name, "cpu:2", model_fn)
    estimator.train(programs.train_input_fn, max_steps=3)
    assert int(estimator.get_variable_value("global_step")) == 3
    kernels.append(estimator.get_variable_value("net/dense/kernel"))
  np.testing.assert_array_equal(*kernels)


@pytest.mark.parametrize("device", long.except_for(["cpu"], ["cpu", "cpu:2"]))
def test_an_input_fn_gets_the_arguments_that_it_names(tmp_path, device):
  """TensorFlow gives **kwargs nothing."""

  def wrapper(params, *args, **kwargs):
    assert (args, kwargs) == ((), {})
    return programs.eval_input_fn(params, **kwargs)

  estimator = programs.tpu_estimator(tmp_path, device)
  estimator.train(programs.train_input_fn, max_steps=1)
  assert len(list(estimator.predict(wrapper))) == programs.EXAMPLES
  assert estimator.evaluate(wrapper)["global_step"] == 1


class OwnDict(dict):
  """A program's own class of features."""


def test_features_in_a_dict_of_an_own_class_keep_its_class():
  given = OwnDict(x=batch_axes.Rows(tf.zeros([4, 2])), y=[tf.ones([2])]), None
  features, labels = batch_axes.as_given(given)
  assert type(features) is OwnDict
  assert features is not given[0]
  assert features["x"].shape == [2, 4]
  assert features["y"] == given[0]["y"]
  assert labels is None


@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_predictions_of_unknown_rank_keep_their_shape(tmp_path, device):
  widths = itertools.repeat(6)

  def model_fn(features, labels, mode, params):
    if mode != ModeKeys.PREDICT:
      return programs.tpu_model_fn(features, labels, mode, params)
    double = tf.py_func(lambda x: (x * 2)[:, : next(widths)], [features["x"]], tf.float32)
    assert double.shape.rank is None
    return contrib_tpu.TPUEstimatorSpec(mode, predictions={"x": double})

  estimator = programs.tpu_estimator(tmp_path, device, model_fn)
  estimator.train(programs.train_input_fn, max_steps=1)
  found = [one["x"] for one in estimator.predict(programs.eval_input_fn)]
  np.testing.assert_array_equal(found, programs.arrays()[0] * 2)
  if device == "cpu:2":
    widths = itertools.cycle([1, 2])
    with pytest.raises(errors.ModelFnError, match="each core returned its .* with other sizes"):
      list(estimator.predict(programs.eval_input_fn))


def test_a_size_is_checked_when_its_mode_runs(tmp_path):
  config = contrib_tpu.RunConfig(model_dir=str(tmp_path), device="cpu:2")
  estimator = contrib_tpu.TPUEstimator(
    programs.tpu_model_fn, config=config, use_tpu=False, train_batch_size=16, predict_batch_size=1
  )
  estimator.train(programs.train_input_fn, max_steps=1)
  receiver = {"x": tf.placeholder(tf.float32, [None, 6])}
  receiver_fn = tf_estimator.export.build_raw_serving_input_receiver_fn(receiver)
  estimator.export_saved_model(str(tmp_path / "export"), receiver_fn)
  with pytest.raises(errors.SettingError, match="predict_batch_size=1.*the number of replicas, 2"):
    estimator.predict(programs.eval_input_fn)
