"""What is read of a configuration without running it."""

import functools

import gin
import pytest

from tests.trainer.preflight import programs
from trainer import errors, experiment
from trainer.preflight import bindings
from trainer.settings import batch_sizes


def eval_input_fn(params):
  return programs.input_fn(params)


def bind(**parameters):
  for name, value in parameters.items():
    gin.bind_parameter(f"trainer.run.{name}", value)


def test_what_a_configuration_binds_to_run_is_the_experiment():
  bind(
    model_fn=programs.model_fn,
    train_input_fn=programs.input_fn,
    eval_input_fn=eval_input_fn,
    params={"width": 3},
    train_batch_size=64,
    eval_per_core_batch_size=4,
    train_steps="2 epochs",
  )
  found = bindings.from_gin("bfloat16")
  assert found.model_fn is programs.model_fn
  assert found.input_fns == {
    "train": programs.input_fn,
    "eval": eval_input_fn,
    "predict": eval_input_fn,
  }
  assert found.params == {"width": 3}
  assert found.sizes == batch_sizes.BatchSizes(train_batch_size=64, eval_per_core_batch_size=4)
  assert (found.config.device, found.config.precision) == ("tpu", "bfloat16")
  assert found.config.train_steps == "2 epochs"


def test_run_config_settings_are_read_from_the_configuration():
  bind(model_fn=programs.model_fn)
  gin.bind_parameter("trainer.RunConfig.save_summary_steps", 7)
  assert bindings.from_gin().config.save_summary_steps == 7


def test_the_params_are_a_copy():
  params = {"width": 3}
  bind(model_fn=programs.model_fn, params=params)
  bindings.from_gin().params["width"] = 4
  assert params == {"width": 3}


def test_a_configuration_without_a_model_fn():
  bind(train_batch_size=8)
  with pytest.raises(errors.SettingError, match=r"No model_fn: bind run\.model_fn"):
    bindings.from_gin()


@pytest.mark.parametrize(
  "input_fns, sizes, kinds",
  [
    (["train", "eval"], {"train": 8}, ["train"]),
    (["train", "eval"], {"eval_per_core": 8}, ["eval", "predict"]),
    (["train"], {"train": 8, "eval": 8}, ["train"]),
    (["predict"], {"eval": 8}, ["predict"]),
    ([], {"train": 8}, []),
  ],
)
def test_a_kind_needs_an_input_fn_and_a_size(input_fns, sizes, kinds):
  asked = experiment.Experiment(
    model_fn=programs.model_fn,
    **{f"{kind}_input_fn": programs.input_fn for kind in input_fns},
    **{f"{name}_batch_size": size for name, size in sizes.items()},
  )
  assert bindings.of_run(asked, "float32").kinds() == kinds


def test_a_prediction_has_its_own_input_fn_where_there_is_one():
  bind(model_fn=programs.model_fn, eval_input_fn=eval_input_fn, predict_input_fn=programs.input_fn)
  assert bindings.from_gin().input_fns == {"eval": eval_input_fn, "predict": programs.input_fn}


def test_global_batch_size_is_divided_by_topology_replicas():
  bind(model_fn=programs.model_fn, train_batch_size=64, eval_per_core_batch_size=3)
  found = bindings.from_gin()
  assert [found.per_core("train", replicas) for replicas in (8, 32)] == [8, 2]
  assert [found.per_core("eval", replicas) for replicas in (8, 32)] == [3, 3]
  with pytest.raises(errors.SettingError, match="train batch size 64 must be divisible .* 48"):
    found.per_core("train", 48)


# ------------------------------------------------------------------- where a function is


class Model:
  def method(self, features):
    return features

  def __call__(self, features):
    return features


@functools.wraps(eval_input_fn)
def wrapped(*arguments):
  return eval_input_fn(*arguments)


def line(fn):
  return f"{__file__}:{fn.__code__.co_firstlineno}"


@pytest.mark.parametrize(
  "fn, place",
  [
    (eval_input_fn, line(eval_input_fn)),
    (functools.partial(eval_input_fn, {}), line(eval_input_fn)),
    (wrapped, line(eval_input_fn)),
    (functools.partial(wrapped), line(eval_input_fn)),
    (Model().method, line(Model.method)),
    (Model(), "Model"),
    (len, "len"),
  ],
)
def test_the_place_of_a_function_is_that_of_the_users_code(fn, place):
  assert bindings.place_of(fn) == place


def test_the_place_of_a_configurable_is_not_in_gin():
  assert bindings.place_of(experiment.run).startswith(f"{experiment.__file__}:")
