"""Models of each kind of control flow, state and type, to be exported and run by engines.

To have a kind tested in every engine, add a line to FLOATS or WORDS.
"""

import types

import keras
import numpy as np
import tensorflow as tf

import trainer
from trainer import spec
from trainer.outputs import saved_model

ROWS = np.random.RandomState(0).normal(size=(5, 6)).astype(np.float32)
TEXTS = np.array([["G", "R"], ["B", ""], ["", ""], ["R", ""], ["unknown", "é"]])


def times_three(x):
  return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x))[1]


def until_large(x):
  """As many rounds as the values ask for."""
  return tf.while_loop(lambda y: tf.reduce_sum(y) < 1e4, lambda y: (y * 2.0,), (tf.abs(x) + 1.0,))[
    0
  ]


def loop_in_a_loop(x):
  def outer(i, y):
    return i + 1, tf.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y * 1.5), (0, y))[1]

  return tf.while_loop(lambda i, y: i < 4, outer, (0, x))[1]


def loop_of_a_variable(x):
  scale = tf.Variable(1.5, name="scale")
  return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * scale), (0, x))[1]


def branch_in_a_branch(x):
  def positive():
    return tf.cond(x[0, 0] > 0, lambda: x * 2, lambda: x * 3)

  return tf.cond(tf.reduce_sum(x) > 0, positive, lambda: -x)


def branch_of_a_variable(x):
  scale = tf.Variable(1.5, name="scale")
  return tf.cond(tf.reduce_sum(x) > 0, lambda: x * scale, lambda: x - scale)


def branch_in_a_map(x):
  return tf.map_fn(lambda row: tf.cond(row[0] > 0, lambda: row * 2, lambda: -row), x)


def tensor_array(x):
  array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[None])
  return array.unstack([x[:, 0], x[:, 1], x[:, 2]]).stack()[1]


def rows_of_other_lengths(x):
  return tf.RaggedTensor.from_tensor(x, tf.cast(tf.abs(x[:, 0]) * 3, tf.int64))


def sparse_product(x):
  weights = tf.Variable(np.arange(18, dtype=np.float32).reshape(6, 3), name="weights")
  return tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(tf.nn.relu(x)), weights)


def counted(x):
  """Assigns a variable in each call."""
  count = tf.Variable(0.0, name="count", trainable=False)
  return x + 0 * count.assign_add(1.0)


def drawn(x):
  """Reads and assigns the state of a generator, whose numbers do not show."""
  state = tf.Variable([1, 2, 3], dtype=tf.int64, name="state", trainable=False)
  return x + 0 * tf.random.Generator.from_state(state, "philox").uniform(tf.shape(x))


def number_table(x):
  pairs = tf.lookup.KeyValueTensorInitializer(
    tf.constant([0, 1], tf.int64), tf.constant([5.0, 7.0])
  )
  return tf.lookup.StaticHashTable(pairs, -1.0).lookup(tf.cast(x > 0, tf.int64))


def recurrent(layer, **settings):
  return lambda x: layer(4, name="recurrent", **settings)(x[..., None])


