"""What programs that label words take of tf.contrib: tables, recurrent networks, a CRF."""

import itertools

import numpy as np
import pytest

import trainer.compat.v1 as tf
from trainer.compat.estimator import input_fns
from trainer.compat.v1 import contrib
from trainer.compat.v1 import estimator as tf_estimator

WORDS = ["a", "b", "c", "d"]
LENGTHS = [4, 2, 0]


def potentials():
  random = np.random.RandomState(0)
  inputs, transitions = random.randn(3, 4, 3), random.randn(3, 3)
  return inputs.astype(np.float32), random.randint(0, 3, [3, 4]), transitions.astype(np.float32)


def scores(inputs, transitions, length):
  """By sequence of tags, its score."""
  return {
    tags: sum(inputs[i, tag] for i, tag in enumerate(tags))
    + sum(transitions[pair] for pair in itertools.pairwise(tags))
    for tags in itertools.product(range(3), repeat=length)
  }


def test_a_crf_is_what_all_sequences_of_tags_say():
  inputs, tags, transitions = potentials()
  found, _ = contrib.crf.crf_log_likelihood(inputs, tags, LENGTHS, transitions)
  decoded, best = contrib.crf.crf_decode(inputs, transitions, LENGTHS)
  for row, length in enumerate(LENGTHS[:2]):
    every = scores(inputs[row], transitions, length)
    wanted = every[tuple(tags[row, :length])] - np.log(np.sum(np.exp(list(every.values()))))
    assert float(found[row]) == pytest.approx(wanted, rel=1e-5)
    first = max(every, key=every.get)
    assert decoded[row].numpy().tolist() == [*first] + [0] * (4 - length)
    assert float(best[row]) == pytest.approx(every[first], rel=1e-5)
    viterbi, score = contrib.crf.viterbi_decode(inputs[row, :length], transitions)
    assert (tuple(viterbi), score) == (first, pytest.approx(every[first], rel=1e-5))
  assert (float(found[2]), decoded[2].numpy().tolist()) == (0.0, [0] * 4)


def test_stacked_bidirectional_layers_have_the_names_of_1_15():
  with tf.Graph().as_default():
    forward, backward = ([contrib.rnn.LSTMCell(2) for _ in range(2)] for _ in range(2))
    inputs = tf.zeros([3, 4, 5])
    outputs, _, last = contrib.rnn.stack_bidirectional_dynamic_rnn(
      forward, backward, inputs, dtype=tf.float32, sequence_length=LENGTHS
    )
    assert (outputs.shape, len(last)) == ([3, 4, 4], 2)
    way = "stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/lstm_cell/kernel"
    assert way in [one.op.name for one in tf.trainable_variables()]
  with pytest.raises(ValueError, match="same depth"):
    contrib.rnn.stack_bidirectional_dynamic_rnn(forward, [], inputs)


def _words(row):
  return tf.string_split([row]).values


def test_tables_of_a_model_fn_and_batches_of_any_width(tmp_path):
  vocabulary = tmp_path / "words.txt"
  vocabulary.write_text("\n".join(WORDS) + "\n")

  def input_fn():
    rows = [b"a b c", b"d", b"b nothing", b"c a d b"]
    data = tf.data.Dataset.from_tensor_slices(rows).map(_words)
    return data.padded_batch(2, [None], b"a").map(lambda words: {"words": words})

  def model_fn(features, labels, mode):
    table = contrib.lookup.index_table_from_file(str(vocabulary), num_oov_buckets=1)
    back = contrib.lookup.index_to_string_table_from_file(str(vocabulary), default_value="?")
    ids = table.lookup(features["words"])
    counts = tf.get_variable("counts", [5], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.gather(counts, ids))
    train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
    predictions = {"words": back.lookup(ids), "ids": ids}
    return tf_estimator.EstimatorSpec(mode, predictions, loss, train_op)

  config = tf_estimator.RunConfig(device="cpu", save_checkpoints_secs=3600)
  made = tf_estimator.Estimator(model_fn, str(tmp_path / "model"), config)
  made.train(input_fn)
  assert made.get_variable_value("counts").tolist() == [-6, -3, -2, -2, -1]  # with padding
  found = [one["words"].tolist() for one in made.predict(input_fn)]
  assert found == [
    [b"a", b"b", b"c"],
    [b"d", b"a", b"a"],
    [b"b", b"?", b"a", b"a"],
    [b"c", b"a", b"d", b"b"],
  ]


