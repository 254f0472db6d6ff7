"""Examples of files: in order, with a reason for each that cannot be read."""

import json

import pytest

from tests.input_pipelines import tiny_data
from trainer import errors
from trainer.serving import examples, loaded_model


def model(decoders=(), **inputs):
  specs = {name: {"dtype": dtype, "shape": [None]} for name, dtype in inputs.items()}
  description = {"signatures": {loaded_model.DEFAULT: {"inputs": specs}}}
  return loaded_model.LoadedModel("1", description, {}, dict.fromkeys(decoders))


LINE = model(x="float32", name="string")
IMAGES = model(["image"], image="float32")
BOTH = model(["image"], image="float32", age="float32")


def read(loaded, *paths):
  found, count = examples.read(list(map(str, paths)), loaded)
  return list(found), count


def test_a_folder_has_its_images_in_order_and_names_other_files(tmp_path, caplog):
  for name in ("b.PNG", "a.jpg", ".c.png", "d.webp", "e.tif", "f.WEBP"):
    (tmp_path / name).touch()
  found, count = read(IMAGES, tmp_path)
  assert f"Ignored files in {tmp_path}: 2 .webp, 1 .tif; expected .jpg, .jpeg, " in caplog.text
  paths = [str(tmp_path / "a.jpg"), str(tmp_path / "b.PNG")]
  assert ([example.paths for example in found], count) == ([{"image": path} for path in paths], 2)


def test_a_name_with_brackets_is_a_file_before_it_is_a_pattern(tmp_path):
  for name in ("a[1].png", "a1.png"):
    (tmp_path / name).touch()
  assert read(IMAGES, tmp_path / "a[1].png")[0][0].name.endswith("a[1].png")
  (tmp_path / "a[1].png").unlink()
  assert read(IMAGES, tmp_path / "a[1].png")[0][0].name.endswith("a1.png")


def test_cells_of_csv_are_numbers_lists_and_texts(tmp_path):
  (tmp_path / "a.csv").write_text('\ufeffx,name\n1.5,ant\n"[1, 2]",bee\n\n,cow\n')
  found, count = read(LINE, tmp_path / "a.csv")
  assert count is None
  assert [example.values for example in found[:2]] == [
    {"x": 1.5, "name": "ant"},
    {"x": [1, 2], "name": "bee"},
  ]
  assert found[2].error == "'x' is ''; expected a number or list"
  assert found[2].name == f"{tmp_path}/a.csv, line 5"


def test_a_byte_order_mark_of_json_lines(tmp_path):
  (tmp_path / "a.jsonl").write_text('\ufeff{"x": 1.5, "name": "ant"}\n')
  assert read(LINE, tmp_path / "a.jsonl")[0][0].values == {"x": 1.5, "name": "ant"}


def test_numbered_columns_are_one_feature(tmp_path):
  (tmp_path / "a.tsv").write_text("x_0\tx_1\tname\n1\t2\tant\n1\tmany\tbee\n")
  good, bad = read(LINE, tmp_path / "a.tsv")[0]
  assert good.values == {"x": [1.0, 2.0], "name": "ant"}
  assert bad.error == "a column of 'x' has another value than a number"


def test_json_lines_have_paths_beside_them_or_values(tmp_path):
  images = ({"image": "a.png"}, {"image": "gs://b/a.png"}, {}, {"image": [1]})
  lines = [{**image, "age": 3} for image in images]
  text = "".join(json.dumps(line) + "\n" for line in lines)
  (tmp_path / "a.jsonl").write_text(text + "no json\n")
  beside, remote, missing, numbers, damaged = read(BOTH, tmp_path / "a.jsonl")[0]
  assert beside.paths == {"image": str(tmp_path / "a.png")}
  assert remote.paths == {"image": "gs://b/a.png"}
  assert missing.error == "no 'image'; there is age"
  assert (numbers.values, numbers.paths) == ({"image": [1], "age": 3}, {})
  assert "expected a JSON object" in damaged.error


def test_records_before_a_damaged_one_are_read(tmp_path):
  path = tmp_path / "a.tfrecord"
  tiny_data.tfrecord(path, [b"first", b"second"])
  tiny_data.flip_bit(path, 16 + len(b"first") + 2)  # in the length of the second record
  first, damaged = read(LINE, path)[0]
  assert (first.record, first.name) == (b"first", f"{path}: record 0")
  assert damaged.error.startswith("damaged; the rest of this file is lost")


def test_another_kind_of_file_has_an_entry(tmp_path):
  (tmp_path / "a.txt").touch()
  [example] = read(LINE, tmp_path / "a.txt")[0]
  assert example.error.startswith("unknown kind of file: expected .jpg, ")


@pytest.mark.parametrize(
  ("loaded", "path", "message"),
  [
    (LINE, "a.png", "--input has images, and the model takes name, x; it decodes nothing"),
    (BOTH, "a.png", "the model takes age, image; it decodes image"),
    (IMAGES, "none.png", r"There is no file .*none\.png \(--input\)"),
    (IMAGES, "empty", r"The folder .*empty \(--input\) has no images: .*; found no file"),
  ],
)
def test_inputs_that_cannot_work_are_refused(loaded, path, message, tmp_path):
  (tmp_path / "a.png").touch()
  (tmp_path / "empty").mkdir()
  with pytest.raises(errors.OctetError, match=message):
    read(loaded, tmp_path / path)


def test_standard_input_excludes_other_inputs():
  with pytest.raises(errors.SettingError, match="--input=- is standard input, and excludes"):
    read(IMAGES, "-", "a.png")
