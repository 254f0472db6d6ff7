"""The table of a model's variables: what is its own, how much there is, in few lines."""

import tensorflow as tf

from tests.trainer import programs
from trainer.checkpoints import variable_table


def test_the_models_own_with_their_sums(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(programs.train_input, max_steps=1)
  text = variable_table.table(estimator.variables)
  assert text.startswith("The model has 4 parameters in 2 variables and trains 4:")
  assert "  w  (3,)  3  12 B" in text
  assert "learning_rate" not in text


def test_many_variables_are_shown_by_layer():
  variables = {
    f"layer_{index}/{name}": tf.Variable(tf.zeros([1024, 1024]))
    for index in range(20)
    for name in ("a", "b")
  }
  lines = variable_table.table(variables).splitlines()
  assert len(lines) == 22
  assert "layer_0 " in lines[1]
  assert "2 variables" in lines[1]
  assert lines[1].endswith("2,097,152  8.39 MB")
  assert (
    lines[0]
    == f"The model has {40 * 2**20:,} parameters in 40 variables and trains {40 * 2**20:,}:"
  )


def test_very_many_layers_are_cut():
  variables = {f"layer_{index}/a": tf.Variable(0.0) for index in range(100)}
  lines = variable_table.table(variables).splitlines()
  assert len(lines) == 27
  assert "76 more" in lines[13]
