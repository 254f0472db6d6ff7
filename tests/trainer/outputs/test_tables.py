"""Look-up tables that traced functions use."""

import gc

import tensorflow as tf

from trainer.outputs import tables


def table(key="a"):
  initializer = tf.lookup.KeyValueTensorInitializer([key], tf.constant([7], tf.int64))
  return tf.lookup.StaticHashTable(initializer, -1)


def traced(fn):
  return tf.function(fn, autograph=False).get_concrete_function(tf.TensorSpec([], tf.string)).graph


def test_tables_are_collected_inside_of_the_block_alone():
  before = table()
  with tables.remembered() as made:
    first = table()
    with tables.remembered() as inner:
      second = table()
    third = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
  after = table()
  assert [id(each) for each in made if each is not before] == [id(first), id(third)]
  assert [id(each) for each in inner] == [id(second)]
  assert after not in made


def test_only_the_tables_that_functions_use_are_found():
  with tables.remembered() as made:
    used, other = table(), table("b")
  found = tables.used_by([traced(used.lookup), traced(tf.strings.upper)], made)
  assert len(made) == 2
  assert found == [used]
  del other


def test_a_table_of_a_module_is_found_without_a_record():
  used = table()
  assert tables.used_by([traced(used.lookup)], []) == [used]


def test_variables_are_no_tables():
  variable = tf.Variable(1.0)
  graph = traced(lambda text: variable + tf.cast(tf.strings.length(text), tf.float32))
  assert tables.used_by([graph], []) == []


def test_a_model_without_tables_searches_no_object(monkeypatch):
  monkeypatch.setattr(gc, "get_objects", lambda: 1 / 0)
  assert tables.used_by([traced(tf.strings.upper)], []) == []
