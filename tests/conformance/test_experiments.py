"""Every shipped experiment: two steps on several cores; from that checkpoint one more step, an
evaluation, an export and predictions on one core.

The sizes are as small as the networks allow; those that are too deep for a quick test are in
tests.slow.deep_networks.
"""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from tests import long
from tests import test_gin_configs as shipped
from trainer import config, experiment

_TINY_CIFAR10 = ["cifar10_cnn.model_fn.filters = (2, 2)", "cifar10_cnn.model_fn.units = 4"]
_TINY_IMAGES = [
  'random_inputs.input_fn.features = {"image": ((16, 16, 3), "float32")}',
  "paradnn.model_fn.blocks = (1,)",
  "paradnn.model_fn.filters = 2",
  "CLASSES = 7",
]

# A plain optimizer, which has no slots for eight cores to keep.
PLAIN = [
  "keras_applications.model_fn.optimizer = @keras.optimizers.SGD",
  "keras.optimizers.SGD.learning_rate = 1e-6",
]

# What makes an experiment smaller than it need be to take a step on one core.
SMALLER = {
  "fashion_mnist_cnn.gin": ["fashion_mnist_cnn.model_fn.units = 4"],
  "cifar10_cnn.gin": _TINY_CIFAR10,
  "cifar10_cnn_best.gin": _TINY_CIFAR10,
  "flowers_vgg16.gin": [*shipped.made_up((32, 32, 3), 5), "IMAGE_SIZE = 32", *PLAIN],
  "conv_op.gin": ["conv_op.model_fn.filters = 2"],
  "paradnn_bottleneck.gin": _TINY_IMAGES,
  "paradnn_residual.gin": _TINY_IMAGES,
  "paradnn_fully_connected.gin": ["paradnn.model_fn.units = 4", "CLASSES = 7"],
  "transformer_classifier.gin": [
    "text_lines.input_fn.length = 8",
    "transformer_classifier.model_fn.layers = 1",
    "transformer_classifier.model_fn.units = 4",
  ],
  "paradnn_lstm.gin": [
    'random_inputs.input_fn.features = {"tokens": ((6,), "int32")}',
    "paradnn.model_fn.units = 4",
  ],
}

# The metric of an experiment that does not choose one of several classes.
METRICS = {"diabetes.gin": "root_mean_squared_error", "digit_scenes.gin": "binary_accuracy"}


def check(file, folder, bindings=(), cores="cpu:8"):
  """Runs an experiment from beginning to end in a folder; the bindings of gin come last."""
  model_dir = folder / "model"

  def run(mode, device, steps):
    config.load(
      [f"gin_configs/{file}"],
      [*shipped.SIZES, *shipped.RUNS.get(file, []), *bindings, f"run.train_steps = {steps}"],
    )
    return experiment.run(experiment.Flags(model_dir=str(model_dir), mode=mode, device=device))

  run("train", cores, 2)
  assert sorted(path.stem for path in model_dir.glob("model.ckpt-*.index")) == [
    "model.ckpt-0",
    "model.ckpt-2",
  ]

  result = run("train_and_evaluate", "cpu", 3)  # which goes on where several cores have ended
  assert result["global_step"] == 3
  assert math.isfinite(result["loss"])
  assert result[METRICS.get(file, "accuracy")] >= 0
  assert result.get("accuracy", 0) <= 1

  run("predict", "cpu", 3)
  predictions = [
    json.loads(line) for line in (model_dir / "predictions-3.jsonl").read_text().splitlines()
  ]
  classes = np.array([prediction.get("class") for prediction in predictions])
  assert (classes[0] is None) == (file in METRICS)
  if file not in METRICS:
    probabilities = np.array([prediction["probabilities"] for prediction in predictions])
    np.testing.assert_allclose(probabilities.sum(-1), 1, atol=1e-4)
    chosen = np.take_along_axis(probabilities, classes[..., np.newaxis], -1)[..., 0]
    np.testing.assert_allclose(chosen, probabilities.max(-1), rtol=1e-6)
  has_names = "run.class_names" in config.parsed_text()
  assert ("class_name" in predictions[0]) == (has_names and file not in METRICS)

  (exported,) = (model_dir / "export").glob("[0-9]*")
  serve = tf.saved_model.load(str(exported)).signatures["serving_default"]
  features = {
    name: tf.zeros([5, *spec.shape[1:]], spec.dtype)
    for name, spec in serve.structured_input_signature[1].items()
  }
  served = serve(**features)
  assert set(served) == set(predictions[0]) - {"class_name"}
  assert all(len(tensor) == 5 for tensor in served.values())
  # A sheet has images with one class each, and not one for each pixel.
  has_sheet = "image" in features and file not in METRICS and classes.ndim == 1
  assert (model_dir / "predictions-3.png").exists() == has_sheet


QUICK = ("paradnn_fully_connected.gin", "cpu:2")


@pytest.mark.parametrize(
  ("file", "cores"),
  long.except_for(
    [QUICK], [QUICK, *((file, "cpu:8") for file in shipped.FILES if file not in shipped.DEEP)]
  ),
)
def test_from_several_cores_to_one(file, cores, tmp_path):
  bindings = SMALLER.get(file, [])
  if file == "transformer_classifier.gin":
    (tmp_path / "words.txt").write_text("good\nbad\n")
    (tmp_path / "texts.tsv").write_text("text\tlabel\n" + "good\t1\nbad\t0\n" * 8)
    files = {"TRAIN_FILE": "texts.tsv", "TEST_FILE": "texts.tsv", "VOCABULARY_FILE": "words.txt"}
    bindings = bindings + [f'{name} = "{tmp_path / file}"' for name, file in files.items()]
  check(file, tmp_path, bindings, cores)


def test_the_deep_ones_are_shipped():
  assert set(shipped.DEEP) < set(shipped.FILES)
