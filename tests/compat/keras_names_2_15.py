"""Layers of Keras in scopes of a model_fn, for TensorFlow 2.15 and trainer.compat.v1.

`tf215/bin/python tests/compat/keras_names_2_15.py` (see record_2_15.py) writes down in
keras_names_2_15.json what 2.15 calls the variables in a checkpoint.
"""

import numpy as np


def dense_in_a_scope(tf, keras, x):
  with tf.variable_scope("dnn"):
    return keras.layers.Dense(2, name="d")(x)


def default_names(tf, keras, x):
  x = keras.layers.Dense(2)(x)
  return keras.layers.Dense(2)(x)


def default_names_in_a_scope(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = keras.layers.Dense(2)(x)
    return keras.layers.Dense(2)(x)


def default_names_in_two_scopes(tf, keras, x):
  with tf.variable_scope("one"):
    a = keras.layers.Dense(2)(x)
  with tf.variable_scope("two"):
    return keras.layers.Dense(2)(a)


def nested_scopes(tf, keras, x):
  with tf.variable_scope("outer"), tf.variable_scope("inner"):
    return keras.layers.Dense(2, name="d")(x)


def a_name_with_a_slash(tf, keras, x):
  with tf.variable_scope("outer/inner"):
    return keras.layers.Dense(2, name="d")(x)


def a_layer_with_a_slash(tf, keras, x):
  with tf.variable_scope("outer"):
    return keras.layers.Dense(2, name="inner/d")(x)


def the_name_of_a_layer_with_a_slash(tf, keras, x):
  layer = keras.layers.Dense(2, name="inner/d")
  with tf.variable_scope(layer.name.replace("/", "_of_")):
    return keras.layers.Dense(2, name="e")(layer(x))


def numbers_beside_the_inputs(tf, keras, x):
  class Repeated(keras.layers.Layer):
    def call(self, x, count, training=None, scales=()):
      return scales[0] * scales[1] * keras.layers.Dense(2 * count + training, name="d")(x)

  return Repeated(name="repeated")(x, 3, True, [tf.reduce_mean(x), 0.5])


def a_name_scope(tf, keras, x):
  with tf.name_scope("scope"):
    return keras.layers.Dense(2, name="d")(x)


def a_name_scope_in_a_variable_scope(tf, keras, x):
  with tf.variable_scope("dnn"), tf.name_scope("scope"):
    return keras.layers.Dense(2, name="d")(x)


def a_variable_scope_in_a_name_scope(tf, keras, x):
  with tf.name_scope("scope"), tf.variable_scope("dnn"):
    return keras.layers.Dense(2, name="d")(x)


def a_name_scope_twice(tf, keras, x):
  with tf.name_scope("scope"):
    x = keras.layers.Dense(2, name="a")(x)
  with tf.name_scope("scope"):
    return keras.layers.Dense(2, name="b")(x)


def a_scope_twice(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = keras.layers.Dense(2, name="a")(x)
  with tf.variable_scope("dnn"):
    return keras.layers.Dense(2, name="b")(x)


def the_same_name_in_a_scope_twice(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = keras.layers.Dense(2, name="d")(x)
  with tf.variable_scope("dnn"):
    return keras.layers.Dense(2, name="d")(x)


def reuse(tf, keras, x):
  with tf.variable_scope("dnn"):
    a = keras.layers.Dense(2, name="d")(x)
    tf.get_variable("w", [])
  with tf.variable_scope("dnn", reuse=True):
    return keras.layers.Dense(2, name="d")(x) + a + tf.get_variable("w", [])


def auto_reuse(tf, keras, x):
  outputs = []
  for _ in range(2):
    with tf.variable_scope("dnn", reuse=tf.AUTO_REUSE):
      outputs.append(keras.layers.Dense(2, name="d")(x) * tf.get_variable("w", []))
  return tf.add_n(outputs)


def a_scope_object(tf, keras, x):
  with tf.variable_scope("dnn") as scope:
    x = keras.layers.Dense(2, name="a")(x)
  with tf.variable_scope(scope):
    return keras.layers.Dense(2, name="b")(x)


def a_scope_object_in_another_scope(tf, keras, x):
  with tf.variable_scope("dnn") as scope:
    x = keras.layers.Dense(2, name="a")(x)
  with tf.variable_scope("other"), tf.variable_scope(scope):
    return keras.layers.Dense(2, name="b")(x)


def a_scope_without_auxiliary_name_scope(tf, keras, x):
  with tf.variable_scope("dnn") as scope:
    x = keras.layers.Dense(2, name="a")(x)
  with tf.variable_scope(scope, auxiliary_name_scope=False):
    with tf.name_scope(scope.original_name_scope):
      return keras.layers.Dense(2, name="b")(x)


def a_default_name(tf, keras, x):
  for _ in range(2):
    with tf.variable_scope(None, default_name="block"):
      x = keras.layers.Dense(2, name="d")(x)
  return x


def a_loop(tf, keras, x):
  for number in range(3):
    with tf.variable_scope(f"layer_{number}"):
      x = keras.layers.Dense(2)(x)
  return x


def a_loop_of_names(tf, keras, x):
  with tf.variable_scope("dnn"):
    for number in range(3):
      x = keras.layers.Dense(2, name=f"d{number}")(x)
  return x


def a_scope_whose_name_an_operation_has(tf, keras, x):
  x = tf.identity(x, name="dnn")
  with tf.variable_scope("dnn"):
    return keras.layers.Dense(2, name="d")(x) + tf.get_variable("w", [])


def a_name_that_an_operation_has(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = tf.identity(x, name="d")
    return keras.layers.Dense(2, name="d")(x)


def a_name_that_a_layer_of_tf_has(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = tf.layers.dense(x, 2, name="d")
    return keras.layers.Dense(2, name="d")(x)


def a_layer_of_tf_with_the_name_of_keras(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = keras.layers.Dense(2, name="d")(x)
    return tf.layers.dense(x, 2, name="d")


def layers_of_tf_between(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = tf.layers.dense(x, 2)
    x = keras.layers.Dense(2)(x)
    x = tf.layers.dense(x, 2)
    return keras.layers.Dense(2)(x)


def layers_of_tf_with_names_between(tf, keras, x):
  x = tf.layers.dense(x, 2, name="mine")
  x = keras.layers.Dense(2)(x)
  with tf.variable_scope("dnn"):
    x = tf.layers.dense(x, 2)
  x = keras.layers.Dense(2)(x)
  return keras.layers.BatchNormalization()(tf.layers.batch_normalization(x))


def a_layer_made_before_the_scope(tf, keras, x):
  layer = keras.layers.Dense(2, name="d")
  with tf.variable_scope("dnn"):
    return layer(x)


def a_layer_made_in_the_scope_and_called_after(tf, keras, x):
  with tf.variable_scope("dnn"):
    layer = keras.layers.Dense(2, name="d")
  return layer(x)


def a_layer_made_in_one_scope_and_called_in_another(tf, keras, x):
  with tf.variable_scope("one"):
    layer = keras.layers.Dense(2, name="d")
  with tf.variable_scope("two"):
    return layer(x)


def a_layer_that_is_built_in_the_scope(tf, keras, x):
  layer = keras.layers.Dense(2, name="d")
  with tf.variable_scope("dnn"):
    layer.build((None, 4))
  return layer(x)


def a_layer_called_twice(tf, keras, x):
  with tf.variable_scope("dnn"):
    layer = keras.layers.Dense(4, name="d")
    return layer(layer(x))


def a_layer_called_in_two_scopes(tf, keras, x):
  layer = keras.layers.Dense(4, name="d")
  with tf.variable_scope("one"):
    x = layer(x)
  with tf.variable_scope("two"):
    return layer(x)


def batch_normalization(tf, keras, x):
  with tf.variable_scope("dnn"):
    x = keras.layers.BatchNormalization()(x, training=True)
    return keras.layers.BatchNormalization(name="bn")(x)


def embedding(tf, keras, x):
  words = tf.cast(x > 0, tf.int32)
  with tf.variable_scope("words"):
    return tf.reduce_sum(keras.layers.Embedding(3, 2)(words), 1)


def lstm(tf, keras, x):
  with tf.variable_scope("rnn"):
    return keras.layers.LSTM(2)(x[:, :, tf.newaxis])


def gru(tf, keras, x):
  with tf.variable_scope("rnn"):
    return keras.layers.GRU(2, name="g", reset_after=True)(x[:, :, tf.newaxis])


def simple_rnn(tf, keras, x):
  with tf.variable_scope("rnn"):
    return keras.layers.SimpleRNN(2)(x[:, :, tf.newaxis])


def rnn_of_cells(tf, keras, x):
  with tf.variable_scope("rnn"):
    cells = [keras.layers.LSTMCell(2), keras.layers.LSTMCell(2)]
    return keras.layers.RNN(cells)(x[:, :, tf.newaxis])


def bidirectional(tf, keras, x):
  with tf.variable_scope("rnn"):
    return keras.layers.Bidirectional(keras.layers.LSTM(2))(x[:, :, tf.newaxis])


def bidirectional_with_a_name(tf, keras, x):
  with tf.variable_scope("rnn"):
    layer = keras.layers.GRU(2, name="g", reset_after=True)
    return keras.layers.Bidirectional(layer, name="both")(x[:, :, tf.newaxis])


def time_distributed(tf, keras, x):
  with tf.variable_scope("rnn"):
    layer = keras.layers.TimeDistributed(keras.layers.Dense(2))
    return tf.reduce_sum(layer(x[:, :, tf.newaxis]), 1)


def convolutions(tf, keras, x):
  images = tf.reshape(x, [-1, 2, 2, 1])
  with tf.variable_scope("cnn"):
    images = keras.layers.Conv2D(2, 1)(images)
    images = keras.layers.SeparableConv2D(2, 1)(images)
    images = keras.layers.DepthwiseConv2D(1)(images)
    images = keras.layers.Conv2DTranspose(2, 1)(images)
  return tf.reduce_sum(images, [1, 2])


def convolutions_in_time(tf, keras, x):
  frames = tf.reshape(x, [-1, 2, 2, 1])
  with tf.variable_scope("cnn"):
    frames = keras.layers.ConvLSTM1D(2, 1)(frames)
    frames = keras.layers.Conv1D(2, 1)(frames)
    frames = keras.layers.Conv1DTranspose(2, 1)(frames)
    frames = keras.layers.DepthwiseConv1D(1)(frames)
    frames = keras.layers.SeparableConv1D(2, 1)(frames)
  return tf.reduce_sum(frames, 1)


def layer_normalization(tf, keras, x):
  with tf.variable_scope("dnn"):
    return keras.layers.LayerNormalization()(x)


def prelu(tf, keras, x):
  with tf.variable_scope("dnn"):
    return keras.layers.PReLU()(x)


def attention(tf, keras, x):
  words = x[:, :, tf.newaxis]
  with tf.variable_scope("net"):
    return keras.layers.MultiHeadAttention(1, 2, name="att")(words, words)[:, 0]


def a_sequential(tf, keras, x):
  with tf.variable_scope("dnn"):
    return keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(2)])(x)


def a_sequential_with_a_name(tf, keras, x):
  with tf.variable_scope("dnn"):
    return keras.Sequential([keras.layers.Dense(2, name="d")], name="net")(x)


def a_sequential_with_an_input(tf, keras, x):
  with tf.variable_scope("dnn"):
    layers = [keras.layers.InputLayer(input_shape=(4,)), keras.layers.Dense(2)]
    return keras.Sequential(layers)(x)


def a_sequential_with_an_input_shape(tf, keras, x):
  with tf.variable_scope("dnn"):
    model = keras.Sequential(name="net")
    model.add(keras.layers.Dense(3, input_shape=(4,)))
    model.add(keras.layers.Dense(2))
  return model(x)


def a_sequential_made_before_the_scope(tf, keras, x):
  model = keras.Sequential([keras.layers.Dense(2)])
  with tf.variable_scope("dnn"):
    return model(x)


def a_sequential_without_a_scope(tf, keras, x):
  return keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(2)])(x)


def a_sequential_in_a_sequential(tf, keras, x):
  with tf.variable_scope("dnn"):
    inner = keras.Sequential([keras.layers.Dense(2)], name="inner")
    return keras.Sequential([inner, keras.layers.Dense(2)], name="outer")(x)


def a_functional(tf, keras, x):
  with tf.variable_scope("dnn"):
    inputs = keras.Input([4])
    outputs = keras.layers.Dense(2)(keras.layers.Dense(3)(inputs))
    return keras.Model(inputs, outputs)(x)


def a_functional_without_a_scope(tf, keras, x):
  inputs = keras.Input([4])
  return keras.Model(inputs, keras.layers.Dense(2)(inputs))(x)


def a_functional_of_a_sequential(tf, keras, x):
  with tf.variable_scope("dnn"):
    inputs = keras.Input([4])
    inner = keras.Sequential([keras.layers.Dense(2)], name="inner")
    return keras.Model(inputs, inner(inputs), name="outer")(x)


def two_functionals(tf, keras, x):
  outputs = []
  for scope in ("one", "two"):
    with tf.variable_scope(scope):
      inputs = keras.Input([4])
      outputs.append(keras.Model(inputs, keras.layers.Dense(2, name="d")(inputs))(x))
  return tf.add_n(outputs)


def _subclass(keras, name=None):
  class MyModel(keras.Model):
    def __init__(self, name=None):
      super().__init__(name=name)
      self.first = keras.layers.Dense(3)
      self.second = keras.layers.Dense(2, name="second")

    def call(self, inputs):
      return self.second(self.first(inputs))

  return MyModel(name=name)


def a_subclass(tf, keras, x):
  with tf.variable_scope("dnn"):
    return _subclass(keras)(x)


def a_subclass_with_a_name(tf, keras, x):
  with tf.variable_scope("dnn"):
    return _subclass(keras, "net")(x)


def a_subclass_without_a_scope(tf, keras, x):
  return _subclass(keras)(x)


def a_subclass_made_before_the_scope(tf, keras, x):
  model = _subclass(keras)
  with tf.variable_scope("dnn"):
    return model(x)


def a_subclass_called_twice(tf, keras, x):
  with tf.variable_scope("dnn"):
    model = _subclass(keras)
    return model(x) + model(2 * x)


def two_of_a_subclass(tf, keras, x):
  with tf.variable_scope("dnn"):
    return _subclass(keras)(x) + _subclass(keras)(x)


def a_scope_in_a_subclass(tf, keras, x):
  class MyModel(keras.Model):
    def __init__(self):
      super().__init__()
      self.dense = keras.layers.Dense(2)

    def call(self, inputs):
      with tf.variable_scope("inner"):
        return self.dense(inputs)

  with tf.variable_scope("dnn"):
    return MyModel()(x)


def a_name_scope_in_a_subclass(tf, keras, x):
  class MyModel(keras.Model):
    def __init__(self):
      super().__init__()
      self.dense = keras.layers.Dense(2)

    def call(self, inputs):
      with tf.name_scope("inner"):
        return self.dense(inputs)

  with tf.variable_scope("dnn"):
    return MyModel()(x)


def a_layer_of_its_own(tf, keras, x):
  class Mine(keras.layers.Layer):
    def build(self, shape):
      self.w = self.add_weight(name="w", shape=[4, 2], initializer="zeros")
      self.v = self.add_weight(name="v", shape=[], initializer="zeros", trainable=False)
      self.built = True

    def call(self, inputs):
      return tf.matmul(inputs, self.w) + self.v

  with tf.variable_scope("dnn"):
    return Mine()(x) + Mine(name="mine")(x)


def a_layer_of_its_own_with_weights_at_once(tf, keras, x):
  class Mine(keras.layers.Layer):
    def __init__(self):
      super().__init__()
      self.w = self.add_weight(name="w", shape=[4, 2], initializer="zeros")

    def call(self, inputs):
      return tf.matmul(inputs, self.w)

  with tf.variable_scope("dnn"):
    return Mine()(x)


def a_layer_that_makes_layers_in_build(tf, keras, x):
  class Mine(keras.layers.Layer):
    def build(self, shape):
      self.dense = keras.layers.Dense(2)
      self.other = keras.layers.Dense(2, name="other")
      self.other.build(shape)
      self.built = True

    def call(self, inputs):
      return self.dense(inputs) + self.other(inputs)

  with tf.variable_scope("dnn"):
    return Mine()(x)


def a_layer_with_a_variable(tf, keras, x):
  class Mine(keras.layers.Layer):
    def build(self, shape):
      self.w = tf.Variable(tf.zeros([4, 2]), name="w")
      self.built = True

    def call(self, inputs):
      return tf.matmul(inputs, self.w)

  with tf.variable_scope("dnn"):
    return Mine()(x)


def a_layer_with_get_variable(tf, keras, x):
  class Mine(keras.layers.Layer):
    def call(self, inputs):
      return tf.matmul(inputs, tf.get_variable("w", [4, 2]))

  with tf.variable_scope("dnn"):
    return Mine()(x)


def keras_in_a_layer_of_tf(tf, keras, x):
  class Mine(tf.layers.Layer):
    def build(self, shape):
      self.dense = keras.layers.Dense(2)
      self.built = True

    def call(self, inputs):
      return self.dense(inputs)

  with tf.variable_scope("dnn"):
    return Mine(name="mine")(x)


def a_variable_of_tf(tf, keras, x):
  with tf.variable_scope("dnn"):
    return keras.layers.Dense(2)(x) * tf.Variable(1.0, name="w")


def a_custom_getter(tf, keras, x):
  def getter(getter, name, *args, **kwargs):
    return getter(name + "_got", *args, **kwargs)

  with tf.variable_scope("dnn", custom_getter=getter):
    return keras.layers.Dense(2)(x) * tf.get_variable("w", [])


def a_regularizer_of_the_scope(tf, keras, x):
  with tf.variable_scope("dnn", initializer=tf.zeros_initializer()):
    return keras.layers.Dense(2, kernel_regularizer=keras.regularizers.l2(0.1))(x)


CASES = {
  name: case
  for name, case in list(globals().items())
  if callable(case) and not name.startswith("_")
}

OPTIMIZERS = {
  "GradientDescentOptimizer": lambda tf: tf.train.GradientDescentOptimizer(0.01),
  "AdamOptimizer": lambda tf: tf.train.AdamOptimizer(0.01),
  "MomentumOptimizer": lambda tf: tf.train.MomentumOptimizer(0.01, 0.9),
  "AdagradOptimizer": lambda tf: tf.train.AdagradOptimizer(0.01),
  "FtrlOptimizer": lambda tf: tf.train.FtrlOptimizer(0.01),
  "RMSPropOptimizer": lambda tf: tf.train.RMSPropOptimizer(0.01),
}

# Of these cases, the slots of each optimizer are written down, too.
WITH_SLOTS = ("batch_normalization", "the_same_name_in_a_scope_twice", "embedding")


def estimator_of(tf, case, folder, optimizer="GradientDescentOptimizer", **config):
  """(the Estimator of a case, the names of its trainable variables once it was traced)."""
  trainable = []

  def model_fn(features, labels, mode):
    outputs = case(tf, tf.keras, features)
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(outputs, -1) - labels))
    trainable[:] = [variable.op.name for variable in tf.trainable_variables()]
    train_op = None
    if mode == "train":
      train_op = OPTIMIZERS[optimizer](tf).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  run_config = tf.estimator.RunConfig(model_dir=str(folder), **config)
  return tf.estimator.Estimator(model_fn, config=run_config), trainable


def batches(tf):
  x = np.random.RandomState(0).randn(8, 4).astype(np.float32)
  return tf.data.Dataset.from_tensor_slices((x, x[:, 0])).batch(4)


def main():
  import json
  import pathlib
  import tempfile

  import tensorflow.compat.v1 as tf

  def trained(name, optimizer):
    estimator, trainable = estimator_of(tf, CASES[name], tempfile.mkdtemp(), optimizer)
    estimator.train(lambda: batches(tf), steps=1)
    return dict(tf.train.list_variables(estimator.latest_checkpoint())), trainable

  lines = []
  for name in CASES:
    stored, trainable = trained(name, "GradientDescentOptimizer")
    lines.append((name, {"stored": stored, "trainable": trainable}))
  for name in WITH_SLOTS:
    slots = {optimizer: sorted(trained(name, optimizer)[0]) for optimizer in OPTIMIZERS}
    lines.append((f"slots of {name}", slots))
  text = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in lines)
  pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
  main()
