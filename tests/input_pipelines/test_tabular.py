"""Tables: one form whatever the file, and statistics of the training set alone."""

import datetime
import functools

import numpy as np
import pyarrow
import pytest
import tensorflow as tf
from pyarrow import csv, parquet

import trainer
from input_pipelines import table_columns, table_encoder, tabular
from models import tabular_mlp
from trainer import errors
from trainer.inputs import decodable

SCHEMA = {"age": "number", "job": "category", "size": "number", "won": "label"}
TRAIN = {
  "won": [0, 1, 1, 0],
  "age": [20, 30, None, 40],
  "job": ["cook", "smith", None, "cook"],
  "size": [1.5, 1.5, 1.5, 1.5],
}
TEST = {"won": [1, 0], "age": [50, 30], "job": ["baker", "smith"], "size": [2.5, 1.5]}


def write(folder, name, columns, ending="csv"):
  path = folder / f"{name}.{ending}"
  table = pyarrow.table(columns)
  csv.write_csv(table, path) if ending == "csv" else parquet.write_table(table, path)
  return str(path)


def batches(path, training_path, schema=SCHEMA, batch_size=4, **settings):
  params = {"batch_size": batch_size}
  dataset = tabular.input_fn(params, path, training_path, schema, **settings)
  return list(dataset.take(3).as_numpy_iterator())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_by_the_statistics_of_the_training_set(ending, tmp_path):
  train, test = write(tmp_path, "train", TRAIN, ending), write(tmp_path, "test", TEST, ending)
  ((features, labels),) = batches(train, train)
  deviation = np.std([20, 30, 40])
  np.testing.assert_allclose(features["numbers"][:, 0], np.array([-10, 0, 0, 10]) / deviation)
  np.testing.assert_array_equal(features["numbers"][:, 1], np.zeros(4))  # all are equal
  np.testing.assert_array_equal(features["categories"], [[1], [2], [0], [1]])
  np.testing.assert_array_equal(labels, TRAIN["won"])
  assert (features["numbers"].dtype, labels.dtype) == (np.float32, np.int32)

  ((features, labels),) = batches(test, train)
  np.testing.assert_allclose(features["numbers"], [[20 / deviation, 1], [0, 0]], rtol=1e-6)
  np.testing.assert_array_equal(features["categories"], [[0], [2]])  # no baker in the training
  assert tabular.vocabulary_sizes(train, SCHEMA) == (3,)


def test_training_is_endless_and_goes_on_at_its_place(tmp_path):
  train = write(tmp_path, "train", TRAIN)
  tf.random.set_seed(5)
  found = batches(train, train, batch_size=2, training=True)
  assert [labels.shape for _, labels in found] == [(2,)] * 3
  tf.random.set_seed(5)
  later = batches(train, train, batch_size=2, training=True, start=4)
  np.testing.assert_array_equal(later[0][0]["numbers"], found[2][0]["numbers"])


def test_labels_by_their_names_and_a_table_of_categories_alone(tmp_path):
  columns = {"grade": [3, 1, None], "kind": ["b", "a", "b"]}
  train = write(tmp_path, "train", columns)
  schema = {"grade": "category", "kind": "label"}
  ((features, labels),) = batches(train, train, schema, classes=("a", "b"))
  np.testing.assert_array_equal(labels, [1, 0, 1])
  assert set(features) == {"categories"}
  np.testing.assert_array_equal(features["categories"], [[2], [1], [0]])
  with pytest.raises(errors.InputError, match="row 1: the label 'kind' is 'b'; expected one of a"):
    batches(train, train, schema, classes=("a",))


