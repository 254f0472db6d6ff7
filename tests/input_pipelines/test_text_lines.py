"""Labelled texts as token ids."""

import json

import numpy as np
import pytest
import tensorflow as tf

from input_pipelines import text_lines
from tests.input_pipelines import tiny_data
from trainer import errors

VOCABULARY = ["good", "bad", "film", "!", ",", "été"]
ROWS = [("Good film!", 1), ("bad, BAD film", 0), ("what was that", 0), ("", 1), ("  Été  ", 1)]
IDS = [[1, 3, 4, 0], [2, 5, 2, 3], [7, 7, 7, 0], [0, 0, 0, 0], [6, 0, 0, 0]]


@pytest.fixture
def vocabulary(tmp_path):
  path = tmp_path / "vocabulary.txt"
  path.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
  return str(path)


def write(folder, ending, rows=ROWS):
  path = folder / f"reviews.{ending}"
  if ending == "jsonl":
    text = "".join(json.dumps({"text": row, "label": label}) + "\n" for row, label in rows)
  elif ending == "tsv":
    text = "label\ttext\n" + "".join(f"{label}\t{row}\n" for row, label in rows)
  else:
    text = "text,label\n" + "".join(f'"{row}",{label}\n' for row, label in rows)
  path.write_text(text, encoding="utf-8")
  return str(path)


def read(path, vocabulary, **settings):
  return text_lines.input_fn({"batch_size": 2}, path, vocabulary, **{"length": 4, **settings})


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_ids_in_order(tmp_path, vocabulary, ending):
  dataset = read(write(tmp_path, ending), vocabulary)
  assert dataset.element_spec == (
    {"tokens": tf.TensorSpec([None, 4], tf.int32)},
    tf.TensorSpec([None], tf.int32),
  )
  batches = list(dataset.as_numpy_iterator())
  assert np.concatenate([features["tokens"] for features, _ in batches]).tolist() == IDS
  assert np.concatenate([labels for _, labels in batches]).tolist() == [1, 0, 0, 1, 1]
  assert len(batches[-1][1]) == 1


def test_training_is_endless_and_seeded(tmp_path, vocabulary):
  path = write(tmp_path, "csv", [("good", number) for number in range(10)])

  def order(seed):
    tf.random.set_seed(seed)
    return [
      int(label) for _, labels in read(path, vocabulary, training=True).take(15) for label in labels
    ]

  assert sorted(order(1)[:10]) == sorted(order(1)[10:20]) == list(range(10))
  assert order(1) == order(1) != order(2)


def test_goes_on_at_its_place(tmp_path, vocabulary):
  path = write(tmp_path, "csv", [("good", number) for number in range(10)])
  results = []
  for first, passed in ((0, 7), (14, 0)):
    tf.random.set_seed(4)
    dataset = read(path, vocabulary, training=True, start=first).skip(passed).take(8)
    results.append([labels.tolist() for _, labels in dataset.as_numpy_iterator()])
  assert results[0] == results[1]


def test_hosts(tmp_path, vocabulary):
  path = write(tmp_path, "csv", [("good", number) for number in range(10)])
  shares = [
    [
      int(label)
      for _, labels in read(path, vocabulary, input_context=tiny_data.context(index, 3))
      for label in labels
    ]
    for index in range(3)
  ]
  assert tiny_data.joined(shares) == list(range(10))


def test_class_names_and_keys(tmp_path, vocabulary):
  (tmp_path / "a.jsonl").write_text(
    '{"body": "good", "kind": "pos"}\n\n{"body": "bad", "kind": "neg"}\n'
  )
  dataset = read(
    str(tmp_path / "*.jsonl"), vocabulary, text_key="body", label_key="kind", classes=["neg", "pos"]
  )
  assert next(dataset.as_numpy_iterator())[1].tolist() == [1, 0]


def test_quotes_and_long_fields(tmp_path, vocabulary):
  (tmp_path / "a.csv").write_text(
    'text,label\n"good, ""good""\nfilm",1\n' + f'"{"bad " * 50_000}",0\n'
  )
  tokens = next(read(str(tmp_path / "a.csv"), vocabulary, length=7).as_numpy_iterator())[0][
    "tokens"
  ]
  assert tokens.tolist() == [[1, 5, 7, 1, 7, 3, 0], [2] * 7]
  (tmp_path / "b.tsv").write_text('text\tlabel\nbad "film\t1\n')
  assert next(read(str(tmp_path / "b.tsv"), vocabulary).as_numpy_iterator())[0][
    "tokens"
  ].tolist() == [[2, 7, 3, 0]]


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("a.csv", "text,label\ngood, 1\n"),
    ("a.tsv", "text\tlabel\ngood\t1\n"),
    ("a.jsonl", '{"text": "good", "label": 1.0}\n'),
    ("b.jsonl", '{"text": "good", "label": true}\n'),
  ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path, vocabulary, name, content):
  (tmp_path / name).write_text("\ufeff" + content)
  assert next(read(str(tmp_path / name), vocabulary).as_numpy_iterator())[1].tolist() == [1]


