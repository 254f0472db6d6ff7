"""tf.contrib.seq2seq: figures of seq2seq_2_15.json are TensorFlow Addons' on TensorFlow 2.15."""

import itertools
import json
import pathlib

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests import long
from trainer.compat.v1.contrib import seq2seq

EXPECTED = json.loads((pathlib.Path(__file__).parent / "seq2seq_2_15.json").read_text())

VOCABULARY, UNITS, BATCH, TIME, BEAMS = 7, 4, 3, 5, 3
_RANDOM = np.random.RandomState(3)
SHAPES = {
  "emb": [VOCABULARY, UNITS],
  "memory": [BATCH, TIME, 6],
  "basic_rnn_cell/kernel": [3 * UNITS, UNITS],
  "basic_rnn_cell/bias": [UNITS],
  "memory_layer/kernel": [6, UNITS],
  "query_layer/kernel": [UNITS, UNITS],
  "attention_v": [UNITS],
  "attention_g": None,
  "attention_b": [UNITS],
  "attention_layer/kernel": [UNITS + 6, UNITS],
  "proj/kernel": [UNITS, VOCABULARY],
  "init": [BATCH, UNITS],
}
VALUES = {
  name: np.float32(1.7 if shape is None else _RANDOM.randn(*shape))
  for name, shape in SHAPES.items()
}
VALUES["basic_rnn_cell/bias"] *= np.float32(0.1)
IDS = _RANDOM.randint(2, VOCABULARY, [BATCH, 4]).astype("int32")
LENGTHS = np.array([4, 2, 3], "int32")
MEMORY_LENGTHS = np.array([5, 3, 4], "int32")


def attention(kind, memory, lengths):
  if kind == "luong":
    return seq2seq.LuongAttention(UNITS, memory, lengths, scale=True)
  return seq2seq.BahdanauAttention(UNITS, memory, lengths, normalize=kind == "normed")


def decode(kind, mode):
  """What a decoder gives, to fetch."""
  beams = BEAMS if mode == "beam" else 1

  def tiled(value):
    return seq2seq.tile_batch(tf.constant(value), beams)

  mechanism = attention(kind, tiled(VALUES["memory"]), tiled(MEMORY_LENGTHS))
  cell = seq2seq.AttentionWrapper(
    tf.nn.rnn_cell.BasicRNNCell(UNITS), mechanism, UNITS, alignment_history=True
  )
  state = cell.zero_state(BATCH * beams, tf.float32).clone(cell_state=tiled(VALUES["init"]))
  layer = tf.layers.Dense(VOCABULARY, use_bias=False, name="proj")
  embedding, start = tf.constant(VALUES["emb"]), tf.fill([BATCH], 0)
  if mode == "beam":
    decoder = seq2seq.BeamSearchDecoder(
      cell, embedding, start, 1, state, BEAMS, layer, length_penalty_weight=0.6
    )
  else:
    helper = seq2seq.GreedyEmbeddingHelper(embedding, start, 1)
    if mode == "train":
      helper = seq2seq.TrainingHelper(tf.nn.embedding_lookup(embedding, IDS), LENGTHS)
    decoder = seq2seq.BasicDecoder(cell, helper, state, layer)
  outputs, final, lengths = seq2seq.dynamic_decode(
    decoder, maximum_iterations=6, impute_finished=mode != "beam"
  )
  if mode == "beam":
    scores = outputs.beam_search_decoder_output.scores
    return {"ids": outputs.predicted_ids, "scores": scores, "len": lengths}, final.cell_state
  return {"out": outputs.rnn_output, "ids": outputs.sample_id, "len": lengths}, final


# Each attention and each decoder is in the gate.
@pytest.mark.parametrize(
  "kind, mode",
  long.except_for(
    [("luong", "train"), ("luong", "beam"), ("bahdanau", "greedy"), ("normed", "beam")],
    itertools.product(["luong", "bahdanau", "normed"], ["train", "greedy", "beam"]),
  ),
)
def test_decoders_give_what_they_gave(kind, mode):
  with tf.Graph().as_default(), tf.Session() as session:
    given, state = decode(kind, mode)
    session.run(tf.global_variables_initializer())
    for variable in tf.global_variables():
      (end,) = (name for name in SHAPES if variable.op.name.endswith(name))
      variable.load(VALUES[end], session)
    history = state.alignment_history
    found, alignments = session.run([given, history if mode == "beam" else history.stack()])
  for name, expected in EXPECTED[f"{kind}/{mode}"].items():
    np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4, err_msg=name)
  sums = alignments.sum(-1)
  assert np.all((np.abs(sums - 1) < 1e-5) | (sums == 0))


