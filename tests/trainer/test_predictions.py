"""Predictions as JSON lines."""

import json

import numpy as np
import pytest

from trainer import errors, predictions


def written(path, values):
  count = predictions.write(str(path), iter(values))
  lines = path.read_text().splitlines()
  assert count == len(lines)
  return [json.loads(line) for line in lines]


def test_one_object_for_each_example_in_order(tmp_path):
  values = [{"class": np.int32(index), "probabilities": np.float32([0.1, 0.9])} for index in range(3)]
  assert written(tmp_path / "p.jsonl", values) == [{"class": index, "probabilities": [0.1, 0.9]} for index in range(3)]


@pytest.mark.parametrize("value, plain", [
    pytest.param(np.float32(0.1), 0.1, id="float"),
    pytest.param(np.float32([0.1, 1 / 3]), [0.1, 0.3333333], id="floats"),
    pytest.param(np.float32([[0.1], [1 / 3]]), [[0.1], [0.3333333]], id="matrix"),
    pytest.param(np.int64(2**62), 2**62, id="int"),
    pytest.param(np.bool_(True), True, id="bool"),
    pytest.param(b"caf\xc3\xa9", "café", id="text"),
    pytest.param(np.array([b"a", b"b"], object), ["a", "b"], id="texts"),
    pytest.param({"inner": np.float32([0.5])}, {"inner": [0.5]}, id="dict"),
    pytest.param((np.int32(1), np.int32(2)), [1, 2], id="tuple"),
])
def test_values_are_written_as_what_they_are(value, plain, tmp_path):
  assert written(tmp_path / "p.jsonl", [{"x": value}]) == [{"x": plain}]


def test_a_prediction_that_is_one_tensor_has_a_name_too(tmp_path):
  assert written(tmp_path / "p.jsonl", [np.float32([1, 2])]) == [{"output": [1, 2]}]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_json_all_the_same(value, tmp_path):
  def refuse(name):
    raise AssertionError(f"{name} is no JSON")

  predictions.write(str(tmp_path / "p.jsonl"), [{"x": np.float32([value])}])
  json.loads((tmp_path / "p.jsonl").read_text(), parse_constant=refuse)


def test_no_predictions(tmp_path):
  assert written(tmp_path / "p.jsonl", []) == []


def test_the_file_is_whole_or_not_there(tmp_path):
  def fails():
    yield {"x": np.float32(1)}
    raise RuntimeError("on purpose")

  with pytest.raises(RuntimeError, match="on purpose"):
    predictions.write(str(tmp_path / "p.jsonl"), fails())
  assert not (tmp_path / "p.jsonl").exists()


def test_a_folder_that_is_not_there(tmp_path):
  with pytest.raises(errors.OutputError, match=r"The predictions cannot be written to .*p.jsonl \(--model_dir\)"):
    predictions.write(str(tmp_path / "nowhere" / "p.jsonl"), [{"x": np.float32(1)}])
