"""Reads labelled texts from CSV, TSV or JSON-lines files, as ids of their words.

    run.train_input_fn = @train/text_lines.input_fn
    text_lines.input_fn.vocabulary_file = "/data/reviews/vocabulary.txt"
    text_lines.input_fn.length = 128
    train/text_lines.input_fn.path = "/data/reviews/train.tsv"
    train/text_lines.input_fn.training = True

The ending of a file gives its format: .csv and .tsv have a first line with the names of the
columns, .jsonl has an object in each line. The reader converts text to lower case and splits it at
white space; each punctuation mark is a word. The vocabulary, from
`python -m input_pipelines.make_vocabulary`, has one word in each line. The word in line n has id n,
an unknown word has the id after the last one, and 0 is padding. Each text is cut or padded to
`length` words. An export takes raw texts, and contains the vocabulary.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any

import gin
import numpy as np
import tensorflow as tf

import trainer
from trainer import errors

from . import file_cache, hosts, in_memory

PAD_ID = 0
_SPLIT = r"[[:punct:]]|[^[:punct:][:space:]]+"
_FIELD_LIMIT = 1 << 30  # characters in a field; csv's own limit is 128 KiB


@gin.configurable
@trainer.check_settings
def input_fn(
  params: dict[str, Any],
  path: str,
  vocabulary_file: str,
  length: int = 128,
  training: bool = False,
  text_key: str = "text",
  label_key: str = "label",
  classes: Sequence[str] | None = None,
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Reads batches of token ids.

  Args:
    params: dict with "batch_size".
    path: file or glob, local or gs://.
    vocabulary_file: file with one word a line.
    length: number of ids in each example.
    training: whether to shuffle and repeat without end.
    text_key: column or key of the text.
    label_key: column or key of the label.
    classes: names of the classes; a label is the place of its name in this list. None for integer
      labels.
    input_context: None for one host. Each host reads an even range of the lines.
    start: number of examples that all hosts together have seen; the framework sets it.

  Returns:
    A dataset of ({"tokens": int32 [b, length]}, labels int32 [b]).

  Raises:
    InputError: reading a file failed, or a line has no text or no label; the message names file and
      line.
  """
  texts, labels = load(path, text_key, label_key, None if classes is None else tuple(classes))
  first, stop = hosts.even_range(len(texts), *hosts.part_of(input_context))
  tokenizer = Tokenizer(load_vocabulary(vocabulary_file), length)
  dataset = in_memory.batches(
    {"tokens": tokenizer(texts[first:stop])},
    labels[first:stop],
    params["batch_size"],
    training=training,
    start=hosts.examples_seen(start, input_context),
  )
  trainer.mark_labels(dataset, labels)
  return trainer.mark_raw(
    dataset,
    {text_key: texts},
    lambda columns: {"tokens": tokenizer(columns[text_key])},
    rows=None if training else {text_key: texts},
  )


@file_cache.until_changed(maxsize=8)
def load_vocabulary(path: str) -> tuple[str, ...]:
  """Reads the words of a vocabulary file, in order.

  Raises:
    InputError: reading the file failed, it is empty, or a word occurs twice.
  """
  try:
    with tf.io.gfile.GFile(path) as file:
      words = [line.removeprefix("\ufeff").rstrip("\r\n") for line in file]
  except (tf.errors.OpError, UnicodeDecodeError) as error:
    raise errors.InputError(
      f"Cannot read the vocabulary {path} (text_lines.input_fn.vocabulary_file): "
      f"{_first_line(error)}"
    ) from error
  if not words or len(set(words)) < len(words):
    twice = next((word for number, word in enumerate(words) if word in words[:number]), None)
    raise errors.InputError(
      f"The vocabulary {path} is empty."
      if not words
      else f"The vocabulary {path} has the word {twice!r} twice."
    )
  return tuple(words)


@gin.configurable
@trainer.check_settings
def vocabulary_size(path: str) -> int:
  """Returns the number of different ids: the words, the padding and the unknown word."""
  return len(load_vocabulary(path)) + 2


def words_of(texts: Sequence[str] | tf.Tensor) -> tf.RaggedTensor:
  """Splits each text into words: string [n, (words)]."""
  lowered = tf.strings.lower(tf.convert_to_tensor(texts, tf.string), encoding="utf-8")
  spaced = tf.strings.regex_replace(lowered, _SPLIT, r" \0 ")
  return tf.strings.split(spaced)


