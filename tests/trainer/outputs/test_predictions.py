"""Predictions as JSON lines, as a table and as a contact sheet."""

import json

import numpy as np
import pytest

from trainer import errors, experiment
from trainer.outputs import predictions


def written(path, values):
  count = predictions.write(str(path), iter(values))
  lines = path.read_text().splitlines()
  assert count == len(lines)
  return [json.loads(line) for line in lines]


def test_one_object_for_each_example_in_order(tmp_path):
  values = [
    {"class": np.int32(index), "probabilities": np.float32([0.1, 0.9])} for index in range(3)
  ]
  assert written(tmp_path / "p.jsonl", values) == [
    {"class": index, "probabilities": [0.1, 0.9]} for index in range(3)
  ]


@pytest.mark.parametrize(
  "value, plain",
  [
    pytest.param(np.float32(0.1), 0.1, id="float"),
    pytest.param(np.float32([0.1, 1 / 3]), [0.1, 0.3333333], id="floats"),
    pytest.param(np.float32([[0.1], [1 / 3]]), [[0.1], [0.3333333]], id="matrix"),
    pytest.param(np.int64(2**62), 2**62, id="int"),
    pytest.param(np.bool_(True), True, id="bool"),
    pytest.param(b"caf\xc3\xa9", "café", id="text"),
    pytest.param(np.array([b"a", b"b"], object), ["a", "b"], id="texts"),
    pytest.param({"inner": np.float32([0.5])}, {"inner": [0.5]}, id="dict"),
    pytest.param((np.int32(1), np.int32(2)), [1, 2], id="tuple"),
  ],
)
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
  with pytest.raises(
    errors.OutputError,
    match=r"Cannot write the predictions to .*p.jsonl "
    r"\(--model_dir\)",
  ):
    predictions.write(str(tmp_path / "nowhere" / "p.jsonl"), [{"x": np.float32(1)}])


NAMES = ["ant", "bee", "cow"]
SHARES = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.25, 0.35, 0.4]]


def pairs(image=(4, 4, 3), labels=(0, 2, 2), keys=("class", "probabilities")):
  """What a classifier says of three examples: ant, bee, cow."""
  for index, shares in enumerate(SHARES):
    prediction = {"class": np.int32(index), "probabilities": np.float32(shares)}
    features = {"x": np.full(image, index / 3, np.float32)}
    yield (
      {key: prediction[key] for key in keys},
      (features,) if labels is None else (features, np.int32(labels[index])),
    )


def saved(tmp_path, *args, **kwargs):
  count = predictions.save(str(tmp_path / "p"), *args, **kwargs)
  lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
  assert count == len(lines)
  return lines


def rows(capsys):
  """The cells of the table that was printed."""
  lines = [
    line for line in capsys.readouterr().out.replace("┃", "│").splitlines() if line.startswith("│")
  ]
  return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_classes_have_names(tmp_path, capsys):
  lines = saved(tmp_path, pairs(), NAMES, images=2)
  assert [line["class_name"] for line in lines] == NAMES
  assert list(lines[0]) == ["class", "class_name", "probabilities"]
  assert rows(capsys)[-3:] == [
    ["0", "ant", "70.0 %", "bee 20.0 %", "ant"],
    ["1", "bee", "60.0 %", "cow 30.0 %", "cow"],
    ["2", "cow", "40.0 %", "bee 35.0 %", "cow"],
  ]
  assert (tmp_path / "p.png").exists()


def test_several_labels_may_have_names(tmp_path, capsys):
  """The model card and `classify` use them."""
  predicted = {"present": np.int32([1, 0, 1]), "probabilities": np.float32([0.7, 0.2, 0.6])}
  lines = saved(tmp_path, [(predicted, ({"x": np.float32(1)},))], NAMES)
  assert list(lines[0]) == ["present", "probabilities"]
  assert rows(capsys)[-1] == ["0", "[1, 0, 1]", "[0.7, 0.2, 0.6]"]


def test_without_names_there_are_numbers(tmp_path, capsys):
  lines = saved(tmp_path, pairs(labels=None, keys=["class"]))
  assert lines == [{"class": 0}, {"class": 1}, {"class": 2}]
  assert rows(capsys) == [["", "predicted"], ["0", "0"], ["1", "1"], ["2", "2"]]


def test_captions_say_what_is_right(tmp_path, monkeypatch):
  seen = []
  monkeypatch.setattr(
    predictions.contact_sheet,
    "write",
    lambda path, images, captions: seen.extend(zip(images, captions, strict=True)),
  )
  saved(tmp_path, pairs(), NAMES)
  assert [(caption.lines, caption.right) for _, caption in seen] == [
    (["ant 70.0 %"], True),
    (["bee 60.0 %", "is cow"], False),
    (["cow 40.0 %"], True),
  ]
  assert [image[0, 0, 0] for image, _ in seen] == pytest.approx([0, 1 / 3, 2 / 3])


def test_a_class_for_each_token_has_names_too(tmp_path):
  prediction = {"class": np.array([2, 0], np.int32), "probabilities": np.zeros([2, 3], np.float32)}
  assert saved(tmp_path, [(prediction, ({"tokens": np.zeros(2)},))], NAMES)[0]["class_name"] == [
    "cow",
    "ant",
  ]


