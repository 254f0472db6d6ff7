"""What every model here has to do, on a few examples: train, evaluate, predict, export."""

import numpy as np
import tensorflow as tf

import trainer
from trainer import testing

EXAMPLES = 11  # of which no batch size here is a divisor


def check(model_fn, features, labels, model_dir, *, steps=2, falls=True, device="cpu", **config):
  """Runs a model through all modes and checks that they agree.

  Args:
    model_fn: with all its hyperparameters bound.
    features: dict of arrays with EXAMPLES examples.
    labels: int array [EXAMPLES], each of which is trained on in turn.
    model_dir: a folder.
    steps: how many.
    falls: whether the loss of the training data has to be lower after them; else it has to be
      finite.
    device, config: of the RunConfig.

  Returns:
    (the Estimator, the metrics after the last step).
  """
  data = tf.data.Dataset.from_tensor_slices((features, labels))

  def train_input_fn(params):
    return data.repeat().batch(params["batch_size"], drop_remainder=True)

  def eval_input_fn(params):
    return data.batch(params["batch_size"])

  estimator = trainer.Estimator(
    model_fn,
    str(model_dir),
    trainer.RunConfig(device=device, **config),
    train_batch_size=8,
    eval_batch_size=8,
  )
  estimator.train(train_input_fn, max_steps=steps)
  first = estimator.evaluate(eval_input_fn, checkpoint_path=estimator.checkpoint_path(0))
  last = estimator.evaluate(eval_input_fn)
  assert np.isfinite(last["loss"])
  assert not falls or last["loss"] < first["loss"]

  predictions = list(estimator.predict(eval_input_fn))
  assert len(predictions) == EXAMPLES
  predicted = {
    name: np.stack([prediction[name] for prediction in predictions]) for name in predictions[0]
  }
  np.testing.assert_allclose(predicted["probabilities"].sum(-1), 1.0, rtol=1e-4)
  if predicted["class"].shape == np.shape(labels):
    assert last["accuracy"] == np.float32(np.mean(predicted["class"] == labels))

  exported = estimator.export_saved_model(str(model_dir / "export"))
  tolerance = 2e-2 if config.get("precision") == "bfloat16" else 1e-5
  testing.assert_serves(
    exported, features, {"probabilities": predicted["probabilities"]}, tolerance
  )
  return estimator, last


def trained(model_fn, features, labels, model_dir, *, steps=1, device="cpu", **config):
  """An Estimator that has trained a few steps, and nothing else: for what is too slow to trace
  in all modes. With 0 steps it has the variables of the network.
  """

  def input_fn(params):
    return (
      tf.data.Dataset.from_tensor_slices((features, labels))
      .repeat()
      .batch(params["batch_size"], drop_remainder=True)
    )

  estimator = trainer.Estimator(
    model_fn,
    str(model_dir),
    trainer.RunConfig(device=device, **config),
    train_batch_size=8,
    eval_batch_size=8,
  )
  if not steps:
    estimator.trace("predict", input_fn)
    return estimator
  return estimator.train(input_fn, max_steps=steps)


def parameters(estimator, *scopes):
  """The number of values in the model's variables, without those of the optimizer: names that
  begin with one of `scopes`.
  """
  return sum(
    int(np.prod(variable.shape))
    for name, variable in estimator.variables.items()
    if name.startswith(scopes)
  )


def images(size, channels=3, classes=10):
  """(features, labels) of noise that is brighter the higher its label."""
  random = np.random.RandomState(0)
  labels = random.randint(0, classes, EXAMPLES).astype(np.int32)
  noise = random.rand(EXAMPLES, size, size, channels)
  return {
    "image": (0.5 * noise + 0.5 * labels[:, None, None, None] / classes).astype(np.float32)
  }, labels
