"""Where variables begin: init_from_checkpoint with each form of its map, and Scaffolds."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests.compat.test_estimator import batches
from trainer import errors
from trainer.compat.v1 import estimator as tf_estimator

# form → (map of a checkpoint with "old/a", "old/b" and "c", what "new/a", "new/b" and "c" become)
FORMS = {
  "scope to scope": ({"old/": "new/"}, (1, 2, 0)),
  "name to name": ({"old/a": "new/b"}, (0, 1, 0)),
  "name to variable": ({"old/b": lambda found: found["new/a"]}, (2, 0, 0)),
  "name to list": ({"c": lambda found: [found["new/a"]]}, (3, 0, 0)),
  "root to root": ({"/": "/"}, (1, 2, 3)),  # into a model with the names of the checkpoint
  "several": ({"old/": "new/", "c": "c"}, (1, 2, 3)),
}


def _variables(scope):
  """Those of a model, which begin as zeros."""
  zeros = tf.zeros_initializer()
  with tf.variable_scope(scope):
    found = [tf.get_variable(name, [2], initializer=zeros) for name in "ab"]
  return {one.op.name: one for one in [*found, tf.get_variable("c", [2], initializer=zeros)]}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
  path = str(tmp_path_factory.mktemp("old") / "model.ckpt")
  with tf.Graph().as_default(), tf.Session() as session:
    found = _variables("old")
    for value, one in zip((1.0, 2.0, 3.0), found.values(), strict=True):
      session.run(one.initializer)
      session.run(tf.assign(one, [value, value]))
    return tf.train.Saver().save(session, path)


def _estimator(folder, prepare, scope="new", device="cpu"):
  """An Estimator whose training changes nothing; `prepare` gets the variables and the mode."""

  def model_fn(features, labels, mode):
    found = _variables(scope)
    scaffold = prepare(found, mode)
    loss = tf.reduce_mean(tf.add_n(list(found.values()))) + 0.0 * tf.reduce_sum(features["x"])
    train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)

  config = tf_estimator.RunConfig(device=device, save_checkpoints_secs=3600)
  return tf_estimator.Estimator(model_fn, str(folder), config)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_the_map(tmp_path, checkpoint, form):
  given, wanted = FORMS[form]
  scope = "old" if form == "root to root" else "new"

  def prepare(found, mode):
    del mode
    named = {key: to(found) if callable(to) else to for key, to in given.items()}
    tf.train.init_from_checkpoint(checkpoint, named)

  made = _estimator(tmp_path, prepare, scope).train(batches(16), steps=1)
  names = (f"{scope}/a", f"{scope}/b", "c")
  np.testing.assert_array_equal([made.get_variable_value(name)[0] for name in names], wanted)


def test_a_saver_of_a_scaffold_says_which_names_are_evaluated(tmp_path):
  def prepare(found, mode):
    if mode == tf_estimator.ModeKeys.TRAIN:
      tf.train.init_from_checkpoint(begun, {"c": found["new/a"]})
      return None
    # "new/b" is what "new/a" was saved as; the others are what they were.
    return tf.train.Scaffold(saver=tf.train.Saver({"new/a": found["new/b"]}))

  with tf.Graph().as_default(), tf.Session() as session:
    found = _variables("old")
    session.run([one.initializer for one in found.values()])
    session.run(tf.assign(found["c"], [5.0, 5.0]))
    begun = tf.train.Saver().save(session, str(tmp_path / "begun" / "model.ckpt"))
  made = _estimator(tmp_path / "model", prepare).train(batches(16), steps=1)
  assert made.evaluate(batches(16, epochs=1))["loss"] == pytest.approx(10.0)  # 5 + 5 + 0


@pytest.mark.parametrize("by", ["saver", "assign_from_checkpoint_fn"])
@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_an_init_fn_that_restores_is_where_variables_begin(tmp_path, checkpoint, by, device):
  def prepare(found, mode):
    named = {"old/b": found["new/a"], "c": found["c"]}
    if by == "saver":
      saver = tf.train.Saver(named)
      return tf.train.Scaffold(init_fn=lambda _, session: saver.restore(session, checkpoint))
    assign = tf.contrib.framework.assign_from_checkpoint_fn(checkpoint, named)
    return tf.train.Scaffold(init_fn=lambda _, session: assign(session))

  made = _estimator(tmp_path, prepare, device=device).train(batches(16), steps=1)
  found = [made.get_variable_value(name)[0] for name in ("new/a", "new/b", "c")]
  np.testing.assert_array_equal(found, [2, 0, 3])


@pytest.mark.parametrize(
  ("given", "told"),
  [
    ({"init_op": "an operation"}, "init_op"),
    ({"init_fn": lambda _, session: session.run("all")}, "init_fn asks for the value of 'all'"),
  ],
)
def test_scaffold_that_needs_a_session_fails_before_any_write(tmp_path, given, told):
  made = _estimator(tmp_path, lambda found, mode: tf.train.Scaffold(**given))
  with pytest.raises(errors.SettingError, match=told):
    made.train(batches(16), steps=1)
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("from_iterator", [False, True])
@pytest.mark.parametrize("device", ["cpu", "cpu:2"])
def test_sparse_features_are_trained_on(tmp_path, device, from_iterator):
  """A SparseTensor of a batch reaches the model_fn, from a dataset and from an iterator."""
  rows = [[0, 2], [1], [2, 2, 1], [0]]

  def input_fn():
    places = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    ids = tf.SparseTensor(places, [one for row in rows for one in row], [4, 3])
    data = tf.data.Dataset.from_tensor_slices(({"ids": ids}, [1.0, 2.0, 3.0, 4.0]))
    data = data.repeat(2).batch(4)
    return data.make_one_shot_iterator().get_next() if from_iterator else data

  def model_fn(features, labels, mode):
    assert isinstance(features["ids"], tf.SparseTensor)
    counts = tf.get_variable("counts", [3], initializer=tf.zeros_initializer())
    found = tf.reduce_sum(tf.gather(counts, features["ids"].values))
    loss = found / 4.0 + 0.0 * tf.reduce_mean(labels)
    train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, tf.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  config = tf_estimator.RunConfig(device=device, save_checkpoints_secs=3600)
  made = tf_estimator.Estimator(model_fn, str(tmp_path), config).train(input_fn, steps=1)
  share = 1.0 if device == "cpu" else 0.5  # a sum over a core's share: the cores' mean
  wanted = -share * np.array([2, 2, 3]) / 4
  np.testing.assert_allclose(made.get_variable_value("counts"), wanted, rtol=1e-6)


def test_sparse_rows_of_other_lengths_are_shared_by_the_cores(tmp_path):
  places = [[0, 0], [0, 2], [1, 1], [2, 0], [2, 1], [2, 2], [4, 0]]
  ids = tf.SparseTensor(places, [float(i) for i in range(7)], [6, 3])

  def input_fn(rows=2):
    return tf.data.Dataset.from_tensor_slices({"ids": ids}).batch(rows)

  def model_fn(features, labels, mode):
    sums = tf.reduce_sum(tf.sparse.to_dense(features["ids"]), 1)
    if mode == tf_estimator.ModeKeys.PREDICT:
      return tf_estimator.EstimatorSpec(mode, predictions={"sum": sums})
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    loss = weight * tf.reduce_mean(sums)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  config = tf_estimator.RunConfig(device="cpu:2", save_checkpoints_secs=3600)
  made = tf_estimator.Estimator(model_fn, str(tmp_path), config).train(input_fn, steps=2)
  found = [one["sum"] for one in made.predict(lambda: input_fn(4))]
  assert found == [1.0, 2.0, 12.0, 0.0, 6.0, 0.0]
