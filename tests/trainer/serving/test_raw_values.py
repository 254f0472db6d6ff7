"""Exports that take what users have: columns of a table, with missing values, and texts."""

import json
import os

import numpy as np
import pyarrow
import pytest
import tensorflow as tf
from pyarrow import parquet

import trainer
from tests.trainer.outputs import test_preprocessing as model
from trainer import errors
from trainer.outputs import checks
from trainer.serving import examples, predictor, raw_values, tf_serving
from trainer.serving import features as features_lib
from trainer.serving import predict as predict_lib

AGES, JOBS = np.array([20.0, np.nan, 40.0, 30.0]), ["cook", "", "smith", "cook"]
COLUMNS = {"mean age": AGES, "job": JOBS}


def to_features(columns):
  """One for a missing age, and the lengths of jobs."""
  age = columns["mean age"]
  known = tf.where(tf.math.is_nan(age), 30.0 * tf.ones_like(age), age)
  lengths = tf.strings.length(columns["job"])
  return {"values": tf.cast(tf.stack([known / 10, tf.cast(lengths, tf.float64)], -1), tf.float32)}


def model_fn(features, labels, mode, params):
  weights = tf.constant([[0.5, -0.25], [0.125, 0.25]])
  logits = features["values"] @ tf.Variable(weights, name="weights")
  predictions = {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
  loss = tf.reduce_mean(logits)
  return trainer.EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=tf.no_op())


def input_fn(params, mark=trainer.mark_raw, **settings):
  columns = {"mean age": tf.constant(AGES), "job": tf.constant(JOBS)}
  dataset = tf.data.Dataset.from_tensors((to_features(columns), tf.zeros([4]))).repeat(2)
  return mark(dataset, COLUMNS, to_features, **{"optional": ["mean age", "job"], **settings})


def export(folder, input_fn_=input_fn, **options):
  options = {"class_names": ["no", "yes"], "warm_up_batches": (1,), "verify": False, **options}
  estimator = trainer.Estimator(
    model_fn,
    str(folder / "model"),
    trainer.RunConfig(device="cpu"),
    train_batch_size=4,
    export_options=trainer.ExportOptions(**options),
  )
  estimator.train(input_fn_, steps=1)
  return estimator.export_saved_model(folder / "export")


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
  return export(tmp_path_factory.mktemp("raw"), verify=True)


@pytest.fixture(scope="module")
def loaded(saved_model):
  return predictor.Predictor(saved_model, "tensorflow", batch_sizes=(4,)).loaded


def wanted(ages, jobs):
  columns = {"mean age": tf.constant(ages, tf.float64), "job": tf.constant(jobs)}
  weights = [[0.5, -0.25], [0.125, 0.25]]
  return tf.nn.softmax(to_features(columns)["values"] @ weights).numpy()


def test_the_signature_and_what_is_told_of_it(saved_model, loaded):
  serve = tf.saved_model.load(saved_model).signatures["from_raw"]
  found = serve(mean_age=tf.constant(AGES), job=tf.constant(JOBS))["probabilities"]
  np.testing.assert_allclose(found, wanted(AGES, JOBS), atol=1e-6)
  assert {name: (each["input"], each["optional"]) for name, each in loaded.raw.items()} == {
    "mean age": ("mean_age", True),
    "job": ("job", True),
  }
  assert set(loaded.description["verified"]) == {
    "serving_default",
    "from_raw",
    "from_examples",
    "classify",
  }


def test_examples_may_lack_what_may_be_missing(saved_model):
  serve = tf.saved_model.load(saved_model).signatures["from_examples"]
  examples = [{"mean age": 20.0, "job": b"cook"}, {"job": b"smith"}, {"mean age": 40.0}]
  found = serve(examples=tf.constant([checks.serialise(each) for each in examples]))
  expected = wanted([20.0, np.nan, 40.0], ["cook", "smith", ""])
  np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)


FILES = {
  "a.csv": "\ufeffjob,no,mean age\ncook,1,20\n,2,NA\nsmith,3,true\n7,4,\n",
  "a.tsv": "mean age\tjob\n20\tcook\n\t\n1\tsmith\nnan\t7\n",
  "a.jsonl": '{"mean age": 20, "job": "cook"}\n{"mean age": null, "job": null}\n'
  '{"mean age": 1.0, "job": "smith", "more": {}}\n{"mean age": null, "job": 7}\n',
}


