"""Counts the words of texts, and writes the most frequent ones as a vocabulary.

counted = count_words(["train.tsv"])
write("vocabulary.txt", most_frequent(counted, 30_000))
"""

import collections
import itertools
from collections.abc import Iterator, Sequence

import tensorflow as tf

from trainer import errors

from . import text_lines

_CHUNK = 1024  # texts to split in one call


def count_words(paths: Sequence[str], text_key: str = "text") -> collections.Counter[str]:
  """Counts the words of the texts in files.

  Args:
    paths: files and globs, see `text_lines.input_fn`.
    text_key: column or key of the text.

  Raises:
    InputError: reading a file failed, or a line has no text.
  """
  counted: collections.Counter[str] = collections.Counter()
  texts = itertools.chain.from_iterable(text_lines.texts(path, text_key) for path in paths)
  for chunk in _chunks(texts):
    words = text_lines.words_of(chunk).flat_values.numpy()
    counted.update(word.decode() for word in words)
  return counted


def most_frequent(
  counted: collections.Counter[str], size: int, min_count: int = 1
) -> tuple[str, ...]:
  """Returns the most frequent words.

  Args:
    counted: word → its number of occurrences.
    size: the most words to return.
    min_count: the least number of occurrences.
  """
  ordered = sorted(counted, key=lambda word: (-counted[word], word))
  return tuple(word for word in ordered[:size] if counted[word] >= min_count)


def write(path: str, words: Sequence[str]) -> None:
  """Writes a vocabulary, completely or not at all.

  Raises:
    OutputError: writing failed.
  """
  aside = f"{path}.writing"
  try:
    with tf.io.gfile.GFile(aside, "w") as file:
      file.write("".join(f"{word}\n" for word in words))
    tf.io.gfile.rename(aside, path, overwrite=True)
  except tf.errors.OpError as error:
    raise errors.OutputError(f"Cannot write the vocabulary: {error.message}") from error


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
  while chunk := list(itertools.islice(texts, _CHUNK)):
    yield chunk
