"""Inputs of programs for XLA devices; `test_xla` and `test_xla_steps` run programs."""

import pytest
import tensorflow as tf

from trainer import errors
from trainer.programs import xla_program
from trainer.settings.kinds import Kind


def spec(dtype):
  return {"image": tf.TensorSpec([4], tf.float32), "id": tf.TensorSpec([4], dtype)}, None


@pytest.mark.parametrize("dtype", [tf.string, tf.variant, tf.resource], ids=str)
def test_a_dtype_that_xla_lacks_is_named_with_its_feature(dtype):
  features, _ = spec(dtype)
  with pytest.raises(errors.InputError, match=rf'features\["id"\] \(eval\).* {dtype.name}'):
    xla_program.check_dtypes(Kind.EVAL, (features,))


@pytest.mark.parametrize("dtype", [tf.int64, tf.bool, tf.uint8, tf.bfloat16], ids=str)
def test_numbers_are_accepted(dtype):
  xla_program.check_dtypes(Kind.TRAIN, (spec(dtype)[0],))