FLOATS = {
  "while": times_three,
  "while of values": until_large,
  "while in a while": loop_in_a_loop,
  "while of a variable": loop_of_a_variable,
  "fori_loop": lambda x: keras.ops.fori_loop(0, 4, lambda i, y: y + 1.0, x),
  "scan": lambda x: tf.transpose(tf.scan(lambda a, b: a * 0.5 + b, tf.transpose(x))),
  "foldl": lambda x: tf.foldl(lambda a, b: a + b, tf.transpose(x)),
  "map_fn": lambda x: tf.map_fn(tf.reduce_max, x),
  "vectorized_map": lambda x: tf.vectorized_map(lambda row: tf.reduce_max(row) * row, x),
  "LSTM": recurrent(keras.layers.LSTM),
  "GRU": recurrent(keras.layers.GRU),
  "SimpleRNN": recurrent(keras.layers.SimpleRNN, return_sequences=True),
  "LSTM with a mask": lambda x: keras.layers.LSTM(4)(x[..., None], mask=x > -1),
  "unrolled LSTM": recurrent(keras.layers.LSTM, unroll=True),
  "bidirectional": lambda x: keras.layers.Bidirectional(keras.layers.GRU(3))(x[..., None]),
  "cond": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x[:, 0], lambda: -x[:, 0]),
  "cond in a cond": branch_in_a_branch,
  "cond of a variable": branch_of_a_variable,
  "cond in a map_fn": branch_in_a_map,
  "switch_case": lambda x: tf.switch_case(
    tf.cast(tf.reduce_sum(x) > 0, tf.int32), [lambda: x[:, 0], lambda: x[:, 1]]
  ),
  "TensorArray": tensor_array,
  "ragged": lambda x: tf.reduce_sum(rows_of_other_lengths(x), 1),
  "map_fn of ragged": lambda x: tf.map_fn(
    tf.reduce_sum, rows_of_other_lengths(x), fn_output_signature=tf.float32
  ),
  "sparse": sparse_product,
  "random": lambda x: x + tf.random.stateless_uniform(tf.shape(x), [1, 2]),
  "generator": drawn,
  "counter": counted,
  "table of numbers": number_table,
  "IntegerLookup": lambda x: keras.layers.IntegerLookup(vocabulary=[0, 1])(
    tf.cast(x > 0, tf.int64)
  ),
  "strings inside": lambda x: tf.strings.to_number(tf.strings.as_string(x)),
  "strings out": lambda x: tf.strings.as_string(tf.cast(x * 10, tf.int32)),
  "bool": lambda x: x > 0,
  "bfloat16": lambda x: tf.cast(x, tf.bfloat16) * 2,
  "float64": lambda x: tf.cast(x, tf.float64) * 2,
  "complex": lambda x: tf.abs(tf.signal.rfft(x)),
  "uint8": lambda x: tf.cast(tf.abs(x) * 40, tf.uint8),
  "sizes of values": lambda x: tf.unique(tf.cast(tf.reshape(x, [-1]), tf.int32))[0],
  "embedding": lambda x: keras.layers.Embedding(3, 2)(tf.cast(x > 0, tf.int32)),
  "normalization": lambda x: keras.layers.BatchNormalization()(keras.layers.Dense(3)(x)),
  "compiled": lambda x: tf.function(lambda y: y * 2 + 1, jit_compile=True)(x),
}


def table(make=tf.lookup.StaticHashTable, last=0, first=1):
  ids = tf.range(first, first + 3, dtype=tf.int64)
  return make(tf.lookup.KeyValueTensorInitializer(["R", "G", "B"], ids), last)


WORDS = {
  "StaticHashTable": lambda w: table().lookup(w),
  "StaticVocabularyTable": lambda w: table(tf.lookup.StaticVocabularyTable, 1, 0).lookup(w),
  "StringLookup": lambda w: keras.layers.StringLookup(vocabulary=["R", "G", "B"])(w),
  "table in a map_fn": lambda w: tf.map_fn(table().lookup, w, fn_output_signature=tf.int64),
  "Hashing": lambda w: keras.layers.Hashing(10)(w),
  "split": lambda w: tf.strings.split(w[:, 0], "").to_tensor("", shape=[None, 4]),
  "TextVectorization": lambda w: keras.layers.TextVectorization(
    vocabulary=["r", "g"], output_sequence_length=3
  )(w[:, 0]),
}
KINDS = FLOATS | WORDS


def inputs(kind):
  """(name of the feature, its array) of a kind."""
  return ("x", ROWS) if kind in FLOATS else ("w", TEXTS)


def export(kind, folder):
  """Exports a model of a kind with its initial values; returns the path of the SavedModel."""
  name, array = inputs(kind)
  dataset = tf.data.Dataset.from_tensors(({name: array},))
  model_fn = spec.ModelFn(_model_fn)
  program = saved_model.build(model_fn, {"kind": kind}, trainer.RunConfig(str(folder)))
  settings = trainer.ExportOptions(from_examples=False, warm_up_batches=())
  feeder = types.SimpleNamespace(feature_dataset=("predict", dataset))
  path = str(folder / "export")
  saved_model.write(saved_model.trace(program, feeder, None, settings), path, {})
  return path


def _model_fn(features, labels, mode, params):
  (feature,) = features.values()
  return trainer.EstimatorSpec(mode, predictions={"y": KINDS[params["kind"]](feature)})