def test_tables_and_unknown_ranks_of_an_input_fn(tmp_path):
  """A table beside a one-shot iterator, and labels without a shape, as after from_generator."""

  def input_fn():
    rows = tf.data.Dataset.from_generator(lambda: iter("abcd"), tf.string).repeat(2)
    words = rows.batch(2).make_one_shot_iterator().get_next()
    table = contrib.lookup.index_table_from_tensor(tf.constant(WORDS))
    return {"words": words}, table.lookup(words)

  def model_fn(features, labels, mode):
    assert features["words"].shape.as_list() == labels.shape.as_list() == [None]
    counts = tf.get_variable("counts", [4], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.gather(counts, labels))
    train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, {"labels": labels}, loss, train_op)

  config = tf_estimator.RunConfig(device="cpu", save_checkpoints_secs=3600)
  made = tf_estimator.Estimator(model_fn, str(tmp_path / "model"), config)
  made.train(input_fn, steps=3)
  assert made.get_variable_value("counts").tolist() == [-2, -2, -1, -1]
  made.train(input_fn, steps=4)
  assert made.get_variable_value("counts").tolist() == [-4, -4, -3, -3]


def test_a_grouped_dataset_makes_iterators_in_an_input_fn():
  def input_fn():
    rows = contrib.data.Dataset.range(6).group_by_window(
      key_func=lambda x: x % 2, reduce_func=lambda key, data: data.batch(3), window_size=3
    )
    return {"x": rows.take_while(lambda x: x[0] < 9).make_one_shot_iterator().get_next()}

  found = [one["x"].tolist() for one in input_fns.call(input_fn).as_numpy_iterator()]
  assert found == [[0, 2, 4], [1, 3, 5]]


def test_tables_of_numbers_and_what_they_do_not_have():
  table = contrib.lookup.index_table_from_tensor([7, 5], dtype=tf.int64, default_value=9)
  assert table.lookup(tf.constant([5, 7, 6], tf.int64)).numpy().tolist() == [1, 0, 9]
  with pytest.raises(ValueError, match="`vocabulary_file` must be specified"):
    contrib.lookup.index_table_from_file("")
  with pytest.raises(ValueError, match="Expected non-integer, got"):
    contrib.lookup.index_table_from_tensor([7, 5])


def test_a_predictor_calls_a_signature(tmp_path):
  module = tf.compat.v2.Module()
  module.double = tf.compat.v2.function(
    lambda x: {"y": 2 * x}, input_signature=[tf.TensorSpec([None], tf.float32, name="x")]
  )
  tf.compat.v2.saved_model.save(
    module, str(tmp_path), signatures={"serving_default": module.double}
  )
  predict = contrib.predictor.from_saved_model(str(tmp_path))
  assert predict({"x": [1, 2]})["y"].tolist() == [2.0, 4.0]
  with pytest.raises(ValueError, match="the signature takes"):
    predict({"z": [1]})
  with pytest.raises(Exception, match="has no signature 'other'"):
    contrib.predictor.from_saved_model(str(tmp_path), signature_def_key="other")


def test_dynamic_rnn_makes_its_variables_in_every_mode(tmp_path):
  def model_fn(features, labels, mode):
    cell = tf.nn.rnn_cell.BasicLSTMCell(2)
    outputs, _ = tf.nn.dynamic_rnn(cell, features["x"], dtype=tf.float32)
    loss = tf.reduce_mean(outputs)
    train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
    predictions = {"y": outputs[:, -1]}
    return tf_estimator.EstimatorSpec(mode, predictions, loss, train_op)

  def input_fn():
    return tf.data.Dataset.from_tensors({"x": np.ones([4, 3, 2], np.float32)})

  made = tf_estimator.Estimator(model_fn, str(tmp_path), tf_estimator.RunConfig(device="cpu"))
  made.train(input_fn)
  assert len(list(made.predict(input_fn))) == 4
  assert np.isfinite(made.evaluate(input_fn)["loss"])
  assert "rnn/basic_lstm_cell/kernel" in made.get_variable_names()


def test_a_cell_is_a_layer():
  cell = tf.nn.rnn_cell.GRUCell(2)
  assert isinstance(cell, tf.layers.Layer)
  assert not isinstance(cell, tf.layers.Dense)


def test_a_cell_of_a_program_has_a_spec_and_is_called_as_a_layer():
  """As forks of tf.contrib.rnn have it: LayerRNNCell calls tf.layers.Layer's own __call__."""

  class Cell(tf.nn.rnn_cell.RNNCell):
    state_size = output_size = 3

    def __init__(self):
      super().__init__(name="own_cell")
      self.input_spec = tf.layers.InputSpec(ndim=2)

    def __call__(self, inputs, state, *args, scope=None, **kwargs):
      return tf.layers.Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)

    def build(self, shape):
      self.kernel = self.add_variable("kernel", [int(shape[1]), self.output_size])
      self.built = True

    def call(self, inputs, state):
      output = tf.matmul(inputs, self.kernel) + state
      return output, output

  with tf.Graph().as_default():
    outputs, _ = tf.nn.dynamic_rnn(Cell(), tf.ones([2, 4, 5]), dtype=tf.float32)
    assert [variable.op.name for variable in tf.global_variables()] == ["rnn/own_cell/kernel"]
    assert outputs.shape == [2, 4, 3]
    with pytest.raises(ValueError, match="expected ndim=2, found ndim=3"):
      Cell()(tf.ones([2, 4, 5]), tf.zeros([2, 3]))
