"""An Estimator program, with nothing but its imports changed."""

import argparse
import collections
import copy
import json
import os
import threading

import numpy as np
import pytest

import trainer.compat.v1 as tf
from tests import long
from tests.compat import programs
from trainer import errors
from trainer.compat.estimator import estimator as estimator_module
from trainer.compat.estimator import input_fns
from trainer.compat.v1 import estimator as tf_estimator
from trainer.compat.v1.contrib import training as contrib_training
from trainer.devices import device as device_lib

ModeKeys = tf_estimator.ModeKeys


def batches(size, epochs=None, drop_remainder=False):
  def input_fn():
    x, y = programs.arrays()
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat(epochs)
    return dataset.batch(size, drop_remainder=drop_remainder)

  return input_fn


def test_batch_sizes_are_those_of_the_input_fns(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(batches(16), steps=5)
  result = estimator.evaluate(batches(20, epochs=1))  # the last batch has eight
  other = estimator.evaluate(batches(48, epochs=1))
  assert result["global_step"] == 5
  assert result["accuracy"] == other["accuracy"]
  assert result["loss"] == pytest.approx(other["loss"], rel=1e-5)
  assert len(list(estimator.predict(batches(7, epochs=1)))) == programs.EXAMPLES


def test_batches_may_be_larger_than_the_first(tmp_path):
  """As after group_by_window and a shuffle."""

  def growing():
    x, y = programs.arrays()
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, y))
    parts = dataset.take(5).batch(5).concatenate(dataset.skip(5).batch(20))
    return parts.filter(lambda *batch: True)  # an unknown number of batches

  estimator = programs.estimator(tmp_path)
  estimator.train(growing)
  assert estimator.latest_step() == 4
  result, other = (estimator.evaluate(one) for one in (growing, batches(48, epochs=1)))
  assert result["loss"] == pytest.approx(other["loss"], rel=1e-5)
  found, wanted = ([*estimator.predict(one)] for one in (growing, batches(48, epochs=1)))
  assert found == wanted


def test_a_last_batch_that_is_smaller_is_a_step(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(batches(32, epochs=1))
  assert estimator.latest_step() == 2


def test_finite_data_are_read_from_the_start_in_each_training(tmp_path):
  estimator = programs.estimator(tmp_path)
  for _ in range(3):
    estimator.train(batches(16, epochs=1), steps=2)
  assert estimator.latest_step() == 6


def test_one_core_and_two_train_alike(tmp_path):
  values, losses = [], []
  for device in ("cpu", "cpu:2"):
    estimator = programs.estimator(tmp_path / device, device)
    estimator.train(batches(16, drop_remainder=True), steps=10)
    values.append(estimator.get_variable_value("net/dense/kernel:0"))
    result = estimator.evaluate(batches(15), steps=2)  # thirty examples, on two cores too
    assert result["mean_loss"] == pytest.approx(result["loss"], rel=1e-4)
    losses.append(result["loss"])
  assert losses[0] == pytest.approx(losses[1], rel=1e-4)
  np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-6)


def test_params_are_the_programs_own(tmp_path):
  def model_fn(features, labels, mode, params):
    assert params == {"batch_size": 16, "width": 2}
    return programs.model_fn(features, labels, mode)

  estimator = programs.estimator(tmp_path, fn=model_fn, params={"batch_size": 16, "width": 2})
  estimator.train(batches(16), steps=1)
  assert estimator.params == {"batch_size": 16, "width": 2}


class Settings(dict):
  """Params of a program's own class: a dict whose values are attributes, too."""

  @property
  def width(self):
    return self["width"]

  @property
  def names(self):
    return self["names"]


Pair = collections.namedtuple("Pair", ["width", "names"])

PARAMS = {
  "namespace": argparse.Namespace(width=2, names=["a"]),
  "namedtuple": Pair(2, ["a"]),
  "dict": Settings(width=2, names=["a"]),
  "hparams": contrib_training.HParams(width=2, names=["a"]),
}


