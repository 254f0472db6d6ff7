"""Layers and cells on fixed weights and inputs, as both TensorFlow 2.15 and trainer.compat.v1 run
them.

Each case gets a namespace with `tf`, `layers` (tf.layers), `contrib` (tf.contrib.layers; tf_slim
for 2.15) and `rnn` (tf.nn.rnn_cell), and returns tensors.
"""

import numpy as np


def images(ns):
  return ns.tf.constant(np.random.RandomState(0).randn(2, 6, 6, 4).astype(np.float32))


def rows(ns):
  return ns.tf.constant(np.random.RandomState(1).randn(5, 4).astype(np.float32))


def words(ns):
  return ns.tf.constant(np.random.RandomState(2).randn(2, 5, 4).astype(np.float32))


def volumes(ns):
  return ns.tf.constant(np.random.RandomState(3).randn(2, 3, 4, 2, 4).astype(np.float32))


def ramp(tf):
  """An initializer without chance."""

  def initialize(shape, dtype=None, partition_info=None):
    count = int(np.prod(shape))
    return tf.constant(np.linspace(-0.5, 0.7, count).reshape(shape).astype(np.float32))

  return initialize


def recurrent(make):
  def case(ns):
    cell = make(ns.rnn)
    state, outputs = cell.zero_state(2, ns.tf.float32), []
    with ns.tf.variable_scope("rnn") as scope:
      for step in range(5):
        if step:
          scope.reuse_variables()
        output, state = cell(words(ns)[:, step], state)
        outputs.append(output)
    return outputs[-1]

  return case


def slim_network(ns, layer, **settings):
  """A layer of slim in an arg_scope, after which stands another one."""
  slim = ns.slim
  with slim.arg_scope([getattr(slim, layer)], **settings):
    return getattr(slim, layer)(images(ns), *SLIM_ARGUMENTS[layer])


SLIM_ARGUMENTS = {
  "conv2d": (3, [3, 3]),
  "max_pool2d": ([3, 3],),
  "avg_pool2d": ([2, 2],),
  "fully_connected": (3,),
  "separable_conv2d": (3, [3, 3], 2),
  "batch_norm": (),
  "dropout": (0.5,),
}


def slim_regularized(ns):
  slim, tf = ns.slim, ns.tf
  with slim.arg_scope([slim.fully_connected], weights_regularizer=slim.l2_regularizer(0.1)):
    slim.fully_connected(rows(ns), 3, weights_initializer=ramp(tf), scope="first")
    slim.fully_connected(rows(ns), 2, weights_initializer=ramp(tf), scope="second")
  return tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))


def slim_arg_scopes(ns):
  """One arg_scope in another, and the first one taken again."""
  slim = ns.slim
  own = dict(weights_initializer=ramp(ns.tf))
  with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=None, **own) as outer:
    with slim.arg_scope([slim.conv2d], stride=2, padding="VALID"):
      net = slim.conv2d(images(ns), 3, 3, scope="first")
  with slim.arg_scope(outer):
    return slim.fully_connected(slim.flatten(net), 2, scope="second")


def deviations(ns):
  """How far the numbers of variance_scaling_initializer spread, to a hundredth."""
  tf, make = ns.tf, ns.contrib.variance_scaling_initializer
  kinds = ({}, dict(factor=1.0, mode="FAN_AVG", uniform=True), dict(factor=3.0, mode="FAN_OUT"))
  drawn = [make(seed=1, **kind)([300, 200], tf.float32) for kind in kinds]
  return tf.stack([tf.round(1000 * tf.math.reduce_std(x)) / 1000 for x in drawn])


def two_towers(ns):
  """Scopes, reuse, and names that are made unique."""
  tf, layers = ns.tf, ns.layers
  with tf.variable_scope("tower"):
    first = layers.dense(rows(ns), 3)
    second = layers.dense(first, 3)
  with tf.variable_scope("tower", reuse=True):
    third = layers.dense(rows(ns), 3)
  layer = layers.Dense(3, name="shared")
  return layer(first) + layer(second) + third


