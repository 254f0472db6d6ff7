"""Every shipped metric is that of all examples, for any batch size and number of cores."""

import functools
import importlib
import json
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long, runtimes
from tests.trainer import programs
from trainer.estimator import keras_copies
from trainer.internals import keras_internals
from trainer.programs import host_metrics

ROOT = pathlib.Path(trainer.__file__).parents[1]
EXAMPLES = 150
SIZES = (1, 3, 7, 64)
DEVICES = ("cpu", "cpu:2", "cpu:8", "xla:2")
QUICK = [("cpu", 64), ("cpu:8", 7)]
# The models whose metric_fn has this name; the others use these.
MODELS = ("classification", "digits_mlp", "multi_label", "regression", "unet")
FILES = ("docs/*.md", "notebooks/*.ipynb", "trainer/new/templates/*", "README.md")


@functools.cache
def data():
  """Tensors of an evaluation, as the shipped metric_fns take them."""
  random = np.random.RandomState(4)
  labels = random.randint(5, size=EXAMPLES)
  logits = random.randn(EXAMPLES, 5) + np.eye(5)[labels]
  pixels = random.randint(3, size=[EXAMPLES, 4, 4])
  prices = random.uniform(1, 300, EXAMPLES)
  made = dict(
    labels=labels,
    logits=logits,
    classes=logits.argmax(-1),
    present=random.randint(2, size=[EXAMPLES, 4]),
    probabilities=random.uniform(size=[EXAMPLES, 4]),
    pixels=pixels,
    pixel_logits=random.randn(EXAMPLES, 4, 4, 3) + np.eye(3)[pixels],
    prices=prices,
    values=prices * random.uniform(0.5, 1.5, EXAMPLES),
    weights=random.uniform(0, 2, EXAMPLES),
  )
  return {name: np.asarray(each, np.float32 if each.dtype.kind == "f" else np.int32)
          for name, each in made.items()}  # fmt: skip


def texts():
  """(name, source) of each metric_fn in a guide, a notebook or a template."""
  for pattern in FILES:
    for path in sorted(ROOT.glob(pattern)):
      text = path.read_text()
      if path.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
      for number, source in enumerate(re.findall(r"(?m)^def metric_fn\(.*\n(?:(?: .*)?\n)+", text)):
        yield f"{path.name}/{number}", source


def shipped():
  """(name, metric_fn, its tensors) of each."""
  found = []
  # A guide with TensorFlow 1's names calls tensorflow.compat.v1 tf.
  names = {"keras": keras, "tf": tf.compat.v1, "v1": tf.compat.v1}
  for name, source in texts():
    namespace = dict(names)
    exec(source, namespace)
    found.append((name, namespace["metric_fn"]))
  for name in MODELS:
    metric_fn = importlib.import_module(f"models.{name}").metric_fn
    if name == "unet":
      metric_fn = functools.partial(metric_fn, classes=3)
    found.append((f"models.{name}", metric_fn))
  return found


def arguments_of(name, metric_fn, tensors):
  """The tensors of a metric_fn."""
  fn = getattr(metric_fn, "func", metric_fn)
  names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
  of_kind = {
    "models.multi_label": {"labels": "present"},
    "models.unet": {"labels": "pixels", "logits": "pixel_logits"},
  }.get(name, {"labels": "prices"} if "values" in names else {})
  others = {"numbers": "classes", "sample_weight": "weights"}
  if name == "models.unet":
    names = names[:2]
  return {each: tensors[(others | of_kind).get(each, each)] for each in names}


def metric_fn(**tensors):
  """All metrics at once: an evaluation of each would take minutes."""
  metrics = {}
  for name, fn in shipped():
    made = fn(**arguments_of(name, fn, tensors))
    metrics |= {f"{name}.{key}": metric for key, metric in made.items()}
  kinds = ["mae", keras_copies.metric(keras.metrics.MeanSquaredError(name="mse"))]
  made = keras_internals.updated_metrics(
    kinds, ["mae"], tensors["prices"], tensors["values"], tensors["weights"], None
  )
  return metrics | {f"keras.{name}": metric for name, metric in made.items()}


