"""Trains a canned estimator on toy columns; TensorFlow 2.15 and trainer.compat.v1 run the same.

With 2.15, `tf215/bin/python tests/compat/canned_2_15.py` (see record_2_15.py) writes what
test_canned.py has as numbers, canned_2_15.json, and checkpoints of some, canned_checkpoints_2_15,
with what 2.15 evaluates of them and after five steps more.
"""

import numpy as np

ROWS = 32
STEPS = 5

# Those with checkpoints: a linear part by Ftrl and a deep one by Adagrad; batch norm and Adam.
KEPT = ("both", "dnn by Adam")


def columns(tf):
  """(wide, deep)."""
  fc = tf.feature_column
  age = fc.numeric_column("age")
  city = fc.categorical_column_with_vocabulary_list("city", ["a", "b", "c"])
  ages = fc.bucketized_column(age, [-0.5, 0.5])
  wide = [city, ages, fc.crossed_column([ages, "city"], 16)]
  deep = [
    age,
    fc.indicator_column(city),
    fc.embedding_column(city, 2, initializer=tf.ones_initializer()),
  ]
  return wide, deep


def input_fn(tf, label, epochs=None, batch=16):
  random = np.random.RandomState(0)
  age = random.randn(ROWS).astype(np.float32)
  city = np.array(["a", "b", "c", "d"])[random.randint(0, 4, ROWS)]
  labels = {
    "binary": ((age > 0) | (city == "b")).astype(np.int32),
    "classes": (np.digitize(age, [-0.5, 0.5])).astype(np.int32),
    "number": (2 * age + (city == "a")).astype(np.float32),
  }[label]

  def read():
    dataset = tf.data.Dataset.from_tensor_slices(({"age": age, "city": city}, labels))
    return dataset.repeat(epochs).batch(batch)

  return read


def estimators(tf, estimator, folder, **config):
  """By name, (Estimator, its labels)."""
  wide, deep = columns(tf)

  def settings(name):
    return dict(model_dir=f"{folder}/{name}", config=estimator.RunConfig(**config))

  return {
    "linear": (lambda: estimator.LinearClassifier(wide, **settings("linear")), "binary"),
    "linear of classes": (
      lambda: estimator.LinearClassifier(wide, n_classes=3, **settings("classes")),
      "classes",
    ),
    "linear number": (lambda: estimator.LinearRegressor(wide, **settings("number")), "number"),
    "linear by Adam": (
      lambda: estimator.LinearClassifier(wide, optimizer="Adam", **settings("adam")),
      "binary",
    ),
    "dnn": (lambda: estimator.DNNClassifier([4], deep, **settings("dnn")), "binary"),
    "dnn by Adam": (
      lambda: estimator.DNNClassifier(
        [4], deep, optimizer=tf.train.AdamOptimizer(0.1), batch_norm=True, **settings("dnn_adam")
      ),
      "binary",
    ),
    "both": (
      lambda: estimator.DNNLinearCombinedRegressor(
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[3],
        **settings("both"),
      ),
      "number",
    ),
  }


def run(tf, make, label):
  """(names of the variables, result of the evaluation) after five steps."""
  made = make()
  made.train(input_fn(tf, label), steps=STEPS)
  result = made.evaluate(input_fn(tf, label, epochs=1))
  return sorted(made.get_variable_names()), {key: float(value) for key, value in result.items()}


def going_on(tf, make, label):
  """What is evaluated of the checkpoint in an Estimator's folder, and after five steps more."""
  made = make()
  found = []
  for steps in (0, STEPS):
    if steps:
      made.train(input_fn(tf, label, batch=ROWS), steps=steps)
    result = made.evaluate(input_fn(tf, label, epochs=1, batch=ROWS))
    found.append({key: float(value) for key, value in result.items()})
  return found


def folder_of(name):
  """The name of the folder in canned_checkpoints_2_15."""
  return name.replace(" ", "_")


def main():
  import json
  import pathlib
  import shutil
  import tempfile

  import tensorflow.compat.v1 as tf15

  here = pathlib.Path(__file__).parent
  made = estimators(tf15, tf15.estimator, tempfile.mkdtemp())
  found = {name: run(tf15, *one) for name, one in made.items()}
  (here / "canned_2_15.json").write_text(json.dumps(found, indent=1) + "\n")
  kept = here / "canned_checkpoints_2_15"
  shutil.rmtree(kept, ignore_errors=True)
  values = {}
  for name in KEPT:
    make, label = made[name]
    (kept / folder_of(name)).mkdir(parents=True)
    for path in pathlib.Path(make().model_dir).glob(f"model.ckpt-{STEPS}.[di]*"):
      shutil.copy(path, kept / folder_of(name))
    values[name] = going_on(tf15, make, label)
  (kept / "values.json").write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
  main()
