"""EstimatorSpec and TPUEstimatorSpec refuse at construction what 2.15 refuses there."""

import pytest

import trainer.compat.v1 as tf
from tests.compat import programs
from tests.compat.test_estimator import batches
from trainer.compat.v1 import estimator as tf_estimator
from trainer.compat.v1.contrib import tpu as contrib_tpu

ONE = tf.constant(1.0)
PAIR = tf.constant([1.0, 2.0])


@pytest.mark.parametrize("make", [tf_estimator.EstimatorSpec, contrib_tpu.TPUEstimatorSpec])
@pytest.mark.parametrize(
  "given,error,message",
  [
    (dict(mode="train", loss=ONE), ValueError, "Missing train_op"),
    (dict(mode="train", train_op=tf.no_op()), ValueError, "Missing (loss|train_op)"),
    (dict(mode="train", train_op=ONE), ValueError, "Missing loss"),
    (dict(mode="eval"), ValueError, "Missing loss"),
    (dict(mode="infer"), ValueError, "Missing predictions"),
    (dict(mode="test", loss=ONE), ValueError, "Mode not recognized"),
    (dict(mode="eval", loss=PAIR), ValueError, "Loss must be scalar"),
    (dict(mode="eval", loss=0.5), TypeError, "loss must be Tensor"),
    (dict(mode="infer", predictions=[1]), TypeError, "predictions must be Tensor"),
    (dict(mode="infer", predictions={"a": 1}), TypeError, r"predictions\[a\] must be Tensor"),
  ],
)
def test_what_a_mode_needs(make, given, error, message):
  with pytest.raises(error, match=message):
    make(**given)


def test_metrics_are_pairs_in_a_dict():
  for given in ([1], {"a": (ONE, ONE, ONE)}, {"a": [ONE, ONE]}):
    with pytest.raises(TypeError, match="eval_metric_ops"):
      tf_estimator.EstimatorSpec("eval", loss=ONE, eval_metric_ops=given)


def test_a_loss_of_one_entry_is_taken():
  assert tf_estimator.EstimatorSpec("eval", loss=PAIR[:1]).loss is not None
  assert contrib_tpu.TPUEstimatorSpec("train", loss=ONE, train_op=ONE).train_op is ONE


def test_a_training_ends_with_the_error(tmp_path):
  def model_fn(features, labels, mode):
    return tf_estimator.EstimatorSpec(mode, loss=programs.model_fn(features, labels, mode).loss)

  with pytest.raises(ValueError, match="Missing train_op"):
    programs.estimator(tmp_path, fn=model_fn).train(batches(16), steps=1)
  assert not list(tmp_path.iterdir())
