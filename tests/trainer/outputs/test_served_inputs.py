"""The inputs of a SavedModel: their names, their batch, and examples of them."""

import types

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.outputs import served_inputs


def test_features_have_names_by_their_places_and_a_free_batch():
  spec = tf.TensorSpec([4, 3])
  free = served_inputs.free_batch({"image": spec, "pair": (spec, {"a": spec})})
  inputs = served_inputs.ServedInputs(free, free)
  assert list(inputs.by_name) == ["image", "pair_0", "pair_1/a"]
  assert {tuple(leaf.shape) for leaf in inputs.by_name.values()} == {(None, 3)}
  packed = inputs.pack({"pair_1/a": 3, "image": 1, "pair_0": 2})
  assert packed == {"image": 1, "pair": (2, {"a": 3})}
  assert served_inputs.free_batch(spec).name == "features"
  assert served_inputs.input_name("mean age (years)") == "mean_age__years_"


def test_features_have_names_that_tensorflow_accepts():
  spec = tf.TensorSpec([4])
  free = served_inputs.free_batch({"größe x": spec, "日本": spec, "_a": [spec]})
  assert [leaf.name for leaf in tf.nest.flatten(free)] == ["a_0", "gr__e_x", "features"]
  with pytest.raises(errors.SettingError, match="Two features have the name 'gr__e' in an export"):
    served_inputs.free_batch({"größe": spec, "grüße": spec})
  dataset = tf.data.Dataset.from_tensors(({"größe": tf.zeros([1])},))
  inputs = served_inputs.of_dataset("eval", dataset, {"größe": len})
  assert list(inputs.by_name) == list(inputs.sample(1)[0]) == list(inputs.decoders) == ["gr__e"]


def test_a_sample_has_the_first_examples_with_their_labels():
  dataset = tf.data.Dataset.from_tensor_slices(({"x": np.arange(5.0)}, np.arange(5))).batch(2)
  features, labels = served_inputs.of_dataset("eval", dataset).sample(3)
  assert (features["x"].tolist(), labels.tolist()) == ([0.0, 1.0, 2.0], [0, 1, 2])
  alone = tf.data.Dataset.from_tensor_slices(({"x": np.arange(2.0)},)).batch(2)
  assert served_inputs.of_dataset("predict", alone).sample(3)[1] is None


def test_inputs_that_cannot_be_served_are_refused():
  with pytest.raises(errors.SettingError, match="give serving_input_receiver_fn, or evaluate"):
    served_inputs.of_dataset(None, None)
  empty = tf.data.Dataset.from_tensor_slices(({"x": np.zeros([0])},)).batch(2)
  with pytest.raises(errors.InputError, match="The eval input_fn gives no batch to check"):
    served_inputs.of_dataset("eval", empty).sample(3)


@pytest.mark.parametrize("as_pair", [True, False])
def test_a_receiver_makes_features_of_what_it_takes(as_pair):
  def receive():
    text = tf.compat.v1.placeholder(tf.string, [None], name="text")
    features = {"length": tf.strings.length(text)}
    if as_pair:
      return features, text
    return types.SimpleNamespace(features=features, receiver_tensors={"texts": text})

  inputs = served_inputs.of_receiver(receive)
  name = "input" if as_pair else "texts"
  assert list(inputs.by_name) == [name]
  made = inputs.to_features({name: tf.constant(["a", "bcd"])})
  assert made["length"].numpy().tolist() == [1, 3]
  assert not inputs.are_features