def test_the_worst_are_shown_first(tmp_path, capsys):
  lines = saved(tmp_path, pairs(), NAMES, images=2, shown="worst")
  assert [line["class"] for line in lines] == [0, 1, 2]  # the file has the order of the data
  assert [row[0] for row in rows(capsys)[-3:]] == ["1", "2", "0"]  # 30 %, 40 %, 70 % for the label


def test_wrong_class_is_worse_than_an_unlikely_right_one(tmp_path, capsys):
  many = [
    ({"class": np.int32(c), "probabilities": np.float32(p)}, (np.zeros([3]), np.int32(0)))
    for c, p in [(0, [0.35, 0.33, 0.32]), (1, [0.45, 0.55, 0.0])]
  ]
  saved(tmp_path, many, shown="worst")
  assert [row[0] for row in rows(capsys)[1:]] == ["1", "0"]


def test_without_probabilities_the_worst_are_the_wrong_ones(tmp_path, capsys):
  saved(tmp_path, pairs(keys=["class"]), NAMES, shown="worst")
  assert [row[0] for row in rows(capsys)[-3:]] == ["1", "0", "2"]


@pytest.mark.parametrize("given", [dict(labels=None), dict(keys=["probabilities"])])
def test_there_is_no_worst_without_a_class_and_a_label(given, tmp_path):
  with pytest.raises(errors.SettingError, match='run.contact_sheet = "worst" needs .* label'):
    predictions.save(str(tmp_path / "p"), pairs(**given), shown="worst")
  assert list(tmp_path.iterdir()) == []


def test_the_table_is_of_the_whole_set(tmp_path, capsys):
  many = [
    ({"y": np.float32(number)}, (np.zeros([3]), np.int32(-1 - number))) for number in range(999)
  ]
  saved(tmp_path, many)
  title, *_ = capsys.readouterr().out.splitlines()
  assert title == "10 of 999 predictions, from the whole set:"
  tables = []
  for seed in (1, 1, 2):
    saved(tmp_path, many, seed=seed)
    header, *shown = rows(capsys)
    assert header == ["", "y", "label"]
    assert all(row == [row[0], row[0], str(-1 - int(row[0]))] for row in shown)
    tables.append([int(number) for number, *_ in shown])
  assert tables[0] == tables[1] != tables[2]
  assert tables[0] == sorted(tables[0])
  assert tables[0][0] < 333
  assert tables[0][-1] > 666


def test_labels_of_several_names_are_in_the_table(tmp_path, capsys):
  saved(tmp_path, [(np.float32(0.5), (np.zeros([3]), {"a": np.int32(1), "b": np.ones([2, 2])}))])
  assert rows(capsys) == [["", "output", "label a", "label b"], ["0", "0.5", "1", "float64[2, 2]"]]


def test_what_is_no_class_is_in_the_table_by_its_name(tmp_path, capsys):
  prediction = {
    "y": np.float32(0.5),
    "states": np.arange(5),
    "text": b"[red]no",
    "map": np.zeros([2, 3], np.float32),
  }
  saved(tmp_path, [(prediction, (np.zeros([3]),))])
  assert rows(capsys) == [
    ["", "y", "states", "text", "map"],
    ["0", "0.5", "[0, 1, 2, …]", "[red]no", "float32[2, 3]"],
  ]
  assert not (tmp_path / "p.png").exists()


@pytest.mark.parametrize(
  "given", [dict(images=0), dict(image=(4, 4)), dict(image=(4, 4, 2)), dict(keys=["probabilities"])]
)
def test_no_contact_sheet(given, tmp_path):
  images = given.pop("images", 24)
  assert len(saved(tmp_path, pairs(**given), images=images)) == 3
  assert not (tmp_path / "p.png").exists()


@pytest.mark.parametrize(
  "names, keys, said",
  [
    (
      ["ant", "bee"],
      ["class", "probabilities"],
      "run.class_names has 2 names, and the model_fn predicts the probabilities of 3 classes",
    ),
    (NAMES, ["probabilities"], 'run.class_names needs a predicted "class"'),
  ],
)
def test_names_that_do_not_fit(names, keys, said, tmp_path):
  with pytest.raises(errors.SettingError, match=said):
    predictions.save(str(tmp_path / "p"), pairs(keys=keys), names)
  assert list(tmp_path.iterdir()) == []


def test_a_class_that_has_no_name(tmp_path):
  with pytest.raises(
    errors.SettingError,
    match="A prediction or label is the class 2, and run.class_names has 2 names",
  ):
    predictions.save(str(tmp_path / "p"), pairs(keys=["class"]), NAMES[:2])


@pytest.mark.parametrize(
  "settings, said",
  [
    ({"class_names": "ant"}, "run.class_names is 'ant'; expected a list of strings"),
    ({"class_names": [0, 1]}, "run.class_names is"),
    ({"class_names": []}, "run.class_names is"),
    ({"contact_sheet_images": -1}, "run.contact_sheet_images is -1; expected an int of at least 0"),
    ({"contact_sheet_images": True}, "run.contact_sheet_images is True"),
    ({"contact_sheet": "wrong"}, "run.contact_sheet is 'wrong'; expected 'spread' or 'worst'"),
  ],
)
def test_settings_that_cannot_work(settings, said):
  with pytest.raises(errors.SettingError, match=said):
    experiment.Experiment(model_fn=len, **settings)


def test_nothing_to_show(tmp_path, capsys):
  assert saved(tmp_path, [], NAMES) == []
  assert capsys.readouterr().out == ""
