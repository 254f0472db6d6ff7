"""Predictions for groups of batches: all examples, in order, without padding."""

import numpy as np
import pytest
import tensorflow as tf

from trainer.inputs import groups
from trainer.programs import predict_loop


class Program:
  """Predicts twice the feature of each replica's batch."""

  def run_step(self, kind, batches):
    values = tf.concat([batch[0]["x"] for batch in batches], 0)
    return {"y": 2 * values, "row": values[:, tf.newaxis]}, kind


def predictions(count, per_core, replicas, known=True, with_examples=False):
  features = {"x": np.arange(count, dtype=np.float32)}
  dataset = tf.data.Dataset.from_tensor_slices((features,)).batch(per_core)
  grouped = groups.group(dataset, per_core, replicas)
  traced = predict_loop.trace(Program(), replicas, replicas == 1, grouped.element_spec)
  number = -(-count // (per_core * replicas)) if known else None
  return list(traced.run(traced.read(grouped), number, with_examples)), traced


@pytest.mark.parametrize(
  ("count", "per_core", "replicas", "known"),
  [(8, 4, 1, True), (13, 2, 2, False), (3, 4, 2, True), (70, 1, 1, True)],
)
def test_each_example_has_one_prediction_in_its_place(count, per_core, replicas, known):
  found, traced = predictions(count, per_core, replicas, known)
  assert (traced.step, traced.at_once) == ("predict", 32 if replicas == 1 else 1)
  np.testing.assert_array_equal(
    np.concatenate([each["y"] for each, _ in found]), 2 * np.arange(count, dtype=np.float32)
  )
  assert all(each["row"].shape == (len(each["y"]), 1) for each, _ in found)
  assert {element for _, element in found} == {None}


def test_examples_come_with_their_predictions():
  found, _ = predictions(67, 1, 1, with_examples=True)
  for each, (features,) in found:
    np.testing.assert_array_equal(each["y"], 2 * features["x"])


def test_no_example_gives_no_prediction():
  assert predictions(0, 4, 1)[0] == []


def test_examples_of_unknown_length_are_brought_together():
  tensor = tf.reshape(tf.range(24.0), [2, 3, 4])

  @tf.function(input_signature=[tf.TensorSpec([2, 3, None], tf.float32)], autograph=False)
  def joined(tensor):
    return predict_loop._of_all_replicas(tensor)

  np.testing.assert_array_equal(joined(tensor), tf.reshape(tensor, [6, 4]))


@pytest.mark.parametrize("groups_known", [True, False])
def test_predictions_may_differ_in_their_length(groups_known):
  """No call stacks several groups then."""
  lengths = [2, 5, 1] * 30
  dataset = tf.data.Dataset.from_generator(
    lambda: (({"x": np.full((2, length), length, np.float32)},) for length in lengths),
    output_signature=({"x": tf.TensorSpec([2, None])},),
  )
  grouped = groups.group(dataset, 2, 1)
  traced = predict_loop.trace(Program(), 1, True, grouped.element_spec)
  found = traced.run(traced.read(grouped), len(lengths) if groups_known else None)
  assert [each["y"].shape for each, _ in found] == [(2, length) for length in lengths]
  assert traced.at_once == 1
