"""An export takes files and Examples, says what it is, and is published only when it is right."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.outputs import checks, description, warm_up

NAMES = ["ant", "bee"]
SHAPE = (6, 5, 3)


def model_fn(features, labels, mode, params):
  """Two classes of an image and a number."""
  hidden = keras.layers.Dense(2)(keras.layers.Flatten()(features["image"]))
  logits = hidden * features["scale"][:, None]
  predictions = {"class": tf.argmax(logits, -1, tf.int32), "probabilities": tf.nn.softmax(logits)}
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions=predictions)
  loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
  if mode == trainer.ModeKeys.EVAL:
    return trainer.EstimatorSpec(mode, loss=loss)
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.SGD(0.1), loss)
  )


def decode(encoded):
  """float32 [6, 5, 3] in 0..1."""
  pixels = tf.io.decode_image(encoded, channels=3, expand_animations=False)
  return tf.ensure_shape(tf.image.resize(pixels, SHAPE[:2]) / 255.0, SHAPE)


def input_fn(params, decoders=None):
  random = np.random.RandomState(3)
  features = {
    "image": random.rand(40, *SHAPE).astype(np.float32),
    "scale": random.rand(40).astype(np.float32),
  }
  labels = random.randint(0, 2, 40).astype(np.int32)
  dataset = tf.data.Dataset.from_tensor_slices((features, labels)).repeat(2)
  dataset = dataset.batch(params["batch_size"], drop_remainder=True)
  return trainer.mark_decodable(dataset, {"image": decode} if decoders is None else decoders)


def make_estimator(folder, model=model_fn, **options):
  estimator = trainer.Estimator(
    model,
    str(folder),
    trainer.RunConfig(device="cpu"),
    train_batch_size=8,
    eval_batch_size=8,
    export_options=trainer.ExportOptions(**options),
  )
  return estimator


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
  """(estimator, path of its export)."""
  folder = tmp_path_factory.mktemp("model")
  estimator = make_estimator(folder, class_names=NAMES, warm_up_batches=(1, 20))
  estimator.train(input_fn, steps=2)
  estimator.evaluate(input_fn)
  return estimator, estimator.export_saved_model(folder / "export")


@pytest.fixture(scope="module")
def loaded(exported):
  return tf.saved_model.load(exported[1])


@pytest.fixture(scope="module")
def pictures():
  """(encoded files, the features that the pipeline makes of them)."""
  random = np.random.RandomState(5)
  pixels = [random.randint(0, 256, size, np.uint8) for size in [(6, 5, 3), (20, 31, 3), (9, 9, 1)]]
  encoded = [tf.io.encode_png(pixels[0]), tf.io.encode_jpeg(pixels[1]), tf.io.encode_png(pixels[2])]
  return [file.numpy() for file in encoded], np.stack([decode(file) for file in encoded])


SCALE = np.float32([0.5, 1.0, 2.0])


def probabilities(estimator, images):
  """What the Estimator predicts."""

  def features(params):
    made = tf.data.Dataset.from_tensor_slices({"image": images, "scale": SCALE})
    return made.batch(params["batch_size"])

  return np.stack([found["probabilities"] for found in estimator.predict(features)])


def test_files_are_decoded_as_the_pipeline_does(exported, loaded, pictures):
  encoded, images = pictures
  served = loaded.signatures["from_bytes"](image=tf.constant(encoded), scale=tf.constant(SCALE))
  wanted = probabilities(exported[0], images)
  np.testing.assert_allclose(served["probabilities"], wanted, atol=1e-6)
  assert np.ptp(wanted) > 0.01  # so that a wrong image would be seen


def test_examples_have_files_and_numbers(exported, loaded, pictures):
  encoded, images = pictures
  wanted = probabilities(exported[0], images)
  examples = tf.constant(
    [
      checks.serialise({"image": file, "scale": scale})
      for file, scale in zip(encoded, SCALE, strict=True)
    ]
  )
  served = loaded.signatures["from_examples"](examples=examples)
  np.testing.assert_allclose(served["probabilities"], wanted, atol=1e-6)
  classified = loaded.signatures["classify"](inputs=examples)
  assert classified["classes"].numpy().tolist() == [[b"ant", b"bee"]] * 3
  np.testing.assert_allclose(classified["scores"], wanted, atol=1e-6)


def test_classify_is_marked_as_tensorflow_serving_wants_it(exported):
  with open(os.path.join(exported[1], "saved_model.pb"), "rb") as file:
    graph = saved_model_pb2.SavedModel.FromString(file.read()).meta_graphs[0]
  methods = {name: signature.method_name for name, signature in graph.signature_def.items()}
  assert methods["classify"] == "tensorflow/serving/classify"
  assert methods["serving_default"] == "tensorflow/serving/predict"


def test_what_it_says_of_itself(exported):
  path = exported[1]
  told = description.read(path)
  assert told["signatures"]["serving_default"]["inputs"] == {
    "image": {"dtype": "float32", "shape": [None, *SHAPE]},
    "scale": {"dtype": "float32", "shape": [None]},
  }
  assert told["signatures"]["from_bytes"]["inputs"]["image"] == {"dtype": "string", "shape": [None]}
  assert told["class_names"] == NAMES
  assert told["decodes"] == ["image"]
  assert told["global_step"] == 2
  assert told["model"] == "test_preprocessing.model_fn"
  assert set(told["metrics"]) == {"loss"}
  assert told["versions"]["octet"] == trainer.__version__
  # Every signature was run, and classify's names are exactly the model's.
  assert (
    set(told["verified"])
    == set(told["signatures"])
    == {"serving_default", "from_bytes", "from_examples", "classify"}
  )
  assert told["verified"]["classify"]["classes"] == 0.0


def serving_messages():
  """The class of PredictionLog, made from the fields that its .proto files have."""
  field = descriptor_pb2.FieldDescriptorProto
  file = descriptor_pb2.FileDescriptorProto(
    name="log.proto",
    package="serving",
    syntax="proto3",
    dependency=["tensorflow/core/framework/tensor.proto"],
  )

  def message(name, *fields):
    made = file.message_type.add(name=name)
    for number, title, kind, repeated in fields:
      text = kind == "string"
      made.field.add(
        name=title,
        number=number,
        type=field.TYPE_STRING if text else field.TYPE_MESSAGE,
        type_name=None if text else kind,
        label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
      )
    return made

  message("ModelSpec", (1, "name", "string", False), (3, "signature_name", "string", False))
  request = message(
    "PredictRequest",
    (1, "model_spec", ".serving.ModelSpec", False),
    (2, "inputs", ".serving.PredictRequest.InputsEntry", True),
  )
  entry = request.nested_type.add(name="InputsEntry")
  entry.options.map_entry = True
  entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
  entry.field.add(
    name="value",
    number=2,
    type=field.TYPE_MESSAGE,
    type_name=".tensorflow.TensorProto",
    label=field.LABEL_OPTIONAL,
  )
  message("PredictLog", (1, "request", ".serving.PredictRequest", False))
  message("PredictionLog", (6, "predict_log", ".serving.PredictLog", False))
  pool = descriptor_pool.Default()
  assert tensor_pb2.TensorProto.DESCRIPTOR.file.pool is pool
  pool.Add(file)
  return message_factory.GetMessageClass(pool.FindMessageTypeByName("serving.PredictionLog"))


def test_requests_to_warm_up_with(exported, loaded):
  path = os.path.join(exported[1], "assets.extra", "tf_serving_warmup_requests")
  log = serving_messages()
  sizes, requests = {}, warm_up.read(exported[1])
  for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
    parsed = log.FromString(record)
    assert parsed.SerializeToString(deterministic=True)
    request = parsed.predict_log.request
    inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
    name = request.model_spec.signature_name
    loaded.signatures[name](**inputs)
    sizes.setdefault(name, []).append(len(next(iter(inputs.values()))))
    read_name, read_inputs = requests.pop(0)
    assert read_name == name
    assert read_inputs.keys() == inputs.keys()
    for key, tensor in inputs.items():
      np.testing.assert_array_equal(read_inputs[key], tensor)
  assert sizes == {name: [1, 20] for name in loaded.signatures}
  assert not requests


def test_requests_that_are_damaged(exported, tmp_path):
  (tmp_path / "assets.extra").mkdir()
  assert warm_up.read(str(tmp_path)) == []
  path, whole = warm_up.path_of(str(tmp_path)), warm_up.path_of(exported[1])
  record = next(tf.data.TFRecordDataset(whole).as_numpy_iterator())
  for damaged in (record[:-9], b"\x30\x01", b"\xff"):
    with tf.io.TFRecordWriter(path) as writer:
      writer.write(damaged)
    with pytest.raises(errors.InputError, match="tf_serving_warmup_requests is damaged"):
      warm_up.read(str(tmp_path))


def names_of(folder):
  return sorted(os.listdir(folder)) if folder.exists() else []


def test_an_export_that_differs_is_not_published(tmp_path, exported):
  noisy = [False]

  def sometimes_noisy(features, labels, mode, params):
    spec = model_fn(features, labels, mode, params)
    if mode == trainer.ModeKeys.PREDICT and noisy[0]:
      probabilities_ = spec.predictions["probabilities"]
      spec.predictions["probabilities"] += 0.01 * tf.random.uniform(tf.shape(probabilities_))
    return spec

  estimator = make_estimator(tmp_path / "model", sometimes_noisy).train(input_fn, steps=1)
  former = estimator.export_saved_model(tmp_path / "export")
  noisy[0] = True
  with pytest.raises(
    errors.ExportError,
    match=r"'serving_default': the output 'probabilities' differs from the "
    r"model's by 0\.00\d+, more than 1e-05",
  ):
    estimator.export_saved_model(tmp_path / "export")
  assert names_of(tmp_path / "export") == [os.path.basename(former)]


def test_an_export_that_needs_this_process_is_not_published(tmp_path):
  def with_python(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    if mode == trainer.ModeKeys.PREDICT:
      spec.predictions["y"] = tf.numpy_function(lambda y: y, [spec.predictions["y"]], tf.float32)
    return spec

  estimator = programs.estimator(tmp_path / "model", with_python).train(
    programs.train_input, steps=1
  )
  with pytest.raises(errors.ExportError, match="(?s)does not work without Octet: .*pyfunc"):
    estimator.export_saved_model(tmp_path / "export")
  assert names_of(tmp_path / "export") == []


def test_a_check_that_is_not_wanted_is_not_made(tmp_path, exported):
  estimator = make_estimator(exported[0].model_dir, verify=False, warm_up_batches=())
  estimator.trace("eval", input_fn)
  path = estimator.export_saved_model(tmp_path)
  assert "verified" not in description.read(path)
  assert names_of(tmp_path / os.path.basename(path) / "assets.extra") == ["octet.json"]


@pytest.mark.parametrize(
  ("decoders", "message"),
  [
    (
      {"picture": decode},
      "There is a decoder for the feature 'picture', and the model takes image, scale",
    ),
    (
      {"image": lambda encoded: decode(encoded)[:3]},
      r"gives .*; the model takes float32\[6, 5, "
      r"3\]",
    ),
  ],
)
def test_decoders_that_do_not_fit(decoders, message, tmp_path, exported):
  estimator = make_estimator(exported[0].model_dir, decoders=decoders)
  estimator.trace("eval", input_fn)
  with pytest.raises(errors.SettingError, match=message):
    estimator.export_saved_model(tmp_path / "export")
  assert names_of(tmp_path / "export") == []


def test_a_pipeline_that_goes_on_after_its_mark_has_none(tmp_path, exported):
  def brighter(params):
    return input_fn(params).map(
      lambda features, labels: (dict(features, image=features["image"] * 2), labels)
    )

  estimator = make_estimator(exported[0].model_dir, verify=False)
  estimator.trace("eval", brighter)
  path = estimator.export_saved_model(tmp_path)
  assert "from_bytes" not in description.read(path)["signatures"]


def test_a_receiver_takes_the_place_of_the_decoders(tmp_path, exported):
  def receive():
    pixels = tf.compat.v1.placeholder(tf.float32, [None, *SHAPE], "pixels")
    return {"image": pixels, "scale": tf.ones(tf.shape(pixels)[:1])}, {"pixels": pixels}

  estimator = make_estimator(exported[0].model_dir)
  estimator.trace("eval", input_fn)
  told = description.read(estimator.export_saved_model(tmp_path, receive))
  assert set(told["signatures"]) == set(told["verified"]) == {"serving_default"}
  assert told["decodes"] == []


def test_a_mark_outlives_what_the_framework_does_to_a_dataset():
  from trainer.inputs import call as inputs

  def features_alone(params):
    dataset = tf.data.Dataset.from_tensors({"image": tf.zeros([2, *SHAPE])})
    return trainer.mark_decodable(dataset, {"image": decode})

  assert trainer.decoders_of(inputs.call(features_alone, {}, 2, 1, "eval")) == {"image": decode}


def test_an_estimator_takes_options_alone(tmp_path):
  with pytest.raises(
    errors.SettingError, match="export_options is True: expected a trainer.ExportO"
  ):
    trainer.Estimator(model_fn, str(tmp_path), export_options=True)