@pytest.mark.parametrize(
  "changed, schema, message",
  [
    ({}, {"weight": "number", "won": "label"}, "has no column 'weight'; it has won, age, job, si"),
    ({}, {"job": "number", "won": "label"}, "row 1: the column 'job' has 'cook'; expected a num"),
    ({"won": [0, 1, None, 0]}, SCHEMA, "row 3: the label 'won' is None; expected an integer"),
    ({"won": [0.5, 1, 1, 0]}, SCHEMA, "row 1: the label 'won' is 0.5; expected an integer"),
    ({"won": [2**31 - 1, 2**32 + 1, 1, 0]}, SCHEMA, "row 2: .* is 4294967297; .* 2,147,483,647 at"),
  ],
)
def test_what_does_not_fit_is_named_with_its_place(changed, schema, message, tmp_path):
  train = write(tmp_path, "train", TRAIN | changed)
  with pytest.raises(errors.InputError, match=rf"train\.csv.*{message}"):
    batches(train, train, schema)


@pytest.mark.parametrize(
  "schema, message",
  [
    ({"age": "float", "won": "label"}, r"schema\['age'\] is 'float': expected one of number"),
    ({}, "these columns: none. Expected one label"),
    ({"age": "number"}, "these columns: 1 of kind number. Expected one label"),
    ({"won": "label"}, "1 of kind label. Expected .* a number, category or date"),
    ({"won": "label", "w": "weight"}, "1 of kind label, 1 of kind weight. Expected"),
    ({"won": "label", "age": "number", "w": "weight", "v": "weight"}, "2 of kind w.* at most one"),
    ({"won": "label", "lost": "label", "age": "number"}, "2 of kind label. Expected one label"),
    ({"won": "label", "sum": "target", "age": "number"}, "1 of kind label, 1 of kind target"),
  ],
)
def test_schemas_that_cannot_work(schema, message):
  with pytest.raises(errors.SettingError, match=message):
    batches("train.csv", "train.csv", schema)


def test_a_column_that_is_there_twice_is_named(tmp_path):
  path = tmp_path / "twice.csv"
  path.write_text("age,age,job,size,won\n1,2,cook,3,0\n")
  with pytest.raises(errors.InputError, match=r"twice\.csv has several columns 'age'"):
    batches(str(path), str(path))


SOLD = {"size": [1, 2, 3], "price": [1.5, 2.5, 5.0], "days": [3, 9, 6]}
PREDICTS = {"size": "number", "price": "target", "days": "target"}


def test_targets_are_numbers_as_the_table_has_them(tmp_path):
  train = write(tmp_path, "train", SOLD)
  ((_, labels),) = batches(train, train, {"size": "number", "price": "target"})
  np.testing.assert_array_equal(labels, np.float32(SOLD["price"]))
  ((_, labels),) = batches(train, train, PREDICTS)
  np.testing.assert_array_equal(labels, np.float32([SOLD["price"], SOLD["days"]]).T)
  assert labels.dtype == np.float32
  means, deviations = tabular.target_statistics(train, PREDICTS)
  np.testing.assert_allclose(means, [3.0, 6.0])
  np.testing.assert_allclose(deviations, np.std([SOLD["price"], SOLD["days"]], 1))


def test_statistics_of_targets_can_always_be_divided_by(tmp_path):
  train = write(tmp_path, "train", SOLD | {"price": [2, 2, 2]})
  assert tabular.target_statistics(train, {"size": "number", "price": "target"})[1] == (1.0,)
  with pytest.raises(errors.SettingError, match='no column of kind "target"'):
    tabular.target_statistics(train, {"size": "number", "days": "label"})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tags_are_zeros_and_ones(ending, tmp_path):
  columns = {"size": [1, 2, 3], "red": [True, False, True], "old": [0, 1, 1]}
  train = write(tmp_path, "train", columns, ending)
  ((_, labels),) = batches(train, train, {"size": "number", "red": "tag", "old": "tag"})
  np.testing.assert_array_equal(labels, [[1, 0], [0, 1], [1, 1]])
  assert labels.dtype == np.int32


