"""Signatures of exports: names and methods of 2.15, for clients of TensorFlow Serving."""

import pathlib

import pytest
from tensorflow.core.protobuf import saved_model_pb2

import trainer.compat.v1 as tf
from trainer.compat.v1 import estimator as tf_estimator

CLASSIFY, REGRESS, PREDICT = (
  f"tensorflow/serving/{method}" for method in ("classify", "regress", "predict")
)
CLASSES = ["all_class_ids", "all_classes", "class_ids", "classes"]

# Read from 2.15's saved_model.pb: {signature: (inputs, outputs, method)}.
OF_2_15 = {
  "binary": {
    "classification": (["inputs"], ["classes", "scores"], CLASSIFY),
    "predict": (["examples"], [*CLASSES, "logistic", "logits", "probabilities"], PREDICT),
    "regression": (["inputs"], ["outputs"], REGRESS),
    "serving_default": (["inputs"], ["classes", "scores"], CLASSIFY),
  },
  "regressor": {
    "predict": (["examples"], ["predictions"], PREDICT),
    "regression": (["inputs"], ["outputs"], REGRESS),
    "serving_default": (["inputs"], ["outputs"], REGRESS),
  },
}


def signatures_of(path):
  model = saved_model_pb2.SavedModel()
  model.ParseFromString(pathlib.Path(path.decode(), "saved_model.pb").read_bytes())
  return {
    name: (sorted(one.inputs), sorted(one.outputs), one.method_name)
    for name, one in model.meta_graphs[0].signature_def.items()
    if not name.startswith("__")
  }


@pytest.mark.parametrize("name", OF_2_15)
def test_canned_estimators_are_served_as_by_2_15(tmp_path, name):
  columns = [tf.feature_column.numeric_column("x", shape=[2])]
  kind = {"binary": "LinearClassifier", "regressor": "LinearRegressor"}[name]
  config = tf_estimator.RunConfig(device="cpu")
  estimator = getattr(tf_estimator, kind)(columns, model_dir=str(tmp_path), config=config)

  def input_fn():
    data = tf.data.Dataset.from_tensor_slices(({"x": [[1.0, 2.0], [3.0, 4.0]]}, [0, 1]))
    return data.repeat().batch(2)

  estimator.train(input_fn, steps=1)
  parse = tf.feature_column.make_parse_example_spec(columns)
  receiver_fn = tf_estimator.export.build_parsing_serving_input_receiver_fn(parse)
  path = estimator.export_saved_model(str(tmp_path / "export"), receiver_fn)
  assert signatures_of(path) == OF_2_15[name]
  example = tf.train.Example()
  example.features.feature["x"].float_list.value.extend([3.0, 4.0])
  serve = tf.saved_model.load_v2(path.decode()).signatures["serving_default"]
  served = serve(inputs=tf.constant([example.SerializeToString()]))
  features = {"x": [[3.0, 4.0]]}
  (predicted,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(features))
  if name == "binary":
    assert served["scores"].numpy()[0].tolist() == pytest.approx(predicted["probabilities"])
  else:
    assert served["outputs"].numpy()[0].tolist() == pytest.approx(predicted["predictions"])
