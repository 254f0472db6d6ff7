"""Programs of TensorFlow 2 with tf.estimator; 2.15 and trainer.compat.v2 run the same.

With 2.15, `tf215/bin/python tests/compat/v2_programs_2_15.py` (see record_2_15.py) writes what
test_v2.py has as numbers, v2_programs_2_15.json, and checkpoints of the canned estimators that
begin with random weights, v2_checkpoints_2_15.
"""

import keras
import numpy as np

ROWS, STEPS = 32, 5


def arrays():
  """(features, labels by kind), always the same."""
  random = np.random.RandomState(0)
  age = random.randn(ROWS).astype(np.float32)
  city = np.array(["a", "b", "c", "d"])[random.randint(0, 4, ROWS)]
  labels = {
    "binary": ((age > 0) | (city == "b")).astype(np.int32),
    "classes": np.digitize(age, [-0.5, 0.5]).astype(np.int32),
    "number": (2 * age + (city == "a")).astype(np.float32),
  }
  return {"age": age, "city": city}, labels


def input_fn(tf, label, epochs=None, features=("age", "city"), batch=16):
  found, labels = arrays()
  features = {name: found[name] for name in features}
  return lambda: (
    tf.data.Dataset.from_tensor_slices((features, labels[label])).repeat(epochs).batch(batch)
  )


def columns(tf):
  """(wide, deep)."""
  fc = tf.feature_column
  age = fc.numeric_column("age")
  city = fc.categorical_column_with_vocabulary_list("city", ["a", "b", "c"])
  ages = fc.bucketized_column(age, [-0.5, 0.5])
  wide = [city, ages, fc.crossed_column([ages, "city"], 16)]
  deep = [age, fc.indicator_column(city), fc.embedding_column(city, 2)]
  return wide, deep


def canned(tf, folder, **config):
  """By name, (function that makes an Estimator, its labels)."""
  wide, deep = columns(tf)
  tfe, legacy = tf.estimator, tf.keras.optimizers.legacy

  def settings(name):
    run_config = tfe.RunConfig(save_checkpoints_steps=1, **config)
    return dict(model_dir=f"{folder}/{name}", config=run_config)

  def both(name, **others):
    return tfe.DNNLinearCombinedRegressor(
      linear_feature_columns=wide,
      dnn_feature_columns=deep,
      dnn_hidden_units=[3],
      **others,
      **settings(name),
    )

  return {
    "linear": (lambda: tfe.LinearClassifier(wide, **settings("linear")), "binary"),
    "linear_classes": (
      lambda: tfe.LinearClassifier(wide, n_classes=3, **settings("linear_classes")),
      "classes",
    ),
    "linear_sum": (
      lambda: tfe.LinearRegressor(
        wide,
        optimizer=lambda: legacy.SGD(0.01, momentum=0.9),
        loss_reduction=tf.losses.Reduction.SUM,
        **settings("linear_sum"),
      ),
      "number",
    ),
    "dnn": (lambda: tfe.DNNClassifier([4], deep, **settings("dnn")), "binary"),
    "dnn_adam": (
      lambda: tfe.DNNClassifier(
        [4], deep, optimizer=lambda: legacy.Adam(0.1), batch_norm=True, **settings("dnn_adam")
      ),
      "binary",
    ),
    "dnn_rmsprop": (
      lambda: tfe.DNNRegressor(
        [4], deep, optimizer="RMSProp", activation_fn=tf.nn.tanh, **settings("dnn_rmsprop")
      ),
      "number",
    ),
    "both": (lambda: both("both"), "number"),
    "head": (
      lambda: tfe.DNNEstimator(
        tfe.MultiClassHead(3), [4], deep, optimizer="SGD", **settings("head")
      ),
      "classes",
    ),
  }


WITHOUT_CHANCE = ("linear", "linear_classes", "linear_sum")


# ------------------------------------------------------------------ model_fns


def layer(tf, units, **settings):
  """A dense layer that begins without chance."""

  def ramp(shape, dtype=None, **_):
    return tf.reshape(tf.linspace(-0.5, 0.7, int(np.prod(shape))), shape)

  return tf.keras.layers.Dense(units, kernel_initializer=ramp, **settings)


def network(tf, features, mode, normalized=False):
  """(layers, logits [batch, 1])."""
  city = tf.strings.to_hash_bucket_fast(features["city"], 3)
  x = tf.concat([features["age"][:, tf.newaxis], tf.one_hot(city, 3)], 1)
  layers = [layer(tf, 4, activation="tanh", name="hidden")]
  layers += [tf.keras.layers.BatchNormalization(name="norm")] if normalized else []
  layers += [layer(tf, 1, name="logits")]
  for one in layers:
    x = one(x, training=mode == "train") if "norm" in one.name else one(x)
  return layers, x


def spec(tf, mode, loss, logits, train_op, **others):
  return tf.estimator.EstimatorSpec(
    mode, predictions={"logits": logits}, loss=loss, train_op=train_op, **others
  )


