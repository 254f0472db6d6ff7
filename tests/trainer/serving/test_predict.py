"""Files in, predictions out: the exact number, in order, and nothing left out in silence."""

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.trainer import programs
from tests.trainer.serving import exported as exported_lib
from trainer import errors
from trainer.outputs import checks
from trainer.serving import predict as predict_lib


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
  return exported_lib.make(tmp_path_factory.mktemp("predict"))[1]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
  """(a folder of 11 images, their names in order): the fifth is cut off."""
  folder = tmp_path_factory.mktemp("photos")
  (folder / "more").mkdir()
  names = []
  for number in range(11):
    name = f"{'more/' if number > 6 else ''}{number:02d}.png"
    content = exported_lib.png(number, (6 + number, 9))
    (folder / name).write_bytes(content[:60] if number == 4 else content)
    names.append(str(folder / name))
  (folder / "notes.txt").write_text("no image")
  return folder, names


def run(saved_model, inputs, output, **settings):
  settings = {"engine": "tensorflow", "batch_size": 3, **settings}
  inputs = [str(path) for path in (inputs if isinstance(inputs, list) else [inputs])]
  return predict_lib.predict(os.path.dirname(saved_model), inputs, str(output), **settings)


def lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def wanted(saved_model, files):
  """What the SavedModel itself says of encoded files."""
  served = tf.saved_model.load(saved_model).signatures["from_bytes"](image=tf.constant(files))
  return {name: tensor.numpy() for name, tensor in served.items()}


def test_a_folder_of_images(saved_model, photos, tmp_path):
  folder, names = photos
  assert run(saved_model, folder, tmp_path / "found.jsonl") == 1
  found = lines(tmp_path / "found.jsonl")
  assert [entry["input"] for entry in found] == names
  bad = found.pop(4)
  assert set(bad) == {"input", "error"}
  assert bad["error"].startswith("The decoder fails")
  files = [open(name, "rb").read() for name in names if not name.endswith("04.png")]  # noqa: SIM115
  expected = wanted(saved_model, files)
  assert [entry["class"] for entry in found] == expected["class"].tolist()
  np.testing.assert_allclose(
    [entry["probabilities"] for entry in found], expected["probabilities"], atol=1e-6
  )
  assert all(entry["class_name"] == exported_lib.NAMES[entry["class"]] for entry in found)


def test_what_is_accepted_when_it_shall_keep_going(saved_model, photos, tmp_path):
  assert run(saved_model, photos[0], tmp_path / "found.csv", keep_going=True) == 0
  with open(tmp_path / "found.csv") as file:
    rows = list(csv.DictReader(file))
  assert len(rows) == 11
  assert [bool(row["error"]) for row in rows] == [number == 4 for number in range(11)]
  assert rows[0]["class_name"] in exported_lib.NAMES
  shares = float(rows[0]["probabilities_0"]) + float(rows[0]["probabilities_1"])
  assert shares == pytest.approx(1, abs=1e-5)


def test_globs_and_several_inputs_keep_their_order(saved_model, photos, tmp_path):
  folder, names = photos
  inputs = [folder / "more" / "*.png", folder / "00.png"]
  assert run(saved_model, inputs, tmp_path / "found.jsonl", batch_size=128) == 0
  assert [entry["input"] for entry in lines(tmp_path / "found.jsonl")] == [*names[7:], names[0]]


def test_records(saved_model, photos, tmp_path):
  path = tmp_path / "some.tfrecord"
  files = [exported_lib.png(number) for number in range(4)]
  with tf.io.TFRecordWriter(str(path)) as writer:
    for file in files:
      writer.write(checks.serialise({"image": file, "label": np.int64(1)}))
    writer.write(checks.serialise({"picture": files[0]}))
    writer.write(b"\xff")
  content = path.read_bytes()
  (tmp_path / "cut.tfrecord").write_bytes(content[:-70])
  assert run(saved_model, [path, tmp_path / "cut.tfrecord"], tmp_path / "found.jsonl") == 1
  found = lines(tmp_path / "found.jsonl")
  assert [entry["input"] for entry in found[:6]] == [f"{path}: record {n}" for n in range(6)]
  assert [entry["class"] for entry in found[:4]] == wanted(saved_model, files)["class"].tolist()
  assert found[4]["error"] == "it has no feature 'image'; it has picture."
  assert "it is no tf.train.Example" in found[5]["error"]
  assert "the rest of this file is lost" in found[-1]["error"]


