"""Global and per-core sizes: exactly one is given, and either gives the other."""

import pytest

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.settings import batch_sizes, kinds


def test_each_size_gives_the_other():
  assert batch_sizes.BatchSizes(train_batch_size=64).resolve("train", 8) == batch_sizes.BatchSize(
    8, 8
  )
  size = batch_sizes.BatchSizes(train_per_core_batch_size=8).resolve("train", 8)
  assert (size.per_core, size.global_size) == (8, 64)


@pytest.mark.parametrize("kind", kinds.Kind)
def test_both_sizes_of_a_kind_are_an_error_that_names_them(kind):
  with pytest.raises(
    errors.SettingError,
    match=rf"Set either {kind}_batch_size \(16.*{kind}_per_core_batch_size \(2\), not both",
  ):
    batch_sizes.BatchSizes(**{f"{kind}_batch_size": 16, f"{kind}_per_core_batch_size": 2})


@pytest.mark.parametrize("value", [0, -8, 8.0, "8", True])
@pytest.mark.parametrize("name", ["train_batch_size", "eval_per_core_batch_size"])
def test_sizes_are_positive_ints(name, value):
  with pytest.raises(errors.SettingError, match="batch_size is .*; expected an int greater than 0"):
    batch_sizes.BatchSizes(**{name: value})


def test_the_global_size_divides_among_the_replicas():
  with pytest.raises(
    errors.SettingError, match="^train batch size 127 must be divisible by number of replicas 8$"
  ):
    batch_sizes.BatchSizes(train_batch_size=127).check(8)
  batch_sizes.BatchSizes(train_batch_size=128, eval_per_core_batch_size=3).check(8)


def test_the_constructor_checks_every_size_that_is_given(tmp_path):
  with pytest.raises(
    errors.SettingError, match="predict batch size 9 must be divisible by number of replicas 8"
  ):
    trainer.Estimator(
      programs.line, str(tmp_path), trainer.RunConfig(device="cpu:8"), predict_batch_size=9
    )


def test_only_the_size_of_the_called_method_is_needed(tmp_path):
  estimator = trainer.Estimator(
    programs.line, str(tmp_path), trainer.RunConfig(device="cpu"), train_batch_size=8
  )
  estimator.train(programs.train_input, steps=1)
  with pytest.raises(
    errors.SettingError, match="No eval batch size: set eval_batch_size.*run.eval_batch_size"
  ):
    estimator.evaluate(programs.examples(8))


def test_predict_falls_back_to_eval_and_to_nothing_else():
  assert batch_sizes.BatchSizes(eval_batch_size=32).resolve("predict", 4).per_core == 8
  assert (
    batch_sizes.BatchSizes(eval_batch_size=32, predict_batch_size=8).resolve("predict", 4).per_core
    == 2
  )
  with pytest.raises(errors.SettingError, match="No predict batch size"):
    batch_sizes.BatchSizes(train_batch_size=32).resolve("predict", 4)


def test_the_table_has_a_line_for_each_kind_in_use():
  lines = batch_sizes.table(
    {"train": batch_sizes.BatchSize(16, 8), "eval": batch_sizes.BatchSize(100, 8)}, hosts=2
  ).splitlines()
  assert [line.split() for line in lines] == [
    ["batch", "sizes", "global", "per", "core", "replicas", "hosts"],
    ["train", "128", "16", "8", "2"],
    ["eval", "800", "100", "8", "2"],
  ]
  assert len({len(line) for line in lines}) == 1


@pytest.mark.long_on_several_cores
def test_functions_get_per_core_size_in_all_modes_but_export(tmp_path, device):
  seen = {}

  def model_fn(features, labels, mode, params):
    seen.setdefault(mode, set()).add(params.get("batch_size"))
    return programs.line(features, labels, mode, params)

  def input_fn(params):
    seen.setdefault("input", set()).add(params["batch_size"])
    return programs.train_input(params)

  sizes = {"train_batch_size": 16, "eval_batch_size": 32, "predict_per_core_batch_size": 5}
  estimator = trainer.Estimator(
    model_fn, str(tmp_path / "model"), trainer.RunConfig(device=device), **sizes
  )
  estimator.train(input_fn, steps=1)
  estimator.evaluate(programs.examples(8))
  list(estimator.predict(programs.examples(2)))
  replicas = estimator.device.replicas
  per_core = {
    "train": {16 // replicas},
    "input": {16 // replicas},
    "eval": {32 // replicas},
    "infer": {5},
  }
  assert seen == per_core
  seen.clear()
  estimator.export_saved_model(tmp_path / "export")
  assert seen == {"infer": {None}}
