"""Measuring for real: a few steps and calls of the digits, in this process and in a worker's."""

import pytest
import tensorflow as tf

from trainer import config, errors
from trainer.compare import measure, results, worker

REQUEST = {
  "mode": "train",
  "batch_size": 32,
  "examples": None,
  "device": "cpu",
  "tpu_type": "",
  "precision": "float32",
  "modules": ["."],
}
SMALL = "digits_mlp.model_fn.hidden_units = (8,)"
SETTINGS = {
  "gin_file": "gin_configs/digits.gin",
  "bindings": [SMALL],
  "slice_steps": 3,
  "slices": 4,
  "warm_slices": 2,
  "evaluate": False,
}


def request(settings=None, **more):
  return {**REQUEST, "settings": {**SETTINGS, **(settings or {})}, **more}


@pytest.fixture(autouse=True)
def _no_bindings_are_left():
  yield
  config.clear()


def test_a_training():
  found = measure.measure(request({"evaluate": True}))
  assert (found["status"], found["slices"], found["cores"]) == (results.OK, 4, 1)
  assert 0 < found["low"] <= found["seconds"] <= found["high"]
  assert found["examples_per_second"] == pytest.approx(32 / found["seconds"])
  assert found["start_seconds"] > 0
  assert 0 <= found["input_wait"] <= 1
  assert found["memory_bytes"] > 2**26
  assert found["device_memory_bytes"] is None
  assert found["load"] >= 0
  assert (0 <= found["accuracy"] <= 1, found["accuracy_steps"]) == (True, 18)
  assert found["machine"]["tensorflow"] == tf.__version__
  assert found["hardware"] == found["machine"]["processor"]


def test_the_settings_of_the_experiment_do_not_cut_the_slices():
  cadences = ["RunConfig.save_checkpoints_steps = 1", "TPUConfig.iterations_per_loop = 1"]
  assert measure.measure(request({"bindings": [SMALL, *cadences]}))["slices"] == 4


def test_a_prediction_of_so_many_examples():
  found = measure.measure(request(mode="predict", batch_size=16, examples=40))
  assert found["slices"] == 4
  assert found["examples_per_second"] == pytest.approx(40 / found["seconds"])
  with pytest.raises(errors.SettingError, match=r"has 360 examples.* asks for 9999"):
    measure.measure(request(mode="predict", batch_size=120, examples=9999))


def test_an_input_that_ends_early():
  bindings = [
    SMALL,
    "import input_pipelines.random_inputs",
    "run.train_input_fn = @random_inputs.input_fn",
    "random_inputs.input_fn.features = {'image': ((8, 8, 1), 'float32')}",
    "random_inputs.input_fn.batches = 5",
    "random_inputs.input_fn.training = False",
  ]
  with pytest.raises(errors.SettingError, match="input ended after 2 of 6 slices of 3 steps"):
    measure.measure(request({"bindings": bindings}))


def test_the_median_and_the_quartiles():
  assert measure.spread([3.0, 1.0, 2.0, 5.0, 4.0]) == {
    "seconds": 3.0,
    "low": 2.0,
    "high": 4.0,
    "slices": 5,
  }
  assert measure.spread([2.0])["low"] == 2.0


@pytest.mark.parametrize(
  ("error", "status"),
  [
    (tf.errors.ResourceExhaustedError(None, None, "OOM"), "out of memory"),
    (errors.ModelFnError("a model_fn"), "failed"),
    (ZeroDivisionError("by zero"), "failed"),
  ],
)
def test_a_failure_is_an_answer(monkeypatch, error, status):
  def fail(request):
    raise error

  monkeypatch.setattr(measure, "measure", fail)
  found = worker.answer(request())
  assert found["status"] == status
  assert str(error) in found["problem"]
  assert found["machine"]["host"]


def test_memory_that_ran_out_within_a_model_fn(monkeypatch):
  def fail(request):
    try:
      raise tf.errors.ResourceExhaustedError(None, None, "OOM")
    except tf.errors.OpError as cause:
      raise errors.ModelFnError("a model_fn") from cause

  monkeypatch.setattr(measure, "measure", fail)
  assert worker.answer(request())["status"] == results.OUT_OF_MEMORY


def test_the_worker_knows_the_devices_of_this_machine():
  assert worker.answer({"mode": "devices"}).keys() == {"gpu", "xla:gpu", "tpu"}