def updates(tf, features, labels, mode):
  """As the guide of TensorFlow 2 wrote a model_fn: losses, metrics, get_updates, iterations."""
  layers, logits = network(tf, features, mode, normalized=True)
  labels = tf.cast(labels, tf.float32)[:, tf.newaxis]
  loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)(labels, logits)
  accuracy = tf.keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0)
  accuracy.update_state(labels, logits)
  train_op = None
  if mode == tf.estimator.ModeKeys.TRAIN:
    optimizer = tf.keras.optimizers.legacy.Adam(0.05)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    variables = [variable for one in layers for variable in one.trainable_variables]
    ops = [op for one in layers for op in one.get_updates_for(None) + one.get_updates_for(features)]
    train_op = tf.group(optimizer.get_updates(loss, variables)[0], *set(ops))
  return spec(tf, mode, loss, logits, train_op, eval_metric_ops={"accuracy": accuracy})


def applied(tf, features, labels, mode):
  """Gradients that are clipped and applied, by a rate that decays with the global step."""
  _, logits = network(tf, features, mode)
  labels = tf.cast(labels, tf.float32)[:, tf.newaxis]
  loss = tf.reduce_mean(tf.losses.mean_squared_error(labels, logits))
  step = tf.compat.v1.train.get_or_create_global_step()
  train_op = None
  if mode == "train":
    rate = tf.compat.v1.train.exponential_decay(0.1, step, 2, 0.5)
    optimizer = tf.keras.optimizers.legacy.RMSprop(rate, momentum=0.5)
    optimizer.iterations = step
    variables = tf.compat.v1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.5)
    train_op = optimizer.apply_gradients(zip(gradients, variables, strict=True))
  mean = tf.metrics.Mean()
  mean.update_state(logits)
  return spec(tf, mode, loss, logits, train_op, eval_metric_ops={"mean": mean})


def minimized(tf, features, labels, mode):
  """A loss as a function, a schedule, clipnorm; metrics and summaries of tf.compat.v1 beside."""
  labels = tf.cast(labels, tf.float32)[:, tf.newaxis]
  layers = [layer(tf, 4, activation="tanh", name="hidden"), layer(tf, 1, name="logits")]
  x = tf.nn.dropout(features["age"][:, tf.newaxis], rate=0.0)

  def loss():
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, layers[1](layers[0](x))))

  value = loss()
  train_op = None
  if mode == "train":
    schedule = tf.keras.optimizers.schedules.PiecewiseConstantDecay([1, 3], [0.3, 0.2, 0.1])
    optimizer = tf.keras.optimizers.legacy.Adagrad(schedule, clipnorm=0.1)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    train_op = optimizer.minimize(
      loss, lambda: [v for one in layers for v in one.trainable_variables]
    )
  logits = layers[1](layers[0](x))
  tf.compat.v1.summary.scalar("value", value)
  accuracy = tf.compat.v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.float32))
  return spec(tf, mode, value, logits, train_op, eval_metric_ops={"accuracy": accuracy})


def new_optimizer(tf, features, labels, mode):
  """An optimizer of Keras 3, and one of tf.compat.v1 beside it.

  2.15's own optimizer of this name changes nothing but its counter in a model_fn.
  """
  _, logits = network(tf, features, mode)
  labels = tf.cast(labels, tf.float32)[:, tf.newaxis]
  loss = tf.reduce_mean(tf.math.squared_difference(labels, logits))
  train_op = None
  if mode == "train":
    step = tf.compat.v1.train.get_or_create_global_step()
    first, last = (tf.compat.v1.trainable_variables(one) for one in ("hidden", "logits"))
    kinds = tf.keras.optimizers
    optimizer = (kinds.legacy if keras.__version__.startswith("2.") else kinds).Adam(0.01)
    by_new = optimizer.apply_gradients(zip(tf.gradients(loss, first), first, strict=True))
    by_v1 = tf.compat.v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step, last)
    train_op = tf.group(by_new, by_v1)
  return spec(tf, mode, loss, logits, train_op)


def by_head(tf, features, labels, mode):
  """A head, with an optimizer and variables, and one sparse variable under Ftrl."""
  rows = tf.Variable(tf.ones([4, 2]), name="rows")
  found = tf.nn.embedding_lookup(rows, tf.strings.to_hash_bucket_fast(features["city"], 4))
  last = layer(tf, 1, name="logits")
  logits = last(tf.concat([found, features["age"][:, tf.newaxis]], 1))
  head = tf.estimator.BinaryClassHead(thresholds=[0.3])
  optimizer = tf.keras.optimizers.legacy.Ftrl(0.1, l1_regularization_strength=0.01)
  optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
  return head.create_estimator_spec(
    features,
    mode,
    logits,
    labels,
    optimizer=optimizer,
    trainable_variables=[rows, *last.trainable_variables],
  )