def test_vocabulary_size_covers_every_id(vocabulary):
  assert text_lines.vocabulary_size(vocabulary) == 8


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
  path = tmp_path / "v.txt"
  path.write_text("\ufeffthe\r\nfilm\r\n", encoding="utf-8")
  assert text_lines.load_vocabulary(str(path)) == ("the", "film")


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    (
      "a.csv",
      "text,label\ngood,1\nbad,x\n",
      r"a\.csv, line 3 has the label 'x': expected an "
      r"integer of at least 0",
    ),
    ("a.csv", "text,label\ngood,-1\n", r"a\.csv, line 2 has the label '-1'"),
    ("a.csv", "text,label\ngood,2147483648\n", "the label '2147483648'.* 2,147,483,647 at most"),
    ("a.csv", f"text,label\ngood,{'9' * 5000}\n", r"a\.csv, line 2 has the label '999"),
    ("a.jsonl", '{"text": "good", "label": 2.7}\n', r"a\.jsonl, line 1 has the label 2\.7"),
    (
      "a.csv",
      "review,label\ngood,1\n",
      r"a\.csv, line 2 has no 'text' or no 'label'; it has "
      r"review, label",
    ),
    ("a.tsv", "text\tlabel\ngood\n", r"a\.tsv, line 2 has no 'text' or no 'label'"),
    ("a.jsonl", '{"text": "good", "label": 1}\n{"text": \n', r"a\.jsonl, line 2 is not JSON"),
    ("a.jsonl", '{"text": 3, "label": 1}\n', r"a\.jsonl, line 1 has no 'text'"),
    ("a.jsonl", "[1]\n", r"a\.jsonl, line 1 has no 'text'.*it has list"),
    ("a.csv", "text,label\n", "has no line of text"),
    ("a.txt", "good", r"a\.txt: expected a name that ends in \.csv, \.tsv or \.jsonl"),
  ],
)
def test_lines_that_cannot_be_used(tmp_path, vocabulary, name, content, message):
  (tmp_path / name).write_text(content)
  with pytest.raises(errors.InputError, match=message):
    read(str(tmp_path / name), vocabulary)


def test_not_utf8(tmp_path, vocabulary):
  (tmp_path / "a.csv").write_bytes(b"text,label\n\xff\xfe,1\n")
  with pytest.raises(errors.InputError, match=r"Cannot read .*a\.csv: .*utf-8"):
    read(str(tmp_path / "a.csv"), vocabulary)


def test_an_unknown_class(tmp_path, vocabulary):
  with pytest.raises(errors.InputError, match="line 2 has the label '1': expected one of neg, pos"):
    read(write(tmp_path, "csv"), vocabulary, classes=("neg", "pos"))


@pytest.mark.parametrize(
  ("content", "message"), [("", "is empty"), ("a\nb\na\n", "has the word 'a' twice")]
)
def test_vocabularies_that_cannot_be_used(tmp_path, content, message):
  (tmp_path / "v.txt").write_text(content)
  with pytest.raises(errors.InputError, match=message):
    read(write(tmp_path, "csv"), str(tmp_path / "v.txt"))


def test_missing_files(tmp_path, vocabulary):
  with pytest.raises(errors.InputError, match="There is no file .*nothing.csv"):
    read(str(tmp_path / "nothing.csv"), vocabulary)
  with pytest.raises(
    errors.InputError,
    match=r"Cannot read the vocabulary .*nowhere \(text_lines.input_fn.vocabulary_file\)",
  ):
    read(write(tmp_path, "csv"), str(tmp_path / "nowhere"))


def test_files_that_are_written_anew_are_read_anew(tmp_path):
  for word in ("good", "excellent"):
    (tmp_path / "words.txt").write_text(f"{word}\n")
    (tmp_path / "train.tsv").write_text(f"label\ttext\n1\t{word}\n")
    assert text_lines.load_vocabulary(str(tmp_path / "words.txt")) == (word,)
    texts, _ = text_lines.load(str(tmp_path / "*.tsv"), "text", "label", None)
    assert texts == [word]