def model_fn(features, labels, mode, params):
  loss = tf.Variable(1.0, name="w") * tf.reduce_mean(features["values"])
  if mode == trainer.ModeKeys.EVAL:
    return trainer.EstimatorSpec(mode, loss=loss, eval_metrics=(metric_fn, features))
  train_op = trainer.minimize(keras.optimizers.SGD(0.0), loss)
  return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(params):
  return tf.data.Dataset.from_tensor_slices(data()).batch(params["batch_size"])


@functools.cache
def expected():
  """The metrics of all examples in one batch, and numpy's."""
  counted = host_metrics.HostMetrics(is_trial=True)
  tensors = {name: tf.constant(array) for name, array in data().items()}
  at_once = tf.function(
    lambda: host_metrics.read(counted.update(metric_fn, tensors)), autograph=False
  )()
  return {name: float(value) for name, value in at_once.items()}


def by_numpy():
  """The shipped metrics in float64, those that take one line."""
  of = {name: array.astype(np.float64) for name, array in data().items()}
  error, weights = np.abs(of["prices"] - of["values"]), of["weights"]
  right = of["labels"] == of["logits"].argmax(-1)
  present, guessed = of["present"] == 1, of["probabilities"] > 0.5
  pixels, drawn = of["pixels"], of["pixel_logits"].argmax(-1)
  each = [((pixels == n) & (drawn == n)).sum() / ((pixels == n) | (drawn == n)).sum()
          for n in range(3)]  # fmt: skip
  return {
    "accuracy": right.mean(),
    "models.classification.weighted_accuracy": (right * weights).sum() / weights.sum(),
    "models.multi_label.binary_accuracy": (present == guessed).mean(),
    "models.multi_label.precision": present[guessed].mean(),
    "models.multi_label.recall": guessed[present].mean(),
    "models.unet.accuracy": (pixels == drawn).mean(),
    "models.unet.mean_iou": np.mean(each),
    "mean_absolute_error": error.mean(),
    "models.regression.root_mean_squared_error": np.sqrt(np.square(error).mean()),
    "models.regression.weighted_mean_absolute_error": (error * weights).sum() / weights.sum(),
    "keras.mae": error.mean(),
    "keras.mse": np.square(error).mean(),
    "keras.weighted_mae": (error * weights).sum() / weights.sum(),
  }


def test_one_batch_has_the_metrics_of_numpy():
  wanted = by_numpy()
  assert len(expected()) > len(wanted)
  for name, value in expected().items():
    if not name.endswith(".auc"):
      key = name if name in wanted else name.rpartition(".")[2]
      assert value == pytest.approx(wanted[key], rel=1e-6), name


def test_every_metric_fn_of_a_model_is_here():
  files = [path for path in ROOT.glob("models/*.py") if "\ndef metric_fn(" in path.read_text()]
  assert sorted(path.stem for path in files) == sorted(MODELS)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  folder = tmp_path_factory.mktemp("trained")
  whole = lambda params: input_fn(params).unbatch().repeat().batch(10, drop_remainder=True)
  programs.estimator(folder, model_fn, batch_size=10).train(whole, steps=1)
  return folder


@pytest.mark.parametrize(
  "on, size", long.except_for(QUICK, [(on, size) for on in DEVICES for size in SIZES])
)
def test_batches_have_the_metrics_of_all_examples(on, size, trained):
  if on.startswith("xla"):
    runtimes.require_jax()
  cores = int(on.partition(":")[2] or 1)
  found = programs.estimator(trained, model_fn, on, batch_size=size * cores).evaluate(input_fn)
  assert {name: found[name] for name in expected()} == pytest.approx(expected(), rel=1e-6)