@pytest.mark.parametrize(
  "changed, schema, message",
  [
    ({"days": [3, None, 6]}, PREDICTS, "row 2: the target 'days' is nan; expected a finite"),
    ({"days": ["3", "x", "6"]}, PREDICTS, "row 2: the column 'days' has 'x'; expected a number"),
    ({"days": [1, 0, 2]}, {"size": "number", "days": "tag"}, "row 3: the tag 'days' is 2; exp"),
    ({"days": [1, None, 0]}, {"size": "number", "days": "tag"}, "row 2: the tag 'days' is None"),
  ],
)
def test_targets_and_tags_that_are_none(changed, schema, message, tmp_path):
  train = write(tmp_path, "train", SOLD | changed)
  with pytest.raises(errors.InputError, match=rf"train\.csv, {message}"):
    batches(train, train, schema)


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "broken.parquet", "a.xls"])
def test_files_that_cannot_be_read(name, tmp_path):
  (tmp_path / "broken.parquet").write_text("PAR")
  with pytest.raises(errors.InputError, match=name):
    batches(str(tmp_path / name), str(tmp_path / name))


def test_csv_texts_are_categories_exactly_as_written(tmp_path):
  (tmp_path / "train.csv").write_text("zip,won\n007,1\n7,0\ntrue,1\n,0\n")
  train = str(tmp_path / "train.csv")
  ((features, _),) = batches(train, train, {"zip": "category", "won": "label"})
  np.testing.assert_array_equal(features["categories"], [[1], [2], [3], [0]])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_features_are_made_of_the_columns_that_users_have(ending, tmp_path):
  train, test = write(tmp_path, "train", TRAIN, ending), write(tmp_path, "test", TEST, ending)
  for path in (train, test):
    dataset = tabular.input_fn({"batch_size": 4}, path, train, SCHEMA)
    raw = decodable.raw_of(dataset)
    assert raw.optional == {"age", "job", "size"}
    made = raw.to_features({name: tf.constant(values) for name, values in raw.examples.items()})
    ((features, _),) = list(dataset.as_numpy_iterator())
    for name, values in features.items():
      np.testing.assert_array_equal(made[name], values)


def test_no_category_is_known(tmp_path):
  train = write(tmp_path, "train", {"job": pyarrow.array([None, None], "string"), "won": [0, 1]})
  ((features, _),) = batches(train, train, {"job": "category", "won": "label"})
  np.testing.assert_array_equal(features["categories"], [[0], [0]])


def test_a_column_has_the_weights_of_the_rows(tmp_path):
  train = write(tmp_path, "train", TRAIN | {"w": [0.5, 2, 0, 1]})
  schema = SCHEMA | {"w": "weight"}
  (found,) = batches(train, train, schema)
  np.testing.assert_array_equal(found[2], [0.5, 2, 0, 1])
  ((features, _),) = batches(train, train)
  assert found[0].keys() == features.keys()
  for wrong in (-1.0, None):
    train = write(tmp_path, f"wrong{wrong}", TRAIN | {"w": [0.5, wrong, 0, 1]})
    with pytest.raises(errors.InputError, match="row 2: the weight 'w' is .*at least 0"):
      batches(train, train, schema)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_whole_number_is_one_category_in_every_form(ending, tmp_path):
  schema = {"month": "category", "won": "label"}
  months = ["11", " 2", "007", "3.10", "1.5", "NA"]
  train = write(tmp_path, "train", {"month": months, "won": [0] * 6})  # texts
  test = {"month": pyarrow.array([11, 2, 1.5, 7, None]), "won": [0] * 5}  # floats, as of pandas
  test = write(tmp_path, "test", test, ending)
  dataset = tabular.input_fn({"batch_size": 5}, test, train, schema)
  ((features, _),) = list(dataset.as_numpy_iterator())
  assert tabular._encoder(train, tuple(schema.items())).vocabularies["month"] == (
    *("007", "1.5", "11", "2", "3.10", "NA"),
  )
  np.testing.assert_array_equal(features["categories"], [[3], [4], [2], [0], [0]])
  raw = decodable.raw_of(dataset)
  assert raw.gaps["month"] == {"missing": 0.2, "missing in training": 0.0, "unknown": 0.2}
  assert raw.describe_gaps() == ("month 20.0% unknown, 20.0% missing (0.0% in training)", True)
  asked = ["11.0", " 11.", "2.00 ", "7", "3.1", "3.10"]
  (made,) = raw.to_features({"month": tf.constant(asked)}).values()
  np.testing.assert_array_equal(made, [[3], [3], [4], [0], [0], [5]])


