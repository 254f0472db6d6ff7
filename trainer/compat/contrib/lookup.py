"""tf.contrib.lookup: tables between strings and indices, built on tf.lookup."""

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1

_LINE = tf.lookup.TextFileIndex.WHOLE_LINE
_NUMBER = tf.lookup.TextFileIndex.LINE_NUMBER


def index_table_from_file(
  vocabulary_file: Any = None,
  num_oov_buckets: int = 0,
  vocab_size: int | None = None,
  default_value: int = -1,
  hasher_spec: Any = None,
  key_dtype: Any = tf.string,
  name: str | None = None,
  key_column_index: int = _LINE,
  value_column_index: int = _NUMBER,
  delimiter: str = "\t",
) -> Any:
  """Returns a table from the lines of a file to their line numbers.

  Args:
    num_oov_buckets: the number of indices for keys that the file lacks, chosen by hash; with 0,
      their index is default_value.
    vocab_size: the number of lines to read; None for all.
    key_dtype: tf.string, or an integer type.
  """
  if not vocabulary_file:
    raise ValueError("vocabulary_file must be specified and must not be empty.")
  key_dtype = tf.as_dtype(key_dtype)
  initializer = tf.lookup.TextFileInitializer(
    vocabulary_file,
    tf.int64 if key_dtype.is_integer else key_dtype,
    key_column_index,
    tf.int64,
    value_column_index,
    vocab_size,
    delimiter,
  )
  return _indices(initializer, num_oov_buckets, default_value, hasher_spec, key_dtype, name)


def index_table_from_tensor(
  mapping: Any,
  num_oov_buckets: int = 0,
  default_value: int = -1,
  hasher_spec: Any = None,
  dtype: Any = tf.string,
  name: str | None = None,
) -> Any:
  """Returns a table from a vector's entries to their positions; see index_table_from_file."""
  if mapping is None:
    raise ValueError("mapping must be specified.")
  keys = tf.convert_to_tensor(mapping)
  dtype = tf.as_dtype(dtype)
  if keys.dtype.is_integer:
    if not dtype.is_integer:
      raise ValueError(f"Expected {dtype.name}, got {keys.dtype.name}: mapping and dtype differ.")
    keys = tf.cast(keys, tf.int64)
  values = tf.range(tf.size(keys, tf.int64), dtype=tf.int64)
  initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
  return _indices(initializer, num_oov_buckets, default_value, hasher_spec, dtype, name)


def index_to_string_table_from_file(
  vocabulary_file: Any,
  vocab_size: int | None = None,
  default_value: str = "UNK",
  name: str | None = None,
  key_column_index: int = _NUMBER,
  value_column_index: int = _LINE,
  delimiter: str = "\t",
) -> tf.lookup.StaticHashTable:
  """Returns a table from line numbers, int64, to a file's lines."""
  if not vocabulary_file:
    raise ValueError("vocabulary_file must be specified and must not be empty.")
  initializer = tf.lookup.TextFileInitializer(
    vocabulary_file,
    tf.int64,
    key_column_index,
    tf.string,
    value_column_index,
    vocab_size,
    delimiter,
  )
  return HashTable(initializer, default_value, name=name)


def index_to_string_table_from_tensor(
  mapping: Any, default_value: str = "UNK", name: str | None = None
) -> tf.lookup.StaticHashTable:
  """Returns a table from positions in a vector of strings, int64, to its entries."""
  if mapping is None:
    raise ValueError("mapping must be specified.")
  values = tf.convert_to_tensor(mapping, tf.string)
  keys = tf.range(tf.size(values, tf.int64), dtype=tf.int64)
  initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
  return HashTable(initializer, default_value, name=name)


class HashTable(v1.lookup.StaticHashTable):
  """The older name of tf.lookup.StaticHashTable."""

  def __init__(
    self,
    initializer: Any,
    default_value: Any,
    shared_name: str | None = None,
    name: str | None = None,
  ):
    del shared_name
    super().__init__(initializer, default_value, name)

  @property
  def init(self) -> Any:
    return self.initializer


def _indices(
  initializer: Any, buckets: int, default: int, hasher_spec: Any, dtype: tf.DType, name: str | None
) -> Any:
  if hasher_spec is not None and getattr(hasher_spec, "hasher", "fasthash") != "fasthash":
    raise ValueError("Tables of tf.lookup have FastHashSpec alone.")
  if buckets:
    return v1.lookup.StaticVocabularyTable(initializer, buckets, dtype, name)
  return HashTable(initializer, default, name=name)