# HParams are an object with attributes, as a namespace is.
@pytest.mark.parametrize("name", long.except_for(["namedtuple", "dict", "hparams"], PARAMS))
def test_params_keep_their_type_and_each_function_gets_a_copy(tmp_path, name):
  given, seen = copy.deepcopy(PARAMS[name]), []

  def model_fn(features, labels, mode, params):
    seen.append((type(params), params.width, list(params.names)))
    params.names.append("b")
    return programs.model_fn(features, labels, mode)

  def input_fn(params):
    params.names.append("c")
    return batches(16)()

  estimator = programs.estimator(tmp_path, fn=model_fn, params=given)
  given.names.append("d")
  estimator.train(input_fn, steps=1)
  estimator.evaluate(batches(16, epochs=1))
  assert set(map(str, seen)) == {str((type(given), 2, ["a"]))}
  assert estimator.params is not estimator.params
  assert estimator.params.names == ["a"]


def test_params_that_cannot_be_copied_are_refused(tmp_path):
  def model_fn(features, labels, mode, params):
    raise AssertionError

  with pytest.raises(errors.SettingError, match="cannot copy a value of params"):
    programs.estimator(tmp_path, fn=model_fn, params={"lock": threading.Lock()})


def test_an_input_fn_may_take_params_mode_and_config(tmp_path):
  seen = []

  def input_fn(mode, params, config):
    seen.append((mode, params, config.model_dir))
    return batches(16)()

  def model_fn(features, labels, mode, params):
    return programs.model_fn(features, labels, mode)

  programs.estimator(tmp_path, fn=model_fn, params={"a": 1}).train(input_fn, steps=1)
  assert seen[0] == (ModeKeys.TRAIN, {"a": 1}, str(tmp_path))


def receiver():
  x = tf.placeholder(tf.float32, [None, 6], name="x")
  return tf_estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def test_train_and_evaluate_returns_metrics_and_exports(tmp_path):
  exporter = tf_estimator.BestExporter(serving_input_receiver_fn=receiver)
  estimator = programs.estimator(tmp_path)
  result, exported = tf_estimator.train_and_evaluate(
    estimator,
    tf_estimator.TrainSpec(batches(16), max_steps=4),
    tf_estimator.EvalSpec(batches(16, epochs=1), steps=None, exporters=exporter),
  )
  assert result["global_step"] == 4
  assert exported[0].startswith(str(tmp_path / "export" / "best_exporter").encode())
  serve = tf.saved_model.load_v2(exported[0].decode()).signatures["serving_default"]
  x = programs.arrays()[0][:5]
  predicted = [one["class"] for one in estimator.predict(batches(5, epochs=1))][:5]
  assert serve(x=tf.constant(x))["class"].numpy().tolist() == predicted


class Results(tf_estimator.Exporter):
  """Remembers what evaluations gave."""

  name = "results"

  def __init__(self):
    self.seen = []

  def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
    self.seen.append(eval_result)


def test_evaluations_give_numbers_of_numpy_as_a_session_did(tmp_path):
  exporter = Results()
  best = tf_estimator.BestExporter(serving_input_receiver_fn=receiver)
  result, _ = tf_estimator.train_and_evaluate(
    programs.estimator(tmp_path),
    tf_estimator.TrainSpec(batches(16), max_steps=2),
    tf_estimator.EvalSpec(batches(16, epochs=1), steps=None, exporters=[exporter, best]),
  )
  kinds = {name: value.dtype.name for name, value in result.items()}
  assert kinds == dict.fromkeys(result, "float64") | {"global_step": "int64"}
  assert exporter.seen[-1] == result
  assert type(result["loss"].item()) is float
  recorded = json.loads((tmp_path / "export" / "best_exporter.best.json").read_text())
  assert recorded["loss"] == result["loss"].item()


def test_the_last_checkpoint_is_exported_once_as_the_final_one(tmp_path):
  class Noted(Results):
    def export(self, estimator, path, checkpoint_path, eval_result, is_the_final_export):
      self.seen.append((eval_result["global_step"], is_the_final_export))

  config = tf_estimator.RunConfig(str(tmp_path), save_checkpoints_steps=2)
  noted, estimator = Noted(), tf_estimator.Estimator(programs.model_fn, config=config)
  tf_estimator.train_and_evaluate(
    estimator,
    tf_estimator.TrainSpec(batches(16), max_steps=4),
    tf_estimator.EvalSpec(batches(16, epochs=1), steps=1, exporters=noted, throttle_secs=0),
  )
  assert noted.seen == [(2, False), (4, True)]