def test_missing_values_within_chance_are_no_warning(tmp_path):
  schema = {"age": "number", "won": "label"}
  ages = [None if number % 10 == 0 else number for number in range(100)]
  train = write(tmp_path, "train", {"age": ages, "won": [0] * 100})
  for count, exceed in ((12, False), (30, True)):
    ages = [None] * count + list(range(100 - count))
    test = write(tmp_path, f"test{count}", {"age": ages, "won": [0] * 100})
    raw = decodable.raw_of(tabular.input_fn({"batch_size": 5}, test, train, schema))
    assert raw.describe_gaps() == (f"age {count}.0% missing (10.0% in training)", exceed)


def test_an_evaluation_warns_of_what_the_training_does_not_know(tmp_path, caplog):
  train, test = write(tmp_path, "train", TRAIN), write(tmp_path, "test", TEST)
  estimator = trainer.Estimator(
    functools.partial(tabular_mlp.model_fn, classes=2, vocabulary_sizes=(3,)),
    str(tmp_path / "run"),
    trainer.RunConfig(device="cpu"),
    train_batch_size=2,
    eval_batch_size=2,
  )
  estimator.train(
    lambda params: tabular.input_fn(params, train, train, SCHEMA, training=True), steps=1
  )
  assert "unknown" not in caplog.text
  for _ in range(2):
    estimator.evaluate(lambda params: tabular.input_fn(params, test, train, SCHEMA))
  (told,) = [each for each in caplog.records if "nknown" in each.getMessage()]
  assert told.getMessage().endswith(": job 50.0% unknown.")
  assert told.levelname == "WARNING"


@pytest.mark.parametrize("value", [0.1, -7.3, 1e9 + 0.1])
@pytest.mark.parametrize("count", [2, 3, 7, 1000])
def test_a_constant_column_keeps_its_scale(value, count, tmp_path):
  schema = {"a": "number", "price": "target"}
  columns = {"a": [value] * count, "price": [value] * count}
  train = write(tmp_path, "train", columns)
  test = write(tmp_path, "test", {"a": [value, value + 1], "price": [0.0, 0.0]})
  for path, expected in ((train, [0] * 2), (test, [0, 1])):
    found = batches(path, train, schema)[0][0]["numbers"][:2, 0]
    np.testing.assert_allclose(found, expected, atol=1e-6)
  assert tabular.target_statistics(train, schema)[1] == (1.0,)


def test_a_file_that_is_written_anew_is_read_anew(tmp_path):
  for values in ([1.0, 2.0, 3.0], [10.0, 20.0, 60.0]):
    train = write(tmp_path, "train", {"a": values, "won": [0, 1, 1]})
    ((features, _),) = batches(train, train, {"a": "number", "won": "label"})
    expected = (np.array(values) - np.mean(values)) / np.std(values)
    np.testing.assert_allclose(features["numbers"][:, 0], expected, rtol=1e-6)


DAYS = ["2024-02-29", "1969-12-31 18:00:00", None, "2000-01-01T06:30:15.5Z"]