class Tokenizer:
  """Converts texts to ids: for a training, and within an export.

  Args:
    vocabulary: the words.
    length: number of ids of each text.
  """

  def __init__(self, vocabulary: Sequence[str], length: int) -> None:
    self._length = length
    with tf.device("CPU"):
      ids = tf.range(1, len(vocabulary) + 1, dtype=tf.int32)
      self._table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(vocabulary), ids),
        default_value=len(vocabulary) + 1,
      )

  def __call__(self, texts: Sequence[str] | tf.Tensor) -> tf.Tensor:
    """Converts texts (string [n]) to ids (int32 [n, length])."""
    with tf.device("CPU"):
      words = words_of(texts)[:, : self._length]
      ids = words.with_values(self._table.lookup(words.values))
      return ids.to_tensor(PAD_ID, shape=[None, self._length])


@file_cache.until_changed(maxsize=8)  # each evaluation calls input_fn again
def load(
  path: str, text_key: str, label_key: str, classes: tuple[str, ...] | None
) -> tuple[list[str], np.ndarray]:
  """Reads all lines of the files; for Args and Raises see `input_fn`.

  Returns:
    The texts, and their labels (int32 [n]).
  """
  texts, labels = [], []
  for file in _files(path, "text_lines.input_fn.path"):
    for number, row in _rows(file):
      place = f"{file}, line {number}"
      if (
        not isinstance(row, dict)
        or not isinstance(row.get(text_key), str)
        or row.get(label_key) is None
      ):
        found = ", ".join(map(str, row)) if isinstance(row, dict) else type(row).__name__
        raise errors.InputError(
          f"{place} has no {text_key!r} or no {label_key!r}; it has {found} "
          "(text_lines.input_fn.text_key, label_key)."
        )
      texts.append(row[text_key])
      labels.append(_label(row[label_key], classes, place))
  if not texts:
    raise errors.InputError(f"{path} has no line of text.")
  return texts, np.array(labels, np.int32)


def texts(path: str, text_key: str) -> Iterator[str]:
  """Yields the texts of files. Lines need no label. For Args and Raises see `input_fn`."""
  for file in _files(path, "--input"):
    for number, row in _rows(file):
      if not isinstance(row, dict) or not isinstance(row.get(text_key), str):
        raise errors.InputError(f"{file}, line {number} has no {text_key!r} (--text_key).")
      yield row[text_key]


def _files(path, setting):
  # A name with brackets means a file first, and a pattern only without such a file.
  paths = [path] if tf.io.gfile.exists(path) else sorted(tf.io.gfile.glob(path))
  if not paths:
    raise errors.InputError(f"There is no file {path} ({setting}).")
  return paths


def _rows(path):
  """Yields (number of the line, dict) of each line of a file."""
  ending = path.rsplit(".", 1)[-1]
  if ending not in ("csv", "tsv", "jsonl"):
    raise errors.InputError(f"{path}: expected a name that ends in .csv, .tsv or .jsonl.")
  try:
    with tf.io.gfile.GFile(path) as file:
      # Spreadsheets begin a file with a byte-order mark. It is no part of the first name.
      lines = (line.removeprefix("\ufeff") for line in file)
      if ending == "jsonl":
        for number, line in enumerate(lines, 1):
          if line.strip():
            yield number, _parsed(line, path, number)
      else:
        csv.field_size_limit(_FIELD_LIMIT)
        quoting = dict(delimiter="\t", quoting=csv.QUOTE_NONE) if ending == "tsv" else {}
        reader = csv.DictReader(lines, **quoting)
        for row in reader:
          yield reader.line_num, {key: value for key, value in row.items() if key is not None}
  except (tf.errors.OpError, UnicodeDecodeError, csv.Error) as error:
    raise errors.InputError(f"Cannot read {path}: {_first_line(error)}") from error


def _parsed(line, path, number):
  try:
    return json.loads(line)
  except json.JSONDecodeError as error:
    raise errors.InputError(f"{path}, line {number} is not JSON: {error}") from error


def _label(value, classes, place):
  if classes is not None:
    if value not in classes:
      raise errors.InputError(
        f"{place} has the label {value!r}: expected one of "
        f"{', '.join(classes)} (text_lines.input_fn.classes)."
      )
    return classes.index(value)
  is_whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
  whole = str(int(value) if is_whole else value).strip()
  if not whole.isdecimal() or float(whole) > in_memory.LARGEST_LABEL:
    raise errors.InputError(
      f"{place} has the label {value!r}: expected an integer of at least 0, "
      f"{in_memory.LARGEST_LABEL:,} at most, or set text_lines.input_fn.classes to the names."
    )
  return int(whole)


def _first_line(error):
  return (str(error).splitlines() or [type(error).__name__])[0]