class Exports:
  """Stands in for an Estimator that exports."""

  def export_saved_model(self, base, *arguments):
    path = os.path.join(base, str(1000 + len(os.listdir(base)) if os.path.isdir(base) else 1000))
    os.makedirs(path)
    with open(os.path.join(path, "saved_model.pb"), "w") as file:
      file.write("A stand-in.")
    return path.encode()


def test_the_best_result_is_kept_with_a_checksum(tmp_path):
  exporter = tf_estimator.BestExporter(serving_input_receiver_fn=lambda: None, exports_to_keep=1)

  def export(loss):
    folder = str(tmp_path / "best")
    return exporter.export(Exports(), folder, "model.ckpt-1", {"loss": loss}, False)

  assert [bool(export(loss)) for loss in (0.9722, 0.9723, 0.5)] == [True, False, True]
  (exported,) = (tmp_path / "best").iterdir()  # programs take each name there for a SavedModel
  assert exported.is_dir()
  best = tmp_path / "best.best.json"
  best.write_text(best.read_text().replace("0.5", "0.4"))
  with pytest.raises(errors.FileDamagedError, match=r"best\.json is damaged \(.*checksum"):
    export(0.3)


def test_what_was_best_is_forgotten_when_a_training_goes_back(tmp_path):
  """By an edit of the file `checkpoint`, as with 2.15; the best result up to there is kept."""

  estimator = programs.estimator(tmp_path)
  exporter = tf_estimator.BestExporter(serving_input_receiver_fn=receiver)
  evaluation = tf_estimator.EvalSpec(batches(16, epochs=1), steps=None, exporters=exporter)
  results = {
    step: tf_estimator.train_and_evaluate(
      estimator, tf_estimator.TrainSpec(batches(16), max_steps=step), evaluation
    )[0]
    for step in (4, 12)
  }
  assert results[12]["loss"] < results[4]["loss"]
  tf.train.update_checkpoint_state(str(tmp_path), str(tmp_path / "model.ckpt-4"))
  assert estimator.evaluate(batches(16, epochs=1))["global_step"] == 4
  estimator.train(batches(16), steps=1)
  assert estimator.latest_checkpoint() == str(tmp_path / "model.ckpt-5")
  best = json.loads((tmp_path / "export" / "best_exporter.best.json").read_text())
  assert (best["global_step"], best["loss"]) == (4, pytest.approx(results[4]["loss"]))
  aside = tmp_path / "set_aside-1"
  assert (aside / "model.ckpt-12.index").exists()
  assert (aside / "model.ckpt-12.meta").exists()
  assert (aside / "export" / "best_exporter.best.json").exists()


def test_metrics_that_no_function_of_tf_metrics_made_are_refused(tmp_path):
  def model_fn(features, labels, mode):
    spec = programs.model_fn(features, labels, mode)
    return spec._replace(eval_metric_ops={"own": (spec.loss, tf.no_op())})

  estimator = programs.estimator(tmp_path, fn=model_fn)
  estimator.train(batches(16), steps=1)
  with pytest.raises(errors.SpecError, match=r"eval_metric_ops\['own'\]"):
    estimator.evaluate(batches(16, epochs=1))


def test_params_that_a_model_fn_does_not_take_are_refused(tmp_path):
  with pytest.raises(ValueError, match="does not take params"):
    programs.estimator(tmp_path, params={"a": 1})


def test_a_model_fn_gets_the_arguments_that_it_names(tmp_path):
  """TensorFlow gives **kwargs nothing."""

  def model_fn(features, labels, mode, **kwargs):
    assert not kwargs
    return programs.model_fn(features, labels, mode)

  programs.estimator(tmp_path, fn=model_fn).train(batches(16), steps=1)
  with pytest.raises(ValueError, match="<lambda> must name the argument features"):
    programs.estimator(tmp_path, fn=lambda **kwargs: model_fn(**kwargs))
  with pytest.raises(ValueError, match="model_fn does not take params"):
    programs.estimator(tmp_path, fn=model_fn, params={"a": 1})