def test_a_date_is_its_day_and_the_turns_of_year_week_and_day(tmp_path):
  numbers = table_encoder.date_numbers(tf.constant([day or "" for day in DAYS])).numpy()
  epoch, day = datetime.datetime(1970, 1, 1), datetime.timedelta(days=1)
  days = [(time - epoch) / day for time in times() if time]
  np.testing.assert_allclose(numbers[[0, 1, 3], 0], days, rtol=1e-12)
  turns = np.arctan2(numbers[:, 1::2], numbers[:, 2::2]) / 2 / np.pi % 1
  np.testing.assert_allclose(turns[[0, 1, 3], 1], [3 / 7, 2.75 / 7, (5 + days[2] % 1) / 7])
  np.testing.assert_allclose(turns[[1, 3], 2], [0.75, days[2] % 1])
  assert turns[1, 0] > 0.999
  assert turns[0, 0] == pytest.approx(59.5 / 365.2425, abs=3e-3)
  assert np.isnan(numbers[2]).all()
  assert (numbers[0, 5:] == [0, 1]).all()  # exactly: a constant of dates without a time


def times():
  """The DAYS as Python's objects."""
  return [datetime.datetime.fromisoformat(day.rstrip("Z")) if day else None for day in DAYS]


@pytest.mark.parametrize(
  "kind", [None, pyarrow.string(), pyarrow.timestamp("us"), pyarrow.timestamp("ms", "UTC")]
)
def test_dates_are_the_same_features_from_every_file(kind, tmp_path):
  schema = {"day": "date", "size": "number", "won": "label"}
  is_text = kind in (None, pyarrow.string())
  days = pyarrow.array(DAYS if is_text else times(), None if is_text else kind)
  columns = {"day": days, "size": [1, 2, 3, 4], "won": [0, 1, 0, 1]}
  path = write(tmp_path, "days", columns, "csv" if kind is None else "parquet")
  dataset = tabular.input_fn({"batch_size": 4}, path, path, schema)
  ((features, _),) = list(dataset.as_numpy_iterator())
  raw = decodable.raw_of(dataset)
  made = raw.to_features({name: tf.constant(values) for name, values in raw.examples.items()})
  np.testing.assert_array_equal(made["numbers"], features["numbers"])
  assert features["numbers"].shape == (4, 8)
  np.testing.assert_array_equal(features["numbers"][2, 1:], np.zeros(7))  # missing: the means
  known = features["numbers"][[0, 1, 3], 1:]
  np.testing.assert_allclose(known.mean(0), np.zeros(7), atol=1e-6)
  np.testing.assert_allclose(known.std(0), np.ones(7), rtol=1e-6)


def test_the_last_days_of_months_are_dates():
  days = ["2000-02-29", "2024-02-29", "2023-02-28", *(f"2023-{month:02d}-30" for month in (4, 6))]
  found = table_encoder.date_numbers(tf.constant(days)).numpy()[:, 0]
  epoch = datetime.date(1970, 1, 1)
  expected = [(datetime.date.fromisoformat(day) - epoch).days for day in days]
  np.testing.assert_array_equal(found, expected)


def test_what_is_no_date_is_told(tmp_path):
  schema = {"day": "date", "won": "label"}
  for wrong in ("31.12.2024", "2024-13-01", "2023-02-29", "1900-02-29", "2024-04-31"):
    train = write(tmp_path, f"train{wrong}", {"day": ["2024-01-01", wrong], "won": [0, 1]})
    with pytest.raises(errors.InputError, match=f"row 2: the column 'day' has '{wrong}'; expected"):
      batches(train, train, schema)
    with pytest.raises(tf.errors.InvalidArgumentError, match=wrong):  # within an export
      table_encoder.date_numbers(tf.constant([wrong]))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_takes_little_memory(ending, tmp_path):
  texts = [f"an airport with a long name {number % 50}" for number in range(5000)]
  path = write(tmp_path, "train", {"a": texts, "b": texts, "won": [0] * 5000}, ending)
  table = table_columns.read(path, ("a",), texts=("a",))
  assert list(table) == ["a"]
  assert table["a"].nbytes < 5000 * 5
