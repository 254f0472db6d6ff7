"""What XLA cannot compile is an error that names its place."""

import pytest
import tensorflow as tf

from tests.trainer.programs import pure
from trainer.programs import lowering


def test_what_cannot_be_made_pure_is_said_with_its_place():
  state = tf.random.Generator.from_seed(1).state
  draw = tf.raw_ops.StatefulStandardNormalV2
  function = tf.function(lambda x: x + draw(resource=state.handle, algorithm=1, shape=[2]))
  with pytest.raises(lowering.LowerError, match=rf"StatefulStandardNormalV2 \({__file__}:\d+\)"):
    pure.lowered(function.get_concrete_function(tf.TensorSpec([2])))


def test_a_size_of_the_data_is_said_with_its_place():
  function = tf.function(lambda x: tf.where(x > 0))
  with pytest.raises(
    lowering.LowerError, match=rf"Where \({__file__}:\d+\) has a data-dependent number of rows"
  ):
    pure.lowered(function.get_concrete_function(tf.TensorSpec([2])))
