"""SavedModels: what is served is what was predicted, by the names that the input_fn gives."""

import os
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import warm
from tests.trainer import programs
from tests.trainer.io import test_files
from trainer import errors
from trainer.outputs import saved_model, served_inputs

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  estimator = programs.estimator(tmp_path_factory.mktemp("model"), save_checkpoints_steps=1)
  estimator.train(programs.train_input, steps=3)
  return estimator


def signature(path, name="serving_default"):
  return tf.saved_model.load(path).signatures[name]


def predicted(estimator, count):
  return np.array([prediction["y"] for prediction in estimator.predict(programs.examples(count))])


@pytest.mark.parametrize("count", [1, 8, 13])
def test_the_batch_is_free(trained, count, tmp_path):
  serve = signature(trained.export_saved_model(tmp_path))
  np.testing.assert_allclose(
    serve(x=tf.constant(programs.arrays(count)[0]))["y"], predicted(trained, count), atol=1e-6
  )


def test_a_checkpoint_that_is_named(trained, tmp_path):
  path = trained.export_saved_model(
    tmp_path, checkpoint_path=os.path.join(trained.model_dir, "model.ckpt-0")
  )
  assert not signature(path)(x=tf.constant(programs.arrays(4)[0]))["y"].numpy().any()


def test_it_loads_where_there_is_nothing_but_tensorflow(trained, tmp_path):
  path = trained.export_saved_model(tmp_path)
  program = (
    "import sys, tensorflow as tf\n"
    f"serve = tf.saved_model.load({path!r}).signatures['serving_default']\n"
    "print(float(serve(x=tf.ones([1, 3]))['y'][0]))\n"
    "assert not any(name.split('.')[0] == 'trainer' for name in sys.modules)\n"
  )
  run = warm.run("-c", program, cwd=tmp_path)
  assert run.returncode == 0, run.stderr
  wanted = trained.get_variable_value("w").sum() + trained.get_variable_value("b")
  assert float(run.stdout) == pytest.approx(float(wanted), rel=1e-5)


def test_the_folder_is_named_by_the_time_and_never_written_over(trained, tmp_path):
  paths = [trained.export_saved_model(tmp_path) for _ in range(3)]
  assert len(set(paths)) == 3
  assert all(os.path.basename(path).isdigit() for path in paths)
  # Nothing is left of the writing.
  assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(path) for path in paths)


def test_extra_files(trained, tmp_path):
  (tmp_path / "labels.txt").write_text("cat\ndog")
  path = trained.export_saved_model(
    tmp_path / "export", assets_extra={"text/labels.txt": str(tmp_path / "labels.txt")}
  )
  with open(os.path.join(path, "assets.extra", "text", "labels.txt")) as file:
    assert file.read() == "cat\ndog"


def test_an_export_that_fails_is_not_there(trained, tmp_path):
  with pytest.raises(errors.OutputError, match="Cannot write the SavedModel to"):
    trained.export_saved_model(
      tmp_path / "export", assets_extra={"labels.txt": str(tmp_path / "missing.txt")}
    )
  assert [name for name in os.listdir(tmp_path / "export") if name.isdigit()] == []
  (tmp_path / "file").write_text("in the way")
  with pytest.raises(errors.OutputError, match="Cannot write the SavedModel to"):
    trained.export_saved_model(tmp_path / "file" / "export")


def test_an_export_changes_nothing_of_the_training(trained, tmp_path):
  before = {name: variable.numpy() for name, variable in trained.variables.items()}
  traces = trained.traces
  trained.export_saved_model(tmp_path)
  assert trained.traces == traces
  for name, value in before.items():
    np.testing.assert_array_equal(trained.variables[name].numpy(), value)


def test_the_expected_outputs_are_those_of_a_cpu(trained, tmp_path, monkeypatch):
  outputs, devices = saved_model.TracedModel.outputs, set()

  def outputs_and_devices(model, arrays):
    found = outputs(model, arrays)
    devices.update(tensor.device for tensor in tf.nest.flatten(found))
    return found

  monkeypatch.setattr(saved_model.TracedModel, "outputs", outputs_and_devices)
  # By default TensorFlow takes a GPU, and here the first of eight virtual CPUs.
  monkeypatch.setattr(saved_model, "_DEVICE", "/cpu:1")
  path = trained.export_saved_model(str(tmp_path))
  assert [tf.DeviceSpec.from_string(device).device_index for device in devices] == [1]
  assert b"CPU:1" not in (pathlib.Path(path) / "saved_model.pb").read_bytes()


def test_without_a_checkpoint(tmp_path):
  with pytest.raises(errors.CheckpointNotFoundError, match="There is no checkpoint in"):
    programs.estimator(tmp_path / "model").export_saved_model(tmp_path / "export")
  assert not (tmp_path / "export").exists()