def batch_norm_in_training(ns):
  outputs = ns.layers.batch_normalization(images(ns), training=True, momentum=0.9)
  with ns.tf.control_dependencies(ns.tf.get_collection(ns.tf.GraphKeys.UPDATE_OPS)):
    return ns.tf.identity(outputs)


def batch_norm_of(inputs, **arguments):
  def case(ns):
    outputs = ns.layers.batch_normalization(
      inputs(ns), training=True, momentum=0.9, fused=True, **arguments
    )
    with ns.tf.control_dependencies(ns.tf.get_collection(ns.tf.GraphKeys.UPDATE_OPS)):
      return ns.tf.identity(outputs)

  return case


def contrib_batch_norm(ns):
  outputs = ns.contrib.batch_norm(rows(ns), scale=True, is_training=True, decay=0.9)
  with ns.tf.control_dependencies(ns.tf.get_collection(ns.tf.GraphKeys.UPDATE_OPS)):
    return ns.tf.identity(outputs)


def regularized(ns):
  contrib = ns.contrib
  contrib.fully_connected(
    rows(ns), 3, weights_initializer=ramp(ns.tf), weights_regularizer=contrib.l2_regularizer(0.5)
  )
  ns.layers.dense(rows(ns), 2, kernel_regularizer=contrib.l1_regularizer(0.1))
  return ns.tf.losses.get_regularization_loss()


def scoped(ns):
  """Contrib's layers in a scope that regularizes and has a custom_getter; their collections."""
  tf, contrib = ns.tf, ns.contrib
  given = dict(weights_initializer=ramp(tf), weights_regularizer=contrib.l2_regularizer(0.5))

  def halved(getter, name, *args, **kwargs):
    found = getter(name, *args, **kwargs)
    return 0.5 * found if name.endswith("weights") else found

  with tf.variable_scope("scope", regularizer=contrib.l1_regularizer(0.3), custom_getter=halved):
    made = [
      contrib.fully_connected(rows(ns), 3, **given, variables_collections={"weights": ["some"]}),
      contrib.conv2d(images(ns), 2, [3, 3], **given, variables_collections=["some"]),
    ]
  some, models = tf.get_collection("some"), tf.get_collection(tf.GraphKeys.MODEL_VARIABLES)
  of_regularizers = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
  return tf.stack([tf.reduce_sum(each) for each in (*made, *some, *models, *of_regularizers)])


def arg_scope(ns):
  contrib = ns.contrib
  with ns.arg_scope([contrib.conv2d], stride=2, activation_fn=ns.tf.nn.relu):
    return contrib.conv2d(images(ns), 3, [3, 3], weights_initializer=ramp(ns.tf))


def depthwise(ns):
  """A layer of Keras and of tf.layers at once, as EfficientNet's programs have one."""

  class Depthwise(ns.tf.keras.layers.DepthwiseConv2D, ns.layers.Layer):
    pass

  with ns.tf.variable_scope("block"):
    layer = Depthwise(
      3, strides=2, padding="same", use_bias=False, depthwise_initializer=ramp(ns.tf)
    )
    return Depthwise(2, depth_multiplier=2, depthwise_initializer=ramp(ns.tf))(layer(images(ns)))


def optimized(ns):
  """optimize_loss: the loss of a step, clipped gradients, a rate that decays."""
  tf = ns.tf
  outputs = ns.layers.dense(rows(ns), 3)
  tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.get_variable("count", []).assign_add(1.0))
  return ns.contrib.optimize_loss(
    tf.reduce_sum(outputs**2),
    tf.train.get_or_create_global_step(),
    0.1,
    "Momentum",
    gradient_multipliers={"dense/bias:0": 3.0},
    clip_gradients=2.0,
    learning_rate_decay_fn=lambda rate, step: rate / (2.0 + tf.cast(step, tf.float32)),
    summaries=["loss", "learning_rate", "gradients", "gradient_norm"],
  )


def train_op(ns, module, **options):
  """create_train_op: what is updated before the loss, and gradients that are changed."""
  tf = ns.tf
  outputs = ns.layers.dense(rows(ns), 3)
  tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.get_variable("count", []).assign_add(1.0))
  tf.train.get_or_create_global_step()
  return getattr(ns.slim, module).create_train_op(
    tf.reduce_sum(outputs**2), tf.train.MomentumOptimizer(0.1, 0.9), **options
  )


