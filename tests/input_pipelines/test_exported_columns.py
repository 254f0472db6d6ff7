"""A table and texts as users have them: every client predicts as the Estimator does.

The clients are `trainer.predict`, the server, and TensorFlow alone in a process that cannot import
Octet. The rows have missing values, and categories and words that the training does not know.
"""

import csv
import json
import subprocess
import sys

import keras
import numpy as np
import pytest

import trainer
from input_pipelines import tabular, text_lines
from models import tabular_mlp, transformer_classifier
from trainer.serving import predict as predict_lib
from trainer.serving import predictor, tf_serving

SCHEMA = {"mean age": "number", "job": "category", "year": "number", "won": "label"}
JOBS = ["cook", "smith", "", "007", "7"]
WORDS = ["good", "bad", "film", "!", ",", "été", "not"]
ROWS = 200
BOUND = 1e-6

CLEAN = """
import sys, csv
for name in ("trainer", "octet_trainer", "models", "input_pipelines"):
  sys.modules[name] = None  # an import of it is an error
import numpy as np, tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["from_raw"]
separator = dict(delimiter="\\t", quoting=csv.QUOTE_NONE) if sys.argv[2].endswith("tsv") else {}
rows = list(csv.DictReader(open(sys.argv[2], encoding="utf-8"), **separator))
number = lambda text: float("nan" if text in ("", "NA") else text)
kinds = {"mean_age": number, "year": number, "job": str, "text": str}
given = {
  name: tf.constant([kinds[name](row[name.replace("_", " ")]) for row in rows],
                    tf.string if kinds[name] is str else tf.float64)
  for name in serve.structured_input_signature[1]
}
np.save(sys.argv[3], serve(**given)["probabilities"])
"""


def write_table(path, rows, jobs):
  random = np.random.default_rng(rows)
  lines = ["year,job,mean age,won"]
  for row in range(rows):
    age = "" if row % 5 == 0 else f"{random.uniform(18, 80):.3f}"
    year = "NA" if row % 7 == 3 else random.integers(1990, 2010)
    lines.append(f"{year},{jobs[row % len(jobs)]},{age},{row % 2}")
  path.write_text("\n".join(lines) + "\n", encoding="utf-8")
  return str(path)


def write_texts(path, rows, words):
  random = np.random.default_rng(rows)
  lines = [
    f"{row % 2}\t{' '.join(random.choice(words, row % 7 if row else 3))}" for row in range(rows)
  ]
  path.write_text("\n".join(["label\ttext", *lines]) + "\n", encoding="utf-8")
  return str(path)


def table_case(folder, rows):
  train = write_table(folder / "train.csv", 120, JOBS)
  test = write_table(folder / "test.csv", rows, [*JOBS, "Ärztin", "true"])
  sizes = tabular.vocabulary_sizes(train, SCHEMA)

  def model_fn(features, labels, mode, params):
    settings = dict(classes=2, vocabulary_sizes=sizes, hidden_units=(8,))
    return tabular_mlp.model_fn(
      features, labels, mode, params, optimizer=keras.optimizers.SGD, **settings
    )

  def input_fn(params, training=False):
    return tabular.input_fn(params, train if training else test, train, SCHEMA, training=training)

  return model_fn, input_fn, test


def text_case(folder, rows):
  train = write_texts(folder / "train.tsv", 120, WORDS)
  test = write_texts(folder / "test.tsv", rows, [*WORDS, "GOOD,bad", "Ünknown", '"film"'])
  (folder / "vocabulary.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
  vocabulary = str(folder / "vocabulary.txt")

  def model_fn(features, labels, mode, params):
    settings = dict(vocabulary_file=vocabulary, layers=1, units=8, heads=2)
    return transformer_classifier.model_fn(
      features, labels, mode, params, optimizer=keras.optimizers.SGD, **settings
    )

  def input_fn(params, training=False):
    path = train if training else test
    return text_lines.input_fn(params, path, vocabulary, length=8, training=training)

  return model_fn, input_fn, test


def exported(case, folder, rows):
  """Returns (export, file with the rows, probabilities that the Estimator predicts)."""
  model_fn, input_fn, test = case(folder, rows)
  estimator = trainer.Estimator(
    model_fn,
    str(folder / "model"),
    trainer.RunConfig(device="cpu"),
    train_batch_size=16,
    eval_batch_size=64,
    export_options=trainer.ExportOptions(verify=False),
  )
  estimator.train(lambda params: input_fn(params, training=True), steps=20)
  path = estimator.export_saved_model(folder / "export")
  return path, test, np.stack([each["probabilities"] for each in estimator.predict(input_fn)])


def by_command(path, test, folder):
  assert predict_lib.predict(path, [test], str(folder / "found.jsonl"), engine="tensorflow") == 0
  lines = (folder / "found.jsonl").read_text().splitlines()
  return [json.loads(line)["probabilities"] for line in lines]


def by_server(path, test):
  quoting = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if test.endswith("tsv") else {}
  with open(test, encoding="utf-8") as file:
    rows = list(csv.DictReader(file, **quoting))
  numbers = [name for name in rows[0] if name in ("mean age", "year")]
  for row in rows:
    row.pop("won", row.pop("label", None))
    row.update({name: None if row[name] in ("", "NA") else float(row[name]) for name in numbers})
  body = json.dumps({"signature_name": "from_raw", "instances": rows}).encode()
  loaded = predictor.Predictor(path, "tensorflow").loaded
  call = tf_serving.read_predict(body, loaded)
  answer = call.write(loaded.engines[call.signature].predict_batch(call.features))
  return [each["probabilities"] for each in json.loads(answer)["predictions"]]


@pytest.mark.parametrize("case", [table_case, text_case])
def test_clients_predict_as_the_estimator(case, tmp_path, caplog):
  path, test, expected = exported(case, tmp_path, 30)
  np.testing.assert_allclose(by_command(path, test, tmp_path), expected, atol=BOUND)
  told = [each.getMessage() for each in caplog.records if "set does not have" in each.getMessage()]
  of_table = ["Values that the training set does not have: job 26.7%."]
  assert told == (of_table if case is table_case else [])
  np.testing.assert_allclose(by_server(path, test), expected, atol=BOUND)


@pytest.mark.long
@pytest.mark.parametrize("case", [table_case, text_case])
def test_two_hundred_rows_by_every_client(case, tmp_path):
  path, test, expected = exported(case, tmp_path, ROWS)
  assert len(expected) == ROWS
  np.testing.assert_allclose(by_command(path, test, tmp_path), expected, atol=BOUND)
  np.testing.assert_allclose(by_server(path, test), expected, atol=BOUND)
  output = str(tmp_path / "found.npy")
  subprocess.run([sys.executable, "-c", CLEAN, path, test, output], cwd=tmp_path, check=True)
  np.testing.assert_allclose(np.load(output), expected, atol=BOUND)
