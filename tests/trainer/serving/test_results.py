"""Files of predictions: an entry for each example, and whole files or none."""

import csv
import json
import types

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.serving import results


def model(class_names=None, decoders=("image",), **shapes):
  """A model with outputs of these shapes."""
  outputs = {name: {"dtype": "float32", "shape": shape} for name, shape in shapes.items()}
  return types.SimpleNamespace(
    outputs=outputs, class_names=class_names, decoders=dict.fromkeys(decoders)
  )


NAMES = ["ant", "bee"]
OUTPUTS = {"class": np.int32([1, 0, -1]), "p": np.float32([[0.1, np.nan], [1, 0], [0.5, 0.5]])}


def made(names=("a", "b", "c", "d"), failed=None, outputs=None, class_names=NAMES):
  return list(
    results.entries(
      names, {1: "no file"} if failed is None else failed, outputs or OUTPUTS, class_names
    )
  )


def test_predictions_stay_with_their_examples():
  found = made()
  assert [entry["input"] for entry in found] == ["a", "b", "c", "d"]
  assert found[1] == {"input": "b", "error": "no file"}
  assert [found[place]["class"] for place in (0, 2, 3)] == [1, 0, -1]
  assert found[0]["p"] == [0.1, None]


def test_a_number_without_a_name_is_its_own_name():
  assert [found.get("class_name") for found in made()] == ["bee", None, "ant", "-1"]
  one = {"class": np.int32([7])}
  assert made(["a"], {}, one)[0]["class_name"] == "7"
  assert "class_name" not in made(["a"], {}, one, class_names=None)[0]


def test_outputs_keep_apart_from_the_input_and_the_error():
  outputs = {"error": np.float32([0.5]), "input": np.float32([0.25])}
  assert made(["a.png"], {}, outputs) == [{"input": "a.png", "error_": 0.5, "input_": 0.25}]


def write(path, loaded, *batches):
  with results.writer(str(path), loaded) as add:
    for batch in batches:
      add(batch)


def test_lines_of_json_have_any_name(tmp_path):
  name = b"gr\xc3\xb6\xc3\x9fe \xff\n.png".decode(errors="surrogateescape")
  write(tmp_path / "new" / "a.jsonl", model(), made([name], {}, {"y": np.float32([1])}))
  [line] = (tmp_path / "new" / "a.jsonl").read_text(encoding="utf-8").splitlines()
  assert json.loads(line) == {"input": "größe \\udcff\n.png", "y": 1.0}


def test_columns_of_csv_fit_the_header(tmp_path):
  loaded = model(NAMES, **{"class": [None], "p": [None, 2], "error": [None]})
  outputs = {**OUTPUTS, "error": np.float32([1, 2, 3])}
  batch = made(['a,"1"', "b", "c", "d"], outputs=outputs)
  write(tmp_path / "a.csv", loaded, batch)
  with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
    header, *rows = csv.reader(file)
  assert header == ["input", "class", "class_name", "p_0", "p_1", "error_", "error"]
  assert rows[0] == ['a,"1"', "1", "bee", "0.1", "", "1.0", ""]
  assert rows[1] == ["b", "", "", "", "", "", "no file"]


def test_an_error_of_the_model_is_its_own_and_leaves_no_file(tmp_path):
  with (
    pytest.raises(tf.errors.InvalidArgumentError, match="of the model"),
    results.writer(str(tmp_path / "a.jsonl"), model()),
  ):
    raise tf.errors.InvalidArgumentError(None, None, "of the model")
  assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told(tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(errors.OutputError, match=r"Cannot write .*file/a\.jsonl \(--output\)"):
    write(tmp_path / "file" / "a.jsonl", model())


def test_a_disk_that_becomes_full_is_told(tmp_path, monkeypatch):
  def full(*_):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(results, "_add_lines", full)
  with pytest.raises(errors.OutputError, match=r"\(--output\): .*No space left"):
    write(tmp_path / "a.jsonl", model(), made())
  assert list(tmp_path.iterdir()) == []


def test_standard_output_has_lines_of_json(capsys):
  write("-", model(), made(["a"], {}, {"y": np.float32([1])}))
  assert capsys.readouterr().out == '{"input": "a", "y": 1.0}\n'


@pytest.mark.parametrize(
  ("path", "loaded", "message"),
  [
    ("a.json", model(), r"expected a name that ends in \.jsonl, \.csv"),
    ("a.csv", model(y=[None, 3, 4]), "CSV cannot hold the output 'y'"),
    ("a.csv", model(y=[None, None]), "CSV cannot hold the output 'y'"),
    ("a.csv", model(y=None), "CSV cannot hold the output 'y'"),
    ("a.csv", model(y=[None, 10_001]), "CSV cannot hold the output 'y'"),
  ],
)
def test_a_file_that_cannot_hold_the_outputs_is_refused(path, loaded, message):
  with pytest.raises(errors.SettingError, match=message):
    results.check_path(path, loaded)


@pytest.mark.parametrize("path", ["-", "a.jsonl", "gs://bucket/a.csv"])
def test_other_files_are_accepted(path):
  results.check_path(path, model(y=[None, 10_000], z=[None]))
