"""Stand-in data of a new project: whole files, the same each time, with something to learn."""

import csv
import io

import numpy as np
import pytest
import tensorflow as tf

from trainer.new import samples


@pytest.mark.parametrize("kind", samples._MAKERS)
def test_files_are_the_same_each_time(kind):
  assert samples.files(kind) == samples.files(kind)
  assert all(path.startswith("data/") and content for path, content in samples.files(kind).items())


def test_images_decode_to_their_size_and_classes_differ():
  found = samples.files("images")
  assert {path.split("/")[1] for path in found} == {"circles", "squares", "stripes"}
  assert len(found) == 180
  pixels = tf.io.decode_image(found["data/circles/00.png"])
  assert (pixels.shape, pixels.dtype) == ([32, 32, 3], tf.uint8)
  assert len(set(found.values())) == 180


@pytest.mark.parametrize(("kind", "target"), [("table", "bought"), ("regression", "price")])
def test_tables_have_whole_rows_and_a_target_in_each(kind, target):
  for name, content in samples.files(kind).items():
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert len(rows) == (300 if "train" in name else 100)
    assert all(None not in row.values() and row[target] for row in rows)


def test_prices_follow_the_area():
  rows = csv.DictReader(io.StringIO(samples.files("regression")["data/train.csv"].decode()))
  area, price = np.array([[float(row["area"]), float(row["price"])] for row in rows]).T
  assert np.corrcoef(area, price)[0, 1] > 0.9


def test_the_vocabulary_has_the_words_of_the_training():
  found = samples.files("text")
  words = found["data/vocabulary.txt"].decode().splitlines()
  assert len(words) == len(set(words))
  assert {"good", "bad", ",", "!"} <= set(words)
  lines = found["data/train.tsv"].decode().splitlines()[1:]
  assert [line[:2] for line in lines] == ["0\t", "1\t"] * 150
