"""Sessions outside of a graph say what to write instead."""

import numpy as np
import pytest

import trainer.compat.v1 as tf
from trainer import errors


@pytest.mark.parametrize("cls", [tf.Session, tf.InteractiveSession])
@pytest.mark.parametrize(
  "fetch", [lambda: tf.constant(1), lambda: [tf.Variable(1.0)], lambda: tf.placeholder(tf.float32)]
)
def test_a_session_without_a_graph_says_what_to_write(cls, fetch):
  session = cls(config=tf.ConfigProto())
  with pytest.raises(errors.SettingError, match=r"with tf\.Graph\(\)\.as_default\(\)"):
    session.run(fetch())
  session.close()


def test_an_eager_tensor_beside_a_graph_is_said_too():
  value = tf.constant(1)
  with tf.Session() as session:
    tf.constant(2)
    with pytest.raises(errors.SettingError, match="Without a session"):
      session.run(value)


def test_a_session_with_a_graph_is_tensorflows():
  with tf.Graph().as_default(), tf.Session() as session:
    x = tf.placeholder(tf.float32, [None])
    np.testing.assert_array_equal(session.run(x * 2, {x: [1, 2]}), [2, 4])
    assert session.run("Placeholder:0", {x: [3]}) == [3]


@pytest.mark.parametrize(
  "name", ["MonitoredSession", "MonitoredTrainingSession", "SingularMonitoredSession"]
)
def test_monitored_sessions_need_a_graph(name):
  made = getattr(tf.train, name)
  with pytest.raises(errors.SettingError, match=rf"tf\.train\.{name}\(\.\.\.\) outside of a graph"):
    made()
  with tf.Graph().as_default():
    tf.train.get_or_create_global_step()
    with made() as session:
      assert session.run(tf.get_collection(tf.GraphKeys.GLOBAL_STEP)) == [0]


def test_a_reset_of_the_tpu_needs_no_session():
  assert tf.Session.reset("grpc://name:8470") is None
