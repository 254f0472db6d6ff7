"""Errors of a model_fn and of a step name the model_fn, its line and its input."""

import pytest
import tensorflow as tf

from trainer import errors
from trainer.programs import step_errors
from trainer.settings.kinds import Kind

ELEMENT = ({"x": tf.zeros([4, 2])}, tf.zeros([4], tf.int32))


def of_model_fn(error):
  with step_errors.of_model_fn("net.model_fn", "train", ELEMENT):
    raise error


def test_an_error_of_a_model_fn_has_its_input_and_cause():
  with pytest.raises(errors.ModelFnError) as raised:
    of_model_fn(KeyError("width"))
  assert str(raised.value).startswith("model_fn net.model_fn failed in mode 'train'")
  assert "float32[4, 2]" in str(raised.value)
  assert str(raised.value).endswith("int32[4]: KeyError: 'width'")
  assert isinstance(raised.value.__cause__, KeyError)


def test_a_python_condition_on_a_tensor_names_a_remedy():
  error = tf.errors.OperatorNotAllowedInGraphError("use a decorator")
  with pytest.raises(errors.ModelFnError, match="use tf.where, tf.cond, tf.while_loop, or"):
    of_model_fn(error)


def test_a_setting_error_keeps_its_class_and_gets_the_line():
  with pytest.raises(errors.SettingError, match=r"^no rate \(.*test_step_errors.py:\d+\)$"):
    of_model_fn(errors.SettingError("no rate"))


def test_another_error_of_octet_stays_as_it_is():
  error = errors.InputError("no file")
  with pytest.raises(errors.InputError) as raised:
    of_model_fn(error)
  assert raised.value is error


def in_step(error):
  with step_errors.of_step("net.model_fn", Kind.EVAL):
    raise error


def test_a_rejected_value_names_the_model_fn_and_the_mode():
  with pytest.raises(errors.ModelFnError, match="net.model_fn failed in a step, mode 'eval'.*9"):
    in_step(tf.errors.InvalidArgumentError(None, None, "label 9 is out of range"))


def test_an_error_that_is_not_the_programs_stays_as_it_is():
  with pytest.raises(tf.errors.UnavailableError):
    in_step(tf.errors.UnavailableError(None, None, "no connection"))
