"""Python code of an input_fn that raises is told with the user's own line and sentence."""

import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.inputs import read_errors

BAD_ROW = 20


class LabelError(Exception):
  pass


def rows():
  x, y = programs.arrays(40)
  for row in range(40):
    if row == BAD_ROW:
      raise LabelError(f"row {row} has no label")
    yield x[row], y[row]


def generator(params):
  signature = tf.TensorSpec([programs.WIDTH]), tf.TensorSpec([])
  return (
    tf.data.Dataset.from_generator(rows, output_signature=signature)
    .map(lambda x, y: ({"x": x}, y))
    .batch(params["batch_size"], drop_remainder=True)
  )


def read_row(row):
  if int(row) == BAD_ROW:
    try:
      {}["label"]
    except KeyError as error:
      raise LabelError(f"row {row} has\n\nno label") from error
  return np.zeros(programs.WIDTH, np.float32)


def python_in_parallel(params):
  def row_of(index):
    x = tf.py_function(read_row, [index], tf.float32)
    x.set_shape([programs.WIDTH])
    return {"x": x}, tf.cast(index, tf.float32)

  dataset = tf.data.Dataset.range(40).map(row_of, num_parallel_calls=2).prefetch(2)
  return dataset.batch(params["batch_size"], drop_remainder=True)


def line_of(function):
  lines, first = inspect.getsourcelines(function)
  return first + next(i for i, line in enumerate(lines) if "raise LabelError" in line)


def assert_told(call, kind, input_fn, function):
  with pytest.raises(errors.InputError) as raised:
    call()
  told = re.fullmatch(
    r"The (\w+) input_fn (\w+) failed while Octet read it \((.*)\): (.*)", str(raised.value)
  )
  assert told, raised.value
  assert told[1] == kind
  assert told[2] == input_fn.__name__
  assert told[3] == f"{__file__}:{line_of(function)}"
  assert told[4].endswith(f"LabelError: row {BAD_ROW} has no label")


@pytest.mark.parametrize(
  "name, input_fn, function",
  long.except_for(
    [("cpu", generator, rows), ("xla:8", python_in_parallel, read_row)],
    [
      (name, *each)
      for name in ("cpu", "cpu:8", "xla:8")
      for each in ((generator, rows), (python_in_parallel, read_row))
    ],
  ),
)
def test_the_line_and_the_sentence(name, input_fn, function, tmp_path):
  if name == "xla:8":
    pytest.importorskip("jax")
  made = programs.estimator(tmp_path, device=name)
  made.train(programs.train_input, steps=1)
  assert_told(lambda: made.train(input_fn, steps=9), "train", input_fn, function)
  assert_told(lambda: made.evaluate(input_fn), "eval", input_fn, function)
  assert_told(lambda: list(made.predict(input_fn)), "predict", input_fn, function)


def test_python_code_of_a_model_fn(tmp_path):
  def model_fn(features, labels, mode, params):
    spec = programs.line(features, labels, mode, params)
    step = tf.compat.v1.train.get_global_step()
    x = tf.py_function(lambda step: read_row(step + BAD_ROW - 2), [step], tf.float32)
    spec.loss += tf.reduce_sum(x)
    return spec

  with pytest.raises(errors.ModelFnError) as raised:
    programs.estimator(tmp_path, model_fn).train(programs.train_input, steps=9)
  assert f"({__file__}:{line_of(read_row)})" in str(raised.value)
  assert str(raised.value).endswith("LabelError: row 20 has no label")


def test_what_two_cores_say_is_told_once():
  text = """Graph execution error:

Detected at node AssertGuard defined at (most recent call last):
<stack traces unavailable>
Detected at node AssertGuard defined at (most recent call last):
<stack traces unavailable>
2 root error(s) found.
  (0) INVALID_ARGUMENT:  a label is out of range
\t [[{{node AssertGuard}}]]
\t [[while/body/_1/while/IteratorGetNextAsOptional_1]]
  (1) INVALID_ARGUMENT:  a label is out of range
\t [[{{node AssertGuard}}]]
0 successful operations. [Op:__inference_train_8]"""
  error = tf.errors.InvalidArgumentError(None, None, text)
  assert read_errors.of_python(error) is None
  assert read_errors.of_operation(error) == "a label is out of range"


def test_an_error_of_a_parallel_map_says_only_what_failed():
  dataset = tf.data.Dataset.from_tensors("x").map(tf.strings.to_number, tf.data.AUTOTUNE)
  with pytest.raises(tf.errors.OpError, match="Iterator::Root") as raised:
    list(dataset)
  said = read_errors.of_operation(raised.value)
  assert said == "StringToNumberOp could not correctly convert string: x"