def test_somebody_says_which_features_there_are(trained, tmp_path):
  fresh = programs.estimator(trained.model_dir)
  with pytest.raises(
    errors.SettingError,
    match="does not know the features of the model: give serving_input_receiver_fn",
  ):
    fresh.export_saved_model(tmp_path)


# ------------------------------------------------------------ what is received


RECEIVERS = {"raw": lambda: _receive_features(), "of doubles": lambda: _receive_doubles()}


def _receive_features():
  features = {"x": v1.placeholder(tf.float32, [None, 3], "x")}
  return features, features


def _receive_doubles():
  """As TPUEstimator programs write it: what is received is not what the model takes."""
  received = v1.placeholder(tf.float64, [None, 3], "doubles")
  return {"x": tf.cast(received, tf.float32)}, {"doubles": received}


def test_a_receiver_of_raw_features(trained, tmp_path):
  fresh = programs.estimator(trained.model_dir)
  serve = signature(fresh.export_saved_model(tmp_path, RECEIVERS["raw"]))
  np.testing.assert_allclose(
    serve(x=tf.constant(programs.arrays(4)[0]))["y"], predicted(trained, 4), atol=1e-6
  )


def test_a_receiver_that_makes_features_of_what_it_gets(trained, tmp_path):
  serve = signature(
    programs.estimator(trained.model_dir).export_saved_model(tmp_path, RECEIVERS["of doubles"])
  )
  np.testing.assert_allclose(
    serve(doubles=tf.constant(programs.arrays(4)[0], tf.float64))["y"],
    predicted(trained, 4),
    atol=1e-6,
  )


def combined(features, labels, mode, params):
  """2·b − a + c of features in any structure that has them, in the order of their names."""
  scale = tf.Variable(1.0, name="scale")
  a, b, c = params["pick"](features)
  y = scale * (2 * b - a + c)
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=y)
  loss = tf.reduce_mean(tf.square(y))
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.0), loss)
  )


STRUCTURES = {
  "sorted dict": (
    lambda a, b, c: {"a": a, "b": b, "c": c},
    lambda f: (f["a"], f["b"], f["c"]),
    ("a", "b", "c"),
  ),
  "unsorted dict": (
    lambda a, b, c: {"c": c, "b": b, "a": a},
    lambda f: (f["a"], f["b"], f["c"]),
    ("a", "b", "c"),
  ),
  "nested dict": (
    lambda a, b, c: {"z": {"b": b, "a": a}, "c": c},
    lambda f: (f["z"]["a"], f["z"]["b"], f["c"]),
    ("z/a", "z/b", "c"),
  ),
  "dict of a tuple": (
    lambda a, b, c: {"pair": (a, b), "c": c},
    lambda f: (*f["pair"], f["c"]),
    ("pair_0", "pair_1", "c"),
  ),
}


@pytest.mark.parametrize(
  "make, pick, names", [pytest.param(*case, id=name) for name, case in STRUCTURES.items()]
)
def test_features_are_served_by_their_names(make, pick, names, tmp_path):
  values = [np.float32([1, 2, 3, 4]) * 10**place for place in range(3)]

  def input_fn(params):
    return (
      tf.data.Dataset.from_tensor_slices(make(*values))
      .repeat()
      .batch(params["batch_size"], drop_remainder=True)
    )

  estimator = programs.estimator(
    tmp_path / "model", combined, params={"pick": pick}, batch_size=4
  ).train(input_fn, steps=1)
  serve = signature(estimator.export_saved_model(tmp_path / "export"))
  found = set(serve.structured_input_signature[1])
  by_name = {name: tf.constant(value) for name, value in zip(names, values, strict=True)}
  # A signature's argument has no slash: TensorFlow puts an underscore.
  served = serve(
    **{name if name in found else name.replace("/", "_"): value for name, value in by_name.items()}
  )
  a, b, c = values
  np.testing.assert_allclose(served["output"], 2 * b - a + c)


def test_features_that_are_one_tensor(tmp_path):
  def input_fn(params):
    return programs.train_input(params).map(lambda features, labels: (features["x"], labels))

  estimator = programs.estimator(tmp_path / "model").train(input_fn, steps=1)
  serve = signature(estimator.export_saved_model(tmp_path / "export"))
  assert serve(features=tf.constant(programs.arrays(5)[0]))["y"].shape == [5]