def test_a_model_fn_without_labels_refuses_labels(tmp_path):
  def model_fn(features, mode):
    loss = tf.reduce_mean(programs.logits_of(features))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf_estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

  estimator = programs.estimator(tmp_path, fn=model_fn)
  with pytest.raises(errors.SettingError, match=r"model_fn does not take labels, but the input_fn"):
    estimator.train(batches(16), steps=1)
  estimator.train(lambda: batches(16)().map(lambda x, y: x), steps=1)
  assert estimator.evaluate(lambda: batches(16)().map(lambda x, y: x), steps=1)["global_step"] == 1


def test_a_batch_that_cores_cannot_share_is_refused(tmp_path):
  with pytest.raises(errors.SettingError, match="batches of 12, which 8 cores cannot share"):
    programs.estimator(tmp_path, "cpu:8").train(batches(12), steps=1)


def test_a_checkpoint_has_three_files(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(batches(16), steps=2)
  names = {path.name for path in tmp_path.glob("model.ckpt-2.*")}
  assert names == {f"model.ckpt-2.{end}" for end in ("data-00000-of-00001", "index", "meta")}
  checkpoint = str(tmp_path / "model.ckpt-2")
  with tf.Graph().as_default(), tf.Session() as session:
    tf.train.import_meta_graph(f"{checkpoint}.meta").restore(session, checkpoint)
    assert session.run(tf.train.get_global_step()) == 2
    assert [v.op.name for v in tf.trainable_variables()] == [
      *("net/dense/bias", "net/dense/kernel")
    ]
    (kernel,) = (v for v in tf.trainable_variables() if v.op.name == "net/dense/kernel")
    restored = session.run(kernel)
  np.testing.assert_array_equal(restored, estimator.get_variable_value("net/dense/kernel"))
  (tmp_path / "model.ckpt-0.index").unlink()
  estimator.train(batches(16), steps=1)
  assert not (tmp_path / "model.ckpt-0.meta").exists()


def test_device_is_connected_before_an_input_fn_makes_tensors(tmp_path, monkeypatch):
  connected = []
  connect = device_lib.connect
  monkeypatch.setattr(device_lib, "connect", lambda *args: connected.append(1) or connect(*args))
  estimator = programs.estimator(tmp_path)

  def input_fn():
    assert connected
    return programs.train_input_fn({"batch_size": 16})

  estimator.train(input_fn, steps=1)


def test_the_step_of_a_folder_is_that_of_its_newest_checkpoint(tmp_path):
  step_of = estimator_module._load_global_step_from_checkpoint_dir  # as published programs call it
  assert step_of(str(tmp_path)) == 0
  estimator = programs.estimator(tmp_path)
  estimator.train(lambda: programs.train_input_fn({"batch_size": 16}), steps=2)
  assert step_of(str(tmp_path)) == 2


def test_to_ask_for_a_name_that_is_not_there_connects_to_nothing(tmp_path, monkeypatch):
  monkeypatch.setattr(estimator_module.trainer, "Estimator", None)  # nothing makes one
  made = tf_estimator.Estimator(programs.model_fn, str(tmp_path))
  with pytest.raises(AttributeError, match="Estimator has no attribute 'is_fitted'"):
    _ = made.is_fitted
  assert not tf.is_tensor(made)  # which asks for what tensors have


def test_a_label_may_be_taken_out_of_what_an_iterator_gives():
  def input_fn():
    data = tf.data.Dataset.from_tensor_slices({"x": [1, 2], "y": [3, 4]}).batch(2)
    features = data.make_one_shot_iterator().get_next()
    return features, features.pop("y")

  ((features, label),) = input_fns.call(input_fn)
  assert ([*features], features["x"].numpy().tolist(), label.numpy().tolist()) == (
    ["x"],
    [1, 2],
    [3, 4],
  )


def test_steps_of_a_division_are_rounded_up(tmp_path):
  estimator = programs.estimator(tmp_path)
  estimator.train(batches(16), steps=2.5)
  assert estimator.get_variable_value("global_step") == 3
  estimator.train(batches(16), max_steps=np.float32(3.5))
  assert estimator.get_variable_value("global_step") == 4
  train_spec = tf_estimator.TrainSpec(batches(16), max_steps=4.25)
  found, _ = tf_estimator.train_and_evaluate(
    estimator, train_spec, tf_estimator.EvalSpec(batches(16), steps=1.5)
  )
  assert found["global_step"] == 5
