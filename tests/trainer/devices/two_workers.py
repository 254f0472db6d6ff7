"""What test_workers.py starts: one worker of a cluster.

Arguments: index, ports (comma-separated), model_dir, device, steps, and a variant: SLOW, NAN or "".
"""

import hashlib
import json
import os
import sys

SLOW = "slow"  # one step a loop
NAN = "nan"  # an example is NaN, and the training goes back

# The example that is NaN: of the second of two hosts, in the eighth of the steps of 16.
NAN_EXAMPLE = 7 * 16 + 3


def normalized(features, labels, mode, params):
  """A linear classifier after a batch norm, whose moving averages are each core's own."""
  import keras

  from tests.conformance import cases

  is_training = mode == cases.ModeKeys.TRAIN
  x = keras.layers.Flatten()(features["image"])
  x = keras.layers.BatchNormalization()(x, training=is_training)
  train_op = cases.minimized(lambda: keras.optimizers.SGD(0.1))
  return cases.spec(mode, labels, keras.layers.Dense(5)(x), train_op)


def made(model_dir, device, variant=""):
  """(estimator, train input_fn, eval input_fn) of a device."""
  from tests.conformance import cases
  from tests.trainer import programs

  loops = programs.fixed_loops(1 if variant == SLOW else 5)
  policy = "rollback" if variant == NAN else "stop"
  config = dict(device=device, save_checkpoints_steps=5, on_non_finite=policy, **loops)
  case = cases.Case("normalized", normalized)
  train_input = with_nan(case.train_input_fn) if variant == NAN else case.train_input_fn
  return case.estimator(model_dir, **config), train_input, case.eval_input_fn


def with_nan(input_fn):
  """An input_fn that gives the same, with one example that is NaN."""
  import tensorflow as tf

  def train_input(params):
    size = params["batch_size"]

    def of_batch(index, batch):
      features, labels = batch
      is_nan = tf.equal(index * size + tf.range(size, dtype=tf.int64), NAN_EXAMPLE)
      image = tf.where(is_nan[:, None, None, None], float("nan"), features["image"])
      return {"image": image}, labels

    return input_fn(params).enumerate().map(of_batch)

  return train_input


def digest(estimator):
  """A text that is another one for other values of the variables."""
  values = {name: variable.numpy() for name, variable in estimator.variables.items()}
  content = b"".join(name.encode() + values[name].tobytes() for name in sorted(values))
  return hashlib.sha256(content).hexdigest()


def main(index, ports, model_dir, device, steps, variant):
  ports = ports.split(",")
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
  cluster = {"worker": [f"localhost:{port}" for port in ports]}
  os.environ["TF_CONFIG"] = json.dumps(
    {"cluster": cluster, "task": {"type": "worker", "index": int(index)}}
  )
  from trainer import errors

  def announce(step, metrics, estimator):
    print(f"step {step}", flush=True)

  estimator, train_input, eval_input = made(model_dir, device, variant)
  try:
    estimator.train(train_input, max_steps=int(steps), hooks=[announce])
    result = {
      "values": digest(estimator),
      "evaluation": estimator.evaluate(eval_input),
      "chief": estimator.device.is_chief,
      "predictions": [each["logits"].tolist() for each in estimator.predict(eval_input)],
    }
  except errors.WorkerLostError as error:
    print(f"lost: {error}", flush=True)
    sys.exit(error.exit_code)
  print(json.dumps(result), flush=True)


if __name__ == "__main__":
  main(*sys.argv[1:])