def test_json_lines_have_paths_or_numbers(saved_model, photos, tmp_path):
  numbers = np.random.RandomState(1).rand(*exported_lib.SHAPE)
  (tmp_path / "a.png").write_bytes(exported_lib.png(1))
  rows = [
    {"image": "a.png"},
    {"image": photos[1][0], "more": 1},
    {"image": numbers.tolist()},
    {"image": [1, 2]},
    {"picture": 1},
    [1],
    {"image": "b.png"},
  ]
  text = "\n".join(map(json.dumps, rows)) + "\n{\n" + "[" * 200_000 + "\n"
  (tmp_path / "rows.jsonl").write_text(text)
  assert run(saved_model, tmp_path / "rows.jsonl", tmp_path / "found.jsonl", batch_size=20) == 1
  found = lines(tmp_path / "found.jsonl")
  assert [entry.get("class") is not None for entry in found] == [True] * 3 + [False] * 6
  reasons = [entry["error"] for entry in found[3:]]
  for reason, part in zip(
    reasons,
    [
      "its shape is [1, 2]",
      "no 'image'; there is picture",
      "the line is damaged (it is [1], expected a dict): expected a JSON object",
      "Cannot read ",
      "the line is damaged",
      "too many brackets within brackets",
    ],
    strict=True,
  ):
    assert part in reason


@pytest.fixture(scope="module")
def line_model(tmp_path_factory):
  folder = tmp_path_factory.mktemp("line")
  estimator = programs.estimator(folder / "model").train(programs.train_input, steps=3)
  path = estimator.export_saved_model(folder / "export")
  x = programs.arrays(4)[0]
  return path, x, tf.saved_model.load(path).signatures["serving_default"](x=x)["y"].numpy()


def test_columns_of_csv(line_model, tmp_path):
  path, x, y = line_model
  (tmp_path / "columns.csv").write_text(
    "x_0,x_1,x_2\n" + "".join(",".join(map(str, row)) + "\n" for row in x.tolist()) + "1,2,a\n"
  )
  (tmp_path / "cells.tsv").write_text(
    "x\tmore\n" + "".join(f"{json.dumps(row)}\t1\n" for row in x.tolist())
  )
  inputs = [tmp_path / "columns.csv", tmp_path / "cells.tsv"]
  assert run(path, inputs, tmp_path / "found.jsonl") == 1
  found = lines(tmp_path / "found.jsonl")
  assert found[4]["input"].endswith("columns.csv, line 6")
  assert "another value than a number" in found.pop(4)["error"]
  np.testing.assert_allclose([entry["y"] for entry in found], [*y, *y], rtol=1e-5)


def test_standard_input_and_output(saved_model, photos, monkeypatch, capsys):
  monkeypatch.setattr(
    sys, "stdin", io.StringIO(f"{photos[1][0]}\n\n" + json.dumps({"image": photos[1][1]}) + "\n")
  )
  assert run(saved_model, "-", "-") == 0
  found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [entry["input"] for entry in found] == [photos[1][0], "standard input, line 3"]


@pytest.mark.parametrize(
  ("inputs", "output", "message"),
  [
    ("nowhere/*.png", "x.jsonl", r"There is no file nowhere/\*.png \(--input\)"),
    ("tests", "x.jsonl", "has no images"),
    ("setup.py", "x.txt", "--output=.*x.txt: expected a name that ends in .jsonl, .csv"),
    (["-", "setup.py"], "x.jsonl", "excludes any other --input"),
    ([], "x.jsonl", "No --input"),
  ],
)
def test_mistakes_write_nothing(inputs, output, message, saved_model, tmp_path):
  with pytest.raises(errors.OctetError, match=message):
    run(saved_model, inputs, tmp_path / output)
  assert not list(tmp_path.iterdir())


def test_an_input_is_not_replaced_by_its_predictions(line_model, tmp_path, monkeypatch):
  path = tmp_path / "a.csv"
  path.write_text("x\n1\n")
  monkeypatch.chdir(tmp_path)
  with pytest.raises(errors.SettingError, match="--output=./a.csv is a file of --input"):
    run(line_model[0], str(tmp_path / "*.csv"), "./a.csv")
  assert path.read_text() == "x\n1\n"


def test_images_for_a_model_that_takes_none(line_model, photos, tmp_path):
  with pytest.raises(errors.SettingError, match="the model takes x; it decodes nothing"):
    run(line_model[0], photos[0], tmp_path / "found.jsonl")


def test_files_of_no_known_kind_have_an_entry(saved_model, photos, tmp_path):
  inputs = [photos[0] / "notes.txt", photos[1][0]]
  assert run(saved_model, inputs, tmp_path / "found.jsonl") == 1
  assert "unknown kind of file" in lines(tmp_path / "found.jsonl")[0]["error"]


@pytest.mark.long
def test_the_command_leaves_with_what_it_says(tmp_path):
  done = subprocess.run(
    [sys.executable, "-m", "trainer.predict", "--input=a.png"],
    capture_output=True,
    text=True,
    timeout=200,
    check=False,
  )
  assert done.returncode == 2
  assert "No --export" in done.stderr
