"""slim.nets: networks of the package tf_slim, whose files are read with their imports changed."""

import importlib
import sys

import pytest

import trainer.compat.v1 as tf
from trainer.compat.names import absent

# As tf_slim writes its networks.
BLOCKS = """
import tensorflow.compat.v1 as tf
from tf_slim import layers
from tf_slim.layers import layers as layers_lib
from tf_slim.layers import utils
from tf_slim.ops.arg_scope import add_arg_scope, arg_scope
from tensorflow.python.ops import array_ops

@add_arg_scope
def unit(x, depth, outputs_collections=None, scope=None):
  with tf.variable_scope(scope, "unit", [x]) as found:
    short = layers_lib.max_pool2d(x, [1, 1], stride=2, scope="short")
    x = array_ops.identity(layers.conv2d(short, depth, [3, 3], scope="conv"))
    return utils.collect_named_outputs(outputs_collections, found.name, x)
"""
NETWORK = """
import tensorflow.compat.v1 as tf
from tf_slim import layers
from tf_slim.layers import utils
from tf_slim.nets import resnet_utils
from tf_slim.ops.arg_scope import arg_scope

def tiny(x, classes, scope=None):
  with tf.variable_scope(scope, "tiny", [x]) as found:
    ends = found.original_name_scope + "_end_points"
    with arg_scope([layers.conv2d, resnet_utils.unit], outputs_collections=ends):
      x = resnet_utils.unit(x, 4)
    x = utils.collect_named_outputs(ends, found.name + "/block", x)
    logits = layers.fully_connected(tf.reduce_mean(x, [1, 2]), classes, activation_fn=None)
    return logits, utils.convert_collection_to_dict(ends)
"""
ENDS = ["tiny/unit/conv", "tiny/unit", "tiny/block"]


@pytest.fixture
def slim(tmp_path, monkeypatch):
  """slim, where tf_slim is a package of two networks."""
  nets = tmp_path / "tf_slim" / "nets"
  nets.mkdir(parents=True)
  (tmp_path / "tf_slim" / "__init__.py").write_text("raise ImportError('not beside Keras 3')\n")
  (nets / "resnet_utils.py").write_text(BLOCKS)
  (nets / "resnet_v1.py").write_text(NETWORK)
  monkeypatch.syspath_prepend(tmp_path)
  importlib.invalidate_caches()
  before = set(sys.modules)
  yield tf.contrib.slim
  for name in set(sys.modules) - before:  # another test finds the networks that are installed
    if "slim.nets" in name or "slim_nets" in name:
      del sys.modules[name]
      parent, _, last = name.rpartition(".")
      vars(sys.modules.get(parent, tf)).pop(last, None)


def test_a_network_trains_and_has_its_end_points(slim, tmp_path):
  from trainer.compat.v1.contrib.slim.nets import resnet_v1

  assert slim.nets.resnet_v1.tiny is resnet_v1.tiny
  from trainer.compat.v1.contrib.slim.python.slim.nets.resnet_v1 import tiny

  assert tiny is resnet_v1.tiny
  found = []

  def model_fn(features, labels, mode):
    logits, ends = resnet_v1.tiny(features, 3)
    found.append([*ends])
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = slim.learning.create_train_op(loss, tf.train.AdamOptimizer())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  data = tf.data.Dataset.from_tensors((tf.ones([4, 6, 6, 3]), tf.constant([0, 1, 2, 0])))
  estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"))
  estimator.train(lambda: data.repeat(), steps=3)
  assert found[0] == ENDS
  assert "tiny/unit/conv/weights" in estimator.get_variable_names()
  assert estimator.get_variable_value("global_step") == 3


def test_files_are_read_without_bytecode_of_theirs(slim, tmp_path):
  importlib.import_module("trainer.compat.v1.contrib.slim.nets.resnet_v1").tiny  # noqa: B018
  assert not list((tmp_path / "tf_slim" / "nets").rglob("*.pyc"))


def test_without_the_package_an_error_says_how_to_install_it(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  # A test that has imported each module of compat leaves this one on its package.
  monkeypatch.delattr(tf.contrib.slim.nets, "vgg", raising=False)
  with pytest.raises(absent.AbsentNameError, match=r"slim\.nets\.vgg: .* pip install .*tf_slim"):
    tf.contrib.slim.nets.vgg  # noqa: B018
