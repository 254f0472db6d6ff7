"""Checkpoints are read by name, damage is told, and a restore is whole or not at all."""

import os

import numpy as np
import pytest
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import reader


def save(folder, **values):
  """Writes a checkpoint of step 5; "__" in a name stands for "/"."""
  path = str(folder / "model.ckpt-5")
  tf.raw_ops.SaveV2(
    prefix=path,
    tensor_names=[name.replace("__", "/") for name in values],
    shape_and_slices=[""] * len(values),
    tensors=list(map(tf.convert_to_tensor, values.values())),
  )
  return path


def variables(**shapes):
  return {
    name.replace("__", "/"): tf.Variable(tf.zeros(shape), name=name)
    for name, shape in shapes.items()
  }


# ------------------------------------------------------------------- reading


def test_the_contents_have_shapes_and_types(tmp_path):
  path = save(tmp_path, dense__kernel=tf.ones([2, 3], tf.bfloat16), names=["a"], step=1)
  assert reader.shapes(path) == {
    "dense/kernel": ((2, 3), tf.bfloat16),
    "names": ((1,), tf.string),
    "step": ((), tf.int32),
  }


def test_values_are_read_by_name(tmp_path):
  found = reader.read(save(tmp_path, a=[1.0, 2.0], b=["x"], c=3), ["b", "a"])
  assert list(found) == ["b", "a"]
  np.testing.assert_array_equal(found["a"], [1, 2])
  assert found["b"].tolist() == [b"x"]


def test_nothing_is_read_where_nothing_is_asked_for(tmp_path):
  assert reader.read(save(tmp_path, a=1.0), []) == {}


def test_names_that_are_not_in_it(tmp_path):
  path = save(tmp_path, dense__kernel=1.0)
  with pytest.raises(errors.CheckpointError, match="model.ckpt-5 has no dense/bias, dense/scale"):
    reader.read(path, ["dense/kernel", "dense/bias", "dense/scale"])


def test_the_step_is_that_in_the_file(tmp_path):
  assert reader.read_step(save(tmp_path, global_step=tf.constant(7, tf.int64))) == 7
  assert reader.read_step(save(tmp_path, w=1.0)) == 0


# -------------------------------------------------------------------- damage


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize(
  "damage",
  [lambda data: data[: len(data) // 2], lambda data: bytes(byte ^ 0xFF for byte in data)],
  ids=["cut", "changed"],
)
@pytest.mark.parametrize("use", [reader.verify, lambda path: reader.read(path, ["w"])])
def test_a_damaged_file_is_said_to_be_one(ending, damage, use, tmp_path):
  path = save(tmp_path, global_step=tf.constant(5, tf.int64), w=tf.range(1000.0))
  with open(path + ending, "rb") as file:
    data = file.read()
  with open(path + ending, "wb") as file:
    file.write(damage(data))
  with pytest.raises(errors.CheckpointDamagedError, match="model.ckpt-5 is damaged"):
    use(path)


def test_a_file_that_is_missing_is_told_by_those_that_are_there(tmp_path):
  path = save(tmp_path, w=1.0)
  os.remove(path + ".data-00000-of-00001")
  with pytest.raises(
    errors.CheckpointDamagedError, match=r"is incomplete \(model\.ckpt-5\.index\): "
  ):
    reader.verify(path)


# ----------------------------------------------------------------- restoring


def test_a_restore_says_what_matched_and_what_is_not_needed(tmp_path):
  others = {"unused": 1.0, "adam/iteration": 1, "adam/a": tf.ones([2]), "global_step": 5}
  path = save(tmp_path, dense__kernel=tf.fill([2, 3], 5.0), **others)
  wanted = variables(dense__kernel=[2, 3])
  report = reader.restore(path, wanted)
  assert report == reader.RestoreReport(
    path, ["dense/kernel"], ["adam/a", "adam/iteration", "global_step", "unused"]
  )
  assert str(report) == (
    f"Restored {path}: all 1 variables; 3 values of the optimizer and the like have no use "
    "here; 1 in it are not in the model (unused)"
  )
  assert str(reader.RestoreReport(path, ["a", "b"], [])) == f"Restored {path}: all 2 variables"
  assert wanted["dense/kernel"].numpy()[0, 0] == 5


def test_a_report_names_five_that_are_not_in_the_model():
  report = reader.RestoreReport("a", [], list("123456"))
  assert str(report).endswith("; 6 in it are not in the model (1, 2, 3, 4, 5, ...)")


def test_the_count_of_examples_is_expected(tmp_path):
  path = save(tmp_path, w=1.0, **{reader.EXAMPLES_SEEN: 7})
  assert reader.restore(path, variables(w=[])).unexpected == []


def test_a_variable_is_restored_from_another_name(tmp_path):
  wanted = variables(w=[])
  report = reader.restore(save(tmp_path, old__w=3.0), wanted, {"w": "old/w"})
  assert wanted["w"].numpy() == 3
  assert (report.matched, report.unexpected) == (["w"], [])


def test_another_name_that_is_not_there_is_told(tmp_path):
  with pytest.raises(errors.CheckpointError, match=r"w: no old/w in the checkpoint; \(\) in the"):
    reader.restore(save(tmp_path, w=3.0), variables(w=[]), {"w": "old/w"})


def test_a_restore_is_whole_or_not_at_all(tmp_path):
  path = save(tmp_path, a=tf.ones([2]), b=tf.ones([3]))
  wanted = variables(a=[2], b=[4], c=[1])
  with pytest.raises(errors.CheckpointError) as raised:
    reader.restore(path, wanted)
  message = str(raised.value)
  assert "1 variables matched, 1 missing, 0 unexpected, 1 of wrong shape" in message
  assert "c: not in the checkpoint; (1,) in the model" in message
  assert "b: (3,) in the checkpoint; (4,) in the model" in message
  assert "--model_dir" in message
  assert all(not variable.numpy().any() for variable in wanted.values())


@pytest.mark.parametrize(
  "stored, wanted, message",
  [
    ([1.5], tf.int32, r"b: \(1,\) float32 in the checkpoint; \(1,\) int32 in the model"),
    ([1], tf.float32, r"b: \(1,\) int32 in the checkpoint; \(1,\) float32 in the model"),
    (["x"], tf.int32, r"b: \(1,\) string in the checkpoint; \(1,\) int32 in the model"),
  ],
)
def test_numbers_of_another_kind_are_not_taken(stored, wanted, message, tmp_path):
  path = save(tmp_path, a=tf.ones([2]), b=stored)
  model = {"a": tf.Variable([0.0, 0.0]), "b": tf.Variable(tf.zeros([1], wanted))}
  with pytest.raises(errors.CheckpointError, match=message):
    reader.restore(path, model)
  assert not model["a"].numpy().any()


@pytest.mark.parametrize(
  "stored, wanted", [(tf.float64, tf.float32), (tf.float32, tf.bfloat16), (tf.int32, tf.int64)]
)
def test_numbers_of_another_precision_are_taken(stored, wanted, tmp_path):
  variable = tf.Variable(tf.zeros([2], wanted))
  reader.restore(save(tmp_path, w=tf.constant([2, 3], stored)), {"w": variable})
  assert variable.dtype == wanted
  assert variable.numpy().tolist() == [2, 3]


def test_a_long_list_is_cut(tmp_path):
  path = save(tmp_path, a=tf.ones([2]))
  with pytest.raises(errors.CheckpointError) as raised:
    reader.restore(path, variables(**{f"v{index}": [1] for index in range(50)}))
  assert str(raised.value).count("not in the checkpoint") == 20
  assert "..." in str(raised.value)