@pytest.mark.parametrize("name", [*FILES, "features.jsonl", "a.tfrecord", "a.parquet"])
def test_files(name, saved_model, tmp_path):
  expected = wanted([20.0, np.nan, 1.0, np.nan], ["cook", "", "smith", "7"])
  path = tmp_path / name
  if name == "a.tfrecord":
    rows = [{"mean age": 20.0, "job": b"cook"}, {}, {"mean age": 1, "job": b"smith"}, {"job": b"7"}]
    with tf.io.TFRecordWriter(str(path)) as writer:
      for row in rows:
        writer.write(checks.serialise(row))
  elif name == "a.parquet":
    jobs, ages = ["cook", None, "smith", "7"], [20.0, None, 1.0, float("nan")]
    parquet.write_table(pyarrow.table({"mean age": ages, "job": jobs}), path)
  elif name == "features.jsonl":  # beside columns: the features are taken as before
    path.write_text('{"values": [2, 4]}\n{"mean age": null, "job": ""}\n{"values": [0.1, 5]}\n')
    expected = wanted([20.0, np.nan, 1.0], ["cook", "", "smith"])
  else:
    path.write_text(FILES[name])
  output = tmp_path / "found.jsonl"
  assert predict_lib.predict(saved_model, [str(path)], str(output), engine="tensorflow") == 0
  found = [json.loads(line)["probabilities"] for line in output.read_text().splitlines()]
  np.testing.assert_allclose(found, expected, atol=1e-6)


def test_missing_cells_are_reported_with_user_column_names(saved_model, tmp_path):
  path, output = tmp_path / "bad.csv", tmp_path / "found.jsonl"
  path.write_text("mean age,job\nold,cook\n20\n30,smith\n")
  assert predict_lib.predict(saved_model, [str(path)], str(output), engine="tensorflow") == 1
  first, second, third = map(json.loads, output.read_text().splitlines())
  assert first["error"] == "'mean age': 'old' is no number"
  assert second["error"] == "'job': the line has too few cells"
  np.testing.assert_allclose(third["probabilities"], wanted([30.0], ["smith"])[0], atol=1e-6)
  path.write_text("age,job\n20,cook\n")
  assert predict_lib.predict(saved_model, [str(path)], str(output), engine="tensorflow") == 1
  assert json.loads(output.read_text())["error"] == "no 'mean age'; there is age, job"


@pytest.mark.parametrize("age", ["mean age", "mean_age"])
def test_requests(age, loaded):
  rows = [{age: 20, "job": "cook"}, {age: None, "job": 7}]
  body = {"signature_name": "from_raw", "instances": rows}
  request = tf_serving.read_predict(json.dumps(body).encode(), loaded)
  found = loaded.engines[request.signature].predict_batch(request.features)
  expected = wanted([20.0, np.nan], ["cook", "7"])
  np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6)
  classified = tf_serving.read_classify(json.dumps({"examples": rows}).encode(), loaded)
  assert classified.signature == "from_raw"
  np.testing.assert_array_equal(classified.features["job"], ["cook", "7"])


@pytest.mark.parametrize(
  ("row", "message"),
  [
    ({"mean age": "old", "job": "cook"}, "'mean_age' must be float64"),
    ({"mean age": 1}, "The model takes job, mean_age; 'job' is missing. A missing value is null."),
    ({"mean age": 1, "job": "a", "jobs": 1}, "it knows no 'jobs'"),
    ({"mean age": float("inf"), "job": "a"}, "'mean_age' is inf at .0.: expected finite numbers"),
  ],
)
def test_requests_that_cannot_be_used(row, message, loaded):
  body = json.dumps({"signature_name": "from_raw", "instances": [row]}).encode()
  with pytest.raises(errors.InputError, match=message):
    tf_serving.read_predict(body, loaded)


def test_columns_for_another_signature(loaded):
  with pytest.raises(errors.InputError, match="Its signature from_raw takes mean age, job"):
    tf_serving.read_predict(b'{"instances": [{"mean age": 20, "job": "cook"}]}', loaded)


def test_a_text_that_must_be_there(tmp_path):
  saved = export(tmp_path, lambda params: input_fn(params, optional=["mean age"]))
  loaded = predictor.Predictor(saved, "tensorflow").loaded
  with pytest.raises(errors.InputError, match="'job' is missing"):
    features_lib.features_of([{"mean age": 1.0, "job": None}], loaded)


def test_without_the_signature(tmp_path):
  saved = export(tmp_path, decoders={})
  loaded = predictor.Predictor(saved, "tensorflow").loaded
  assert "from_raw" not in loaded.description["signatures"]
  assert loaded.raw == {}


def test_a_signature_of_the_models_own_takes_precedence(tmp_path):
  def own(features, labels, mode, params):
    spec = model_fn(features, labels, mode, params)
    outputs = {"serving_default": spec.predictions, "from_raw": {"doubled": features["values"] * 2}}
    return trainer.EstimatorSpec(
      mode,
      predictions=spec.predictions,
      loss=spec.loss,
      train_op=tf.no_op(),
      export_outputs=outputs,
    )

  estimator = trainer.Estimator(
    own, str(tmp_path / "model"), trainer.RunConfig(device="cpu"), train_batch_size=4
  )
  estimator.train(input_fn, steps=1)
  saved = estimator.export_saved_model(tmp_path / "export")
  found = predictor.Predictor(saved, "tensorflow")
  doubled = found.predict_batch({"values": [[1.0, 2.0]]}, signature="from_raw")["doubled"]
  np.testing.assert_array_equal(doubled, [[2.0, 4.0]])
  assert found.loaded.raw == {}


