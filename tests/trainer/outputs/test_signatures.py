"""The signatures of an export: names, inputs and outputs; `test_preprocessing` exports them."""

import types

import numpy as np
import pytest
import tensorflow as tf

from trainer.outputs import served_inputs, signatures

SPEC = {"x": tf.TensorSpec([None], tf.float32, "x")}


@tf.function
def predict(features):
  x = features["x"]
  scores = tf.stack([x, 1 - x], 1)
  return {"serving_default": {"probabilities": scores, "twice": 2 * x}, "alone": x + 1}


OUTPUTS = predict.get_concrete_function(SPEC).structured_outputs


def inputs_of(spec=SPEC, to_features=lambda received: received):
  return served_inputs.ServedInputs(spec, SPEC, to_features)


def test_the_models_own_signatures_have_their_outputs_by_name():
  made = signatures.of_model(predict, OUTPUTS, inputs_of(), {})
  x = tf.constant([0.25, 0.5])
  assert made["alone"]({"x": x})["output"].numpy().tolist() == [1.25, 1.5]
  assert made["serving_default"]({"x": x})["twice"].numpy().tolist() == [0.5, 1.0]


def test_a_method_of_the_server_takes_examples_as_inputs():
  spec = tf.TensorSpec([None], tf.string, "examples")
  inputs = inputs_of(spec, lambda text: {"x": tf.strings.to_number(text)})
  made = signatures.of_model(predict, OUTPUTS, inputs, {"alone": "regress"})
  assert [each.name for each in made["alone"].input_signature] == ["inputs"]
  assert made["alone"](tf.constant(["2"]))["output"].numpy().tolist() == [3.0]
  assert [each.name for each in made["serving_default"].input_signature] == ["examples"]


def preprocessing(**settings):
  """Makes features of texts; an Example is a text, too."""
  parse = lambda texts: {"text": texts}
  to_features = lambda received: {"x": tf.strings.to_number(received["text"])}
  given = dict(
    signature="from_raw",
    spec={"text": tf.TensorSpec([None], tf.string, "text")},
    to_features=to_features,
    parse=parse,
    has_fixed_shapes=True,
  )
  return types.SimpleNamespace(**given | settings)


def beside(names=("ant", "bee"), from_examples=True, outputs=OUTPUTS, **settings):
  return signatures.beside_model(
    predict, outputs, inputs_of(), preprocessing(**settings), names, from_examples
  )


def test_users_values_and_examples_give_the_main_output():
  made = beside()
  assert set(made) == {"from_raw", "from_examples", "classify"}
  texts = tf.constant(["0.25", "1"])
  for name, received in {"from_raw": "text", "from_examples": "examples"}.items():
    found = made[name]({received: texts})
    assert found["twice"].numpy().tolist() == [0.5, 2.0]


def test_classify_has_the_names_of_the_classes_in_each_row():
  found = beside()["classify"]({"inputs": tf.constant(["0.25", "1"])})
  assert found["classes"].numpy().tolist() == [[b"ant", b"bee"]] * 2
  np.testing.assert_array_equal(found["scores"], [[0.25, 0.75], [1, 0]])


@pytest.mark.parametrize(
  ("settings", "names"),
  [
    ({"names": None}, {"from_raw", "from_examples"}),
    ({"names": ("ant", "bee", "cat")}, {"from_raw", "from_examples"}),
    ({"from_examples": False}, {"from_raw"}),
    ({"has_fixed_shapes": False}, {"from_raw"}),
    ({"signature": ""}, {"from_examples", "classify"}),
    # The model's own ones come first.
    ({"outputs": {**OUTPUTS, "classify": 1, "from_raw": 1}}, {"from_examples"}),
  ],
)
def test_only_signatures_that_can_work_are_built(settings, names):
  assert set(beside(**settings)) == names


@pytest.mark.parametrize(
  ("names", "main"), [(["a", "serving_default"], "serving_default"), (["b", "a"], "b")]
)
def test_the_main_output_is_the_default_or_the_first(names, main):
  assert signatures.main_output(iter(names)) == main
