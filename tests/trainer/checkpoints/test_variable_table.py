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


def test_very_many_variables_are_cut():
  variables = {f"layer_{index}/a": tf.Variable(tf.zeros([1024])) for index in range(100)}
  lines = variable_table.table(variables).splitlines()
  assert lines[0] == "The model has 102,400 parameters in 100 variables and trains 102,400:"
  assert len(lines) == 27
  assert "layer_11/a" in lines[12]
  assert "76 more" in lines[13]
  assert "layer_88/a" in lines[14]