def test_the_function_may_make_a_table(tmp_path):
  """Its text has one feature, by a table that no object but the function's trace knows."""

  def job_numbers(columns):
    numbers = tf.lookup.KeyValueTensorInitializer(["nurse", "cook"], [1.0, 2.0])
    number = tf.lookup.StaticHashTable(numbers, 0.0).lookup(columns["job"])
    return {"values": tf.stack([number, tf.zeros_like(number)], 1)}

  jobs = {"job": ["cook", "nurse", "cook", "none"]}

  def marked(params):
    features = job_numbers({"job": tf.constant(jobs["job"])})
    dataset = tf.data.Dataset.from_tensors((features, tf.zeros([4]))).repeat(2)
    return trainer.mark_raw(dataset, jobs, job_numbers)

  saved = export(tmp_path, marked, verify=True)
  loaded = predictor.Predictor(saved, "tensorflow").loaded
  found = loaded.preprocess({"job": np.array([b"nurse", b"else", b"cook"], object)})
  np.testing.assert_array_equal(found["values"], [[1, 0], [0, 0], [2, 0]])


def test_a_text_that_the_function_refuses_is_one_error(tmp_path):
  days = {"day": ["2024-05-31", "2024-06-01", "2023-01-01", "2024-12-31"]}

  def years(columns):
    year = tf.strings.to_number(tf.strings.regex_replace(columns["day"], "-.*", ""))
    return {"values": tf.stack([year, tf.zeros_like(year)], 1)}

  def marked(params):
    features = years({"day": tf.constant(days["day"])})
    dataset = tf.data.Dataset.from_tensors((features, tf.zeros([4]))).repeat(2)
    return trainer.mark_raw(dataset, days, years)

  saved = export(tmp_path, marked)
  model = predictor.Predictor(saved, "tensorflow")
  with pytest.raises(errors.InputError, match="The columns do not fit: [^:]*: 31/05/2024$"):
    model.predict_batch({"day": ["31/05/2024"]}, signature="from_raw")
  table, output = tmp_path / "days.csv", tmp_path / "found.jsonl"
  table.write_text("day\n2024-05-31\n31/05/2024\n2023-01-01\n")
  assert predict_lib.predict(saved, [str(table)], str(output), engine="tensorflow") == 1
  first, second, third = map(json.loads, output.read_text().splitlines())
  assert second["error"].endswith("could not correctly convert string: 31/05/2024")
  assert ["class" in each for each in (first, third)] == [True, True]


@pytest.mark.parametrize(
  ("examples", "function", "message"),
  [
    (COLUMNS, lambda columns: {"values": tf.zeros([4, 3])}, "to_features gives .*the model takes"),
    (COLUMNS, lambda columns: columns["job"], "to_features gives .*the model takes"),
    (COLUMNS | {"mean_age": AGES}, to_features, "two of these names are equal"),
  ],
)
def test_functions_that_do_not_fit(examples, function, message, tmp_path):
  def marked(params):
    return input_fn(params, lambda dataset, *_, **__: trainer.mark_raw(dataset, examples, function))

  with pytest.raises(errors.SettingError, match=message):
    export(tmp_path, marked)
  assert not os.path.exists(tmp_path / "export") or not os.listdir(tmp_path / "export")


@pytest.mark.parametrize(
  ("examples", "function", "optional"),
  [
    ({}, to_features, ()),
    (COLUMNS, None, ()),
    (COLUMNS, to_features, ("size",)),
    ({"x": 3.0}, to_features, ()),
    ({"x": []}, to_features, ()),
    ({"x": [1j]}, to_features, ()),
  ],
)
def test_marks_that_cannot_be(examples, function, optional):
  with pytest.raises(errors.SettingError, match="mark_raw"):
    trainer.mark_raw(tf.data.Dataset.range(2), examples, function, optional)


def test_images_are_not_touched(tmp_path):
  estimator = model.make_estimator(tmp_path / "model")
  estimator.train(model.input_fn, steps=1)
  loaded = predictor.Predictor(estimator.export_saved_model(tmp_path / "e"), "tensorflow").loaded
  assert (loaded.raw, loaded.for_users) == ({}, "from_bytes")


def test_texts_that_the_training_does_not_know_are_counted():
  raw = {"month": {"known": ["11", "007", "etc"]}, "day": {}}
  unknown = raw_values.Unknown(raw)
  values = ["11", 11.0, " 11.00 ", "007", None, "", "7", "etc.", "1.1"]
  rows = [examples.Example("", {"month": value, "day": "x"}) for value in values]
  assert list(unknown.watch(rows)) == rows
  assert unknown.counts == {"month": 3}
