"""What is found of a library's own, and what is said where a version lacks it."""

import keras
import pytest
import tensorflow as tf

from trainer import errors
from trainer.internals import private_names


def test_modules_and_what_is_in_them():
  assert private_names.find("keras.src.optimizers.adam.Adam") is keras.optimizers.Adam
  assert private_names.find("tensorflow.python.eager.context").executing_eagerly()
  assert private_names.find("tensorflow.Graph") is tf.Graph


def test_an_owner_and_a_name():
  assert private_names.member("keras.layers.Dense.call") == (keras.layers.Dense, "call")


@pytest.mark.parametrize(
  "path", ["keras.layers.Dense.dial", "keras.src.no_such.module", "keras.no"]
)
def test_what_is_missing_is_said_with_the_version(path):
  with pytest.raises(errors.VersionError, match=f"Keras {keras.__version__} lacks {path}, and"):
    private_names.find(path)
  with pytest.raises(errors.VersionError, match=f"Keras {keras.__version__} lacks {path}, and"):
    private_names.member(path)


def test_what_need_not_be_there():
  assert private_names.member_if_any("keras.layers.Dense.dial") is None