def test_signatures_of_the_models_own(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    if mode == trainer.ModeKeys.PREDICT:
      spec.export_outputs = {
        "serving_default": spec.predictions,
        "doubled": 2 * spec.predictions["y"],
      }
    return spec

  estimator = programs.estimator(tmp_path / "model", model_fn).train(programs.train_input, steps=1)
  loaded = tf.saved_model.load(estimator.export_saved_model(tmp_path / "export"))
  x = tf.constant(programs.arrays(5)[0])
  assert set(loaded.signatures) == {"serving_default", "doubled", "from_examples"}
  np.testing.assert_allclose(
    loaded.signatures["doubled"](x=x)["output"],
    2 * loaded.signatures["serving_default"](x=x)["y"],
    rtol=1e-6,
  )


@pytest.mark.parametrize("name", ["classes", "serving_default"])
def test_one_signature_of_the_models_own_is_the_default_too(name, tmp_path):
  """A server that is asked for no signature gives that one."""

  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    if mode != trainer.ModeKeys.PREDICT:
      return spec
    outputs = {name: {"doubled": 2 * spec.predictions["y"]}}
    return trainer.EstimatorSpec(mode, predictions=spec.predictions, export_outputs=outputs)

  estimator = programs.estimator(tmp_path / "model", model_fn)
  estimator.train(programs.train_input, steps=1)
  loaded = tf.saved_model.load(estimator.export_saved_model(tmp_path / "export"))
  x = tf.constant(programs.arrays(5)[0])
  assert set(loaded.signatures) == {"serving_default", name, "from_examples"}
  for own in ("serving_default", name):
    served = loaded.signatures[own](x=x)["doubled"]
    np.testing.assert_allclose(served, 2 * predicted(estimator, 5), rtol=1e-6)


def test_what_is_served_is_float32_whatever_the_precision(tmp_path):
  def model_fn(features, labels, mode, params):
    y = keras.layers.Dense(1)(features["x"])
    if mode == trainer.ModeKeys.PREDICT:
      return trainer.EstimatorSpec(mode, predictions=y)
    loss = tf.reduce_mean(tf.cast(y, tf.float32))
    return trainer.EstimatorSpec(
      mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.05), loss)
    )

  estimator = programs.estimator(tmp_path / "model", model_fn, precision="bfloat16").train(
    programs.train_input, steps=1
  )
  assert (
    signature(estimator.export_saved_model(tmp_path / "export"))(x=tf.ones([2, 3]))["output"].dtype
    == tf.float32
  )


def test_names_of_a_free_batch():
  specs = {
    "image": tf.TensorSpec([8, 4, 4], tf.float32),
    "more": {"ids": tf.TensorSpec([8], tf.int32)},
  }
  free = served_inputs.free_batch(specs)
  assert free["image"] == tf.TensorSpec([None, 4, 4], tf.float32, "image")
  assert free["more"]["ids"] == tf.TensorSpec([None], tf.int32, "more/ids")
  assert served_inputs.free_batch(tf.TensorSpec([8, 2], tf.int32)) == tf.TensorSpec(
    [None, 2], tf.int32, "features"
  )


def _table(values):
  initializer = tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1], tf.int64), values)
  return tf.lookup.StaticHashTable(initializer, -1.0)


@pytest.mark.parametrize("made", ["inside", "outside"])
def test_tables_are_served(made, tmp_path):
  outside = _table([2.0, 5.0]) if made == "outside" else None

  def model_fn(features, labels, mode, params):
    table = outside or _table([2.0, 5.0])
    x = features["x"][:, 0]
    y = table.lookup(tf.cast(x > 0, tf.int64)) * tf.Variable(1.0, name="w")
    loss = tf.reduce_mean(y)
    return trainer.EstimatorSpec(
      mode,
      predictions={"y": y},
      loss=loss,
      train_op=trainer.minimize(keras.optimizers.SGD(0.0), loss),
    )

  def receive():
    keys = tf.compat.v1.placeholder(tf.string, [None], "key")
    initializer = tf.lookup.KeyValueTensorInitializer(["below", "above"], [-1.0, 1.0])
    x = tf.lookup.StaticHashTable(initializer, 0.0).lookup(keys)
    return {"x": x[:, None]}, {"the key ü": keys}

  estimator = programs.estimator(tmp_path / "model", model_fn)
  estimator.train(programs.train_input, max_steps=1)
  served = signature(estimator.export_saved_model(tmp_path / "raw"))
  assert served(x=tf.constant([[-1.0], [1.0]]))["y"].numpy().tolist() == [2.0, 5.0]
  served = signature(estimator.export_saved_model(tmp_path / "received", receive))
  assert served(the_key=tf.constant(["above", "below"]))["y"].numpy().tolist() == [5.0, 2.0]


def test_a_folder_whose_name_looks_like_a_pattern(trained, tmp_path):
  path = trained.export_saved_model(tmp_path / "a[b]")
  assert os.listdir(tmp_path / "a[b]") == [os.path.basename(path)]


def test_what_killed_exports_left_is_removed(trained, tmp_path):
  (tmp_path / f".writing-1700000000-{test_files.name_of_a_dead_process()}").mkdir()
  path = trained.export_saved_model(tmp_path)
  assert os.listdir(tmp_path) == [os.path.basename(path)]