def dense_features(tf, features, labels, mode):
  """tf.keras.layers.DenseFeatures, and regularization; the other slots of optimizers."""
  fc = tf.feature_column
  city = fc.categorical_column_with_vocabulary_list("city", ["a", "b", "c"])
  ones = tf.compat.v1.constant_initializer(0.5)
  taken = [fc.numeric_column("age"), fc.embedding_column(city, 2, initializer=ones)]
  inputs = tf.keras.layers.DenseFeatures(taken, name="inputs")
  last = layer(tf, 1, name="logits", kernel_regularizer=tf.keras.regularizers.l2(0.1))
  logits = last(inputs({name: features[name] for name in ("age", "city")}))
  labels = tf.cast(labels, tf.float32)[:, tf.newaxis]
  loss = tf.reduce_mean(tf.math.squared_difference(labels, logits))
  loss += tf.add_n(last.get_losses_for(None) + last.get_losses_for(features))
  train_op = None
  if mode == "train":
    optimizer = tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9, nesterov=True, decay=0.1)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    (train_op,) = optimizer.get_updates(
      loss, [*inputs.trainable_variables, *last.trainable_variables]
    )
  return spec(tf, mode, loss, logits, train_op)


MODEL_FNS = {
  one.__name__: one for one in (updates, applied, minimized, new_optimizer, by_head, dense_features)
}


def of_model_fn(tf, name, folder, **config):
  made = MODEL_FNS[name]

  def model_fn(features, labels, mode):
    return made(tf, features, labels, mode)

  return tf.estimator.Estimator(model_fn, f"{folder}/{name}", tf.estimator.RunConfig(**config))


def of_keras(tf, folder, **config):
  """model_to_estimator of a compiled model."""
  model = tf.keras.Sequential(
    [
      tf.keras.layers.Input([1]),
      tf.keras.layers.Dense(3, activation="tanh", name="hidden"),
      tf.keras.layers.BatchNormalization(name="norm"),
      tf.keras.layers.Dense(1, name="logits"),
    ]
  )
  # 2.15 forgets the statistics of a compiled model; here they are those that it would begin with.
  for one in model.layers:
    kept = one.get_weights()[2:] if one.name == "norm" else []
    made = [np.linspace(0.5, 0.7, w.size).reshape(w.shape) for w in one.get_weights()]
    one.set_weights([*made[: len(made) - len(kept)], *kept])
  model.compile(tf.keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
  return tf.keras.estimator.model_to_estimator(
    model, model_dir=f"{folder}/keras", config=tf.estimator.RunConfig(**config)
  )


def keras_input_fn(tf, epochs=None):
  features, labels = arrays()
  pair = features["age"][:, np.newaxis], labels["number"][:, np.newaxis]
  return lambda: tf.data.Dataset.from_tensor_slices(pair).repeat(epochs).batch(16)


# ------------------------------------------------------------------ what is run


def result_of(made, reading, checkpoint_path=None):
  found = made.evaluate(reading, checkpoint_path=checkpoint_path)
  return {key: float(value) for key, value in found.items()}


def run(tf, made, reading, reading_once):
  """(what is evaluated after one step, and after some more, names of the variables)."""
  results = []
  for steps in (1, STEPS - 1):
    made.train(reading, steps=steps)
    results.append(result_of(made, reading_once))
  return {"results": results, "names": names_of(made)}


def names_of(made):
  return sorted(name for name in made.get_variable_names() if "ATTRIBUTES" not in name)


def run_canned(tf, name, made, label):
  """As `run`, of the checkpoints of one training: each training is traced anew."""
  features = ("age", "city")
  given = dict(features=features, batch=ROWS)
  start = int(made.get_variable_value("global_step")) if made.latest_checkpoint() else 0
  made.train(input_fn(tf, label, **given), steps=STEPS)
  results = [
    result_of(made, input_fn(tf, label, 1, **given), f"{made.model_dir}/model.ckpt-{start + steps}")
    for steps in (1, STEPS)
  ]
  return {"results": results, "names": names_of(made)}


def run_program(tf, name, folder, **config):
  if name == "keras":
    made = of_keras(tf, folder, **config)
    return run(tf, made, keras_input_fn(tf), keras_input_fn(tf, 1))
  made = of_model_fn(tf, name, folder, **config)
  return run(tf, made, input_fn(tf, "binary"), input_fn(tf, "binary", 1))


PROGRAMS = (*MODEL_FNS, "keras")


def main():
  import json
  import pathlib
  import shutil
  import tempfile

  import tensorflow as tf

  here = pathlib.Path(__file__).parent
  kept = here / "v2_checkpoints_2_15"
  shutil.rmtree(kept, ignore_errors=True)
  found = {}
  folder = tempfile.mkdtemp()
  for name, (make, label) in canned(tf, folder, tf_random_seed=1).items():
    made = make()
    if name in WITHOUT_CHANCE:
      found[name] = run_canned(tf, name, made, label)
      continue
    made.train(input_fn(tf, label), steps=1)
    (kept / name).mkdir(parents=True)
    for path in pathlib.Path(made.model_dir).glob("model.ckpt-1.[di]*"):
      shutil.copy(path, kept / name)
    found[name] = run_canned(tf, name, made, label)
  for name in PROGRAMS:
    found[name] = run_program(tf, name, folder)
  (here / "v2_programs_2_15.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
  main()
