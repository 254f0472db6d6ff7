"""slim.nets: networks of the package tf_slim, whose files are read with their imports changed."""

import importlib
import pathlib
import sys
import threading

import pytest

import trainer.compat.v1 as tf
from trainer.compat.contrib import tf_slim
from trainer.compat.names import absent
from trainer.compat.v1.contrib import slim
from trainer.compat.v1.contrib.slim.nets import resnet_v1


def network(x, classes):
  blocks = [resnet_v1.resnet_v1_block("block1", base_depth=1, num_units=1, stride=1)]
  logits, ends = resnet_v1.resnet_v1(x, blocks, classes, scope="tiny")
  return tf.squeeze(logits, [1, 2]), ends


def test_a_network_trains_and_has_its_end_points(tmp_path):
  from trainer.compat.v1.contrib.slim.python.slim.nets.resnet_v1 import resnet_v1 as inside

  assert inside is slim.nets.resnet_v1.resnet_v1
  found = []

  def model_fn(features, labels, mode):
    with slim.arg_scope(resnet_v1.resnet_arg_scope()):
      logits, ends = network(features, 3)
    found.append([*ends])
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = slim.learning.create_train_op(loss, tf.train.AdamOptimizer())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  data = tf.data.Dataset.from_tensors((tf.ones([4, 9, 9, 3]), tf.constant([0, 1, 2, 0])))
  config = tf.estimator.RunConfig(device="cpu:2")
  estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"), config)
  estimator.train(lambda: data.repeat(), steps=3)
  assert [name for name in found[0] if "conv" in name] == [
    "tiny/conv1",
    *(f"tiny/block1/unit_1/bottleneck_v1/{conv}" for conv in ("conv1", "conv2", "conv3")),
  ]
  assert {"tiny/block1", "tiny/logits", "predictions"} <= {*found[0]}
  assert "tiny/block1/unit_1/bottleneck_v1/conv1/weights" in estimator.get_variable_names()
  assert estimator.get_variable_value("global_step") == 3


def test_files_are_read_without_bytecode_of_theirs():
  folder = pathlib.Path(importlib.util.find_spec("tf_slim").origin).parent / "nets"
  cached = pathlib.Path(importlib.util.cache_from_source(str(folder / "alexnet.py")))
  before = cached.stat().st_mtime if cached.exists() else None
  sys.modules.pop(f"{tf_slim.__name__}.nets.alexnet", None)
  importlib.import_module(f"{tf_slim.__name__}.nets.alexnet")
  assert (cached.stat().st_mtime if cached.exists() else None) == before


def test_threads_have_their_own_arg_scopes():
  """Replicas trace a model_fn on threads; tf_slim itself keeps open scopes for all of them."""
  conv2d, inside, other = slim.conv2d, [], []
  thread = threading.Thread(target=lambda: other.append(slim.current_arg_scope()))
  with slim.arg_scope([conv2d], stride=2):
    thread.start()
    thread.join()
    inside.append(slim.current_arg_scope())
  assert (inside, other) == ([{slim.arg_scope_func_key(conv2d): {"stride": 2}}], [{}])


def test_without_the_package_an_error_says_how_to_install_it(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  # A test that has imported each module of compat leaves this one on its packages.
  for package in (f"{tf_slim.__name__}.nets", "trainer.compat.v1.contrib.slim.nets"):
    monkeypatch.delitem(sys.modules, f"{package}.vgg", raising=False)
    if package in sys.modules:
      monkeypatch.delitem(vars(sys.modules[package]), "vgg", raising=False)
  with pytest.raises(absent.AbsentNameError, match=r"slim\.nets\.vgg: .* pip install .*tf_slim"):
    tf.contrib.slim.nets.vgg  # noqa: B018
