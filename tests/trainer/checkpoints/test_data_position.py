"""Where a training begins in its data."""

import tensorflow as tf

from trainer.checkpoints import data_position, directory, reader


def input_fn(params):
  raise AssertionError("it is not called")


def other_input_fn(params):
  raise AssertionError("it is not called")


def checkpoint(folder, step, **values):
  checkpoints = directory.CheckpointDirectory(str(folder))
  checkpoints.save(step, {"global_step": tf.constant(step, tf.int64), **values})
  checkpoints.wait()
  return checkpoints.path(step)


def test_training_without_checkpoint_begins_at_first_example():
  assert data_position.DataPosition().of(None, input_fn, batch_size=8) == 0


def test_a_training_goes_on_where_its_checkpoint_was(tmp_path):
  seen = {reader.EXAMPLES_SEEN: tf.constant(100, tf.int64)}
  path = checkpoint(tmp_path, 5, **seen)
  assert data_position.DataPosition().of(path, input_fn, batch_size=8) == 100


def test_a_checkpoint_of_another_program_has_seen_a_batch_a_step(tmp_path):
  path = checkpoint(tmp_path, 5)
  assert data_position.DataPosition().of(path, input_fn, batch_size=8) == 40


def test_another_input_fn_begins_at_its_first_example(tmp_path):
  path = checkpoint(tmp_path, 5)
  position = data_position.DataPosition()
  position.begin(input_fn, 0)
  assert position.of(path, input_fn, batch_size=8) == 40
  assert position.of(path, other_input_fn, batch_size=8) == 0


def test_position_advances_and_returns_to_0_at_end_of_data():
  position = data_position.DataPosition()
  position.begin(input_fn, 16)
  position.advance(24)
  assert position.examples == 40
  position.mark_ended()
  assert position.examples == 0