def reverses(features, labels, mode):
  """A model that learns to say words backwards."""
  table = tf.get_variable("emb", [12, 8], initializer=tf.random_uniform_initializer(-0.5, 0.5, 1))
  with tf.variable_scope("enc"):
    rows = tf.nn.embedding_lookup(table, features["ids"])
    memory, state = tf.nn.dynamic_rnn(
      tf.nn.rnn_cell.GRUCell(8), rows, features["len"], dtype=tf.float32
    )
  cell = seq2seq.AttentionWrapper(
    tf.nn.rnn_cell.GRUCell(8), seq2seq.LuongAttention(8, memory, features["len"]), 8
  )
  batch = tf.shape(memory)[0]
  state = cell.zero_state(batch, tf.float32).clone(cell_state=state)
  if mode == tf.estimator.ModeKeys.PREDICT:
    helper = seq2seq.GreedyEmbeddingHelper(table, tf.zeros([batch], tf.int32), 1)
  else:
    given = tf.concat([tf.zeros_like(labels[:, :1]), labels[:, :-1]], 1)
    helper = seq2seq.TrainingHelper(tf.nn.embedding_lookup(table, given), features["len"])
  decoder = seq2seq.BasicDecoder(cell, helper, state, tf.layers.Dense(12))
  outputs, _, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=5)
  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.EstimatorSpec(mode, predictions={"ids": outputs.sample_id})
  time = tf.shape(outputs.rnn_output)[1]
  weights = tf.sequence_mask(features["len"], time, tf.float32)
  loss = seq2seq.sequence_loss(outputs.rnn_output, labels[:, :time], weights)
  train_op = tf.train.AdamOptimizer(0.05).minimize(loss, tf.train.get_global_step())
  return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize("device", long.except_for(["cpu"], ["cpu", "cpu:2", "xla:2"]))
def test_a_model_learns_to_say_words_backwards(tmp_path, monkeypatch, device):
  monkeypatch.setenv("OCTET_DEVICE", device)
  ids = np.random.RandomState(0).randint(2, 12, [6, 5]).astype("int32")

  def input_fn():
    features = {"ids": ids, "len": np.full([6], 5, "int32")}
    data = tf.data.Dataset.from_tensor_slices((features, ids[:, ::-1].copy()))
    return data.repeat().batch(6, drop_remainder=True)

  estimator = tf.estimator.Estimator(reverses, str(tmp_path))
  estimator.train(input_fn, steps=60)
  found = np.stack([row["ids"] for row in itertools.islice(estimator.predict(input_fn), 6)])
  assert (found == ids[:, ::-1]).mean() > 0.9
  names = estimator.get_variable_names()
  assert "decoder/attention_wrapper/gru_cell/gates/kernel" in names
  assert {"memory_layer/kernel", "decoder/dense/kernel"} <= set(names)


@pytest.mark.parametrize("axes", [(True, True), (True, False), (False, True), (False, False)])
def test_the_loss_of_sequences_is_weighted(axes):
  logits = np.random.RandomState(1).randn(2, 3, 4).astype("float32")
  targets, weights = np.array([[0, 1, 2], [3, 0, 1]]), np.float32([[1, 1, 0], [0.5, 1, 1]])
  with tf.Graph().as_default(), tf.Session() as session:
    found = session.run(
      seq2seq.sequence_loss(tf.constant(logits), tf.constant(targets), tf.constant(weights), *axes)
    )
  each = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, targets[..., None], 2)[..., 0]
  over = tuple(axis for axis, is_mean in zip((1, 0), axes, strict=True) if is_mean)
  expected = each * weights
  if over:
    expected = expected.sum(over) / weights.sum(over)
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_words_that_were_said_are_read_with_a_probability():
  embedding = tf.constant(VALUES["emb"])
  for probability in (0.0, 1.0):
    helper = seq2seq.ScheduledEmbeddingTrainingHelper(
      tf.nn.embedding_lookup(embedding, IDS), LENGTHS, embedding, probability
    )
    helper.initialize()
    said = helper.sample(0, tf.one_hot([1, 2, 3], VOCABULARY, 100.0), None)
    _, given, _ = helper.next_inputs(tf.constant(0), None, None, said)
    expected = VALUES["emb"][[1, 2, 3] if probability else IDS[:, 1]]
    np.testing.assert_allclose(given, expected)