def transformed(ns):
  training = ns.slim.training
  clip = training.clip_gradient_norms_fn(1.5)
  return train_op(
    ns,
    "training",
    transform_grads_fn=lambda pairs: clip(training.multiply_gradients(pairs, {"dense/bias": 3.0})),
  )


def learned(ns):
  return train_op(
    ns,
    "learning",
    clip_gradient_norm=1.5,
    gradient_multipliers={"dense/kernel": 0.5},
    summarize_gradients=True,
  )


CASES = {
  "contrib.optimize_loss": optimized,
  "contrib.training.create_train_op": transformed,
  "slim.learning.create_train_op": learned,
  "slim.max_pool2d of single pixels": lambda ns: ns.slim.max_pool2d(images(ns), [1, 1], stride=2),
  "max_pooling2d of single pixels": lambda ns: ns.layers.max_pooling2d(images(ns), 1, 3),
  "average_pooling3d": lambda ns: ns.layers.average_pooling3d(volumes(ns), 2, 1),
  "variance_scaling_initializer": deviations,
  "slim.arg_scope": slim_arg_scopes,
  "slim.avg_pool2d": lambda ns: slim_network(ns, "avg_pool2d", stride=2, padding="SAME"),
  "slim.batch_norm": lambda ns: slim_network(ns, "batch_norm", is_training=False, scale=True),
  "slim.conv2d": lambda ns: slim_network(ns, "conv2d", stride=2, weights_initializer=ramp(ns.tf)),
  "slim.dropout": lambda ns: slim_network(ns, "dropout", is_training=False),
  "slim.fully_connected": lambda ns: slim_network(
    ns, "fully_connected", activation_fn=ns.tf.nn.tanh, weights_initializer=ramp(ns.tf)
  ),
  "slim.l2_regularizer": slim_regularized,
  "slim.max_pool2d": lambda ns: slim_network(ns, "max_pool2d", stride=2, padding="SAME"),
  "slim.separable_conv2d": lambda ns: slim_network(
    ns, "separable_conv2d", normalizer_fn=ns.slim.batch_norm, weights_initializer=ramp(ns.tf)
  ),
  "depthwise": depthwise,
  "dense": lambda ns: ns.layers.dense(rows(ns), 3, activation=ns.tf.nn.relu),
  "dense of words": lambda ns: ns.layers.dense(words(ns), 3, use_bias=False, name="named"),
  "dropout": lambda ns: ns.layers.dropout(rows(ns), 0.5, training=False),
  "conv1d": lambda ns: ns.layers.conv1d(words(ns), 3, 2, padding="same"),
  "conv2d": lambda ns: ns.layers.conv2d(images(ns), 3, 3, strides=2, padding="same"),
  "conv2d dilated": lambda ns: ns.layers.conv2d(images(ns), 3, (3, 2), dilation_rate=2),
  "conv2d_transpose": lambda ns: ns.layers.conv2d_transpose(images(ns), 3, 3, 2, padding="valid"),
  "separable_conv2d": lambda ns: ns.layers.separable_conv2d(images(ns), 3, 3, depth_multiplier=2),
  "max_pooling2d": lambda ns: ns.layers.max_pooling2d(images(ns), 3, 2, padding="same"),
  "average_pooling2d": lambda ns: ns.layers.average_pooling2d(images(ns), 2, 2),
  "flatten": lambda ns: ns.layers.flatten(images(ns)),
  "batch_normalization": lambda ns: ns.layers.batch_normalization(images(ns)),
  "batch_normalization in training": batch_norm_in_training,
  "batch_normalization of rows, fused": batch_norm_of(rows),
  "batch_normalization of words, fused": batch_norm_of(words),
  "batch_normalization of volumes, fused": batch_norm_of(volumes),
  "batch_normalization of volumes, fused, channels first": batch_norm_of(volumes, axis=1),
  "two towers": two_towers,
  "contrib.batch_norm": contrib_batch_norm,
  "contrib.conv2d": arg_scope,
  "contrib.fully_connected": lambda ns: ns.contrib.fully_connected(
    words(ns), 3, weights_initializer=ramp(ns.tf)
  ),
  "contrib.layer_norm": lambda ns: ns.contrib.layer_norm(
    words(ns), begin_norm_axis=-1, begin_params_axis=-1
  ),
  "contrib.layer_norm of all": lambda ns: ns.contrib.layer_norm(words(ns)),
  "contrib.group_norm": lambda ns: ns.contrib.group_norm(
    images(ns), groups=2, param_initializers={"gamma": ramp(ns.tf)}
  ),
  "contrib.group_norm, channels first": lambda ns: ns.contrib.group_norm(
    images(ns), groups=3, channels_axis=1, reduction_axes=[2, 3]
  ),
  "contrib.instance_norm": lambda ns: ns.contrib.instance_norm(
    images(ns), param_initializers={"beta": ramp(ns.tf), "gamma": ramp(ns.tf)}
  ),
  "contrib.instance_norm, channels first": lambda ns: ns.contrib.instance_norm(
    images(ns), scale=False, data_format="NCHW"
  ),
  "contrib.max_pool2d": lambda ns: ns.contrib.max_pool2d(images(ns), [2, 2]),
  "contrib.max_pool3d": lambda ns: ns.contrib.max_pool3d(volumes(ns), 2, padding="SAME"),
  "slim.avg_pool3d": lambda ns: ns.slim.avg_pool3d(volumes(ns), [2, 1, 2], stride=[1, 2, 1]),
  "contrib.separable_conv2d": lambda ns: ns.contrib.separable_conv2d(
    images(ns), None, 3, depth_multiplier=1, weights_initializer=ramp(ns.tf)
  ),
  "contrib.spatial_softmax": lambda ns: ns.contrib.spatial_softmax(images(ns)),
  "contrib.spatial_softmax, channels first": lambda ns: ns.contrib.spatial_softmax(
    images(ns), temperature=0.5, name="keypoints", trainable=False, data_format="NCHW"
  ),
  "contrib.maxout": lambda ns: ns.contrib.maxout(images(ns), 2),
  "contrib.maxout of rows": lambda ns: ns.contrib.maxout(words(ns), 5, axis=1),
  "contrib.flatten": lambda ns: ns.contrib.flatten(images(ns)),
  "regularized": regularized,
  "contrib's layers in a scope": scoped,
  "BasicRNNCell": recurrent(lambda rnn: rnn.BasicRNNCell(3)),
  "BasicLSTMCell": recurrent(lambda rnn: rnn.BasicLSTMCell(3)),
  "LSTMCell": recurrent(lambda rnn: rnn.LSTMCell(3, use_peepholes=True, num_proj=2)),
  "GRUCell": recurrent(lambda rnn: rnn.GRUCell(3)),
  "MultiRNNCell": recurrent(
    lambda rnn: rnn.MultiRNNCell([rnn.BasicLSTMCell(3), rnn.DropoutWrapper(rnn.GRUCell(2))])
  ),
}


def run(ns, case):
  """{"names": of the variables, "output": ..., "after": the variables' values}, rounded."""
  tf = ns.tf
  with tf.Graph().as_default(), tf.Session() as session:
    with tf.variable_scope(tf.get_variable_scope(), initializer=ramp(tf)):
      output = case(ns)
    session.run(tf.global_variables_initializer())
    value = session.run(output)
    variables = sorted(tf.global_variables(), key=lambda variable: variable.name)
    after = session.run(variables)
    return {
      "names": [f"{v.op.name} {v.shape.as_list()}" for v in variables],
      "trainable": sorted(v.op.name for v in tf.trainable_variables()),
      "output": _told(value),
      "after": [_told(one) for one in after],
    }


def _told(array):
  array = np.asarray(array, np.float64)
  flat = array.ravel()
  weights = np.cos(np.arange(flat.size))  # a sum that tells entries apart
  return [list(array.shape), float(flat.mean()), float(flat.std()), float((flat * weights).sum())]
