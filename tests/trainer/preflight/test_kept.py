"""Preflight keeps the programs that a run on XLA devices of the CPU compiles: --save."""

import dataclasses

import pytest

from tests.trainer import programs
from trainer import errors, experiment, run_config
from trainer.pjrt import installed
from trainer.preflight import kept, topology
from trainer.settings.kinds import Kind


@pytest.fixture
def config(tmp_path):
  try:
    installed.require()
  except errors.VersionError as error:
    pytest.skip(str(error))
  return run_config.RunConfig(device="xla:8", compiled=str(tmp_path / "compiled"))


EVAL_INPUT = programs.examples(80)


def asked(model_fn=programs.line, eval_input_fn=EVAL_INPUT):
  return experiment.Experiment(
    model_fn=model_fn,
    train_input_fn=programs.train_input,
    eval_input_fn=eval_input_fn,
    train_per_core_batch_size=8,
    eval_per_core_batch_size=5,
  )


def test_a_run_finds_what_preflight_has_kept(tmp_path, config, caplog, monkeypatch):
  lines = []
  assert kept.compile_all(asked(), config, [Kind.TRAIN, Kind.EVAL, Kind.PREDICT], lines.append)
  assert [line.split(": ")[1][:7] for line in lines] == ["kept in"] * 3

  from trainer.pjrt import jaxlib_internals

  monkeypatch.setattr(jaxlib_internals, "compile_for", None)
  caplog.clear()
  with caplog.at_level("INFO", logger="absl"):
    flags = experiment.Flags(
      model_dir=str(tmp_path / "run"), device="xla:8", compiled=config.compiled
    )
    metrics = experiment.run(flags, dataclasses.replace(asked(), train_steps=3, exporters=[]))
  assert metrics["global_step"] == 3
  assert caplog.text.count("Found the program of") == 2


def test_a_program_that_fails_does_not_stop_the_others(config):
  def model_fn(features, labels, mode, params):
    if mode == "train":
      raise ValueError("no training")
    return programs.line(features, labels, mode, params)

  lines = []
  assert not kept.compile_all(asked(model_fn), config, [Kind.TRAIN, Kind.EVAL], lines.append)
  assert "xla:8 train: FAILED: " in lines[0]
  assert "no training" in lines[0]
  assert "xla:8 eval: kept in" in lines[1]


def test_a_program_that_is_not_kept_has_failed(tmp_path, config, monkeypatch):
  from trainer.pjrt import compiled_forms

  def fail(*args):
    raise errors.OutputError("the disk is full")

  monkeypatch.setattr(compiled_forms.CompiledForms, "add", fail)
  lines = []
  assert not kept.compile_all(asked(), config, [Kind.TRAIN], lines.append)
  assert "FAILED: The program was not kept in " in lines[0]


def test_a_kind_without_input_is_refused_before_anything_is_made(config):
  with pytest.raises(errors.SettingError, match="--steps: eval needs an input_fn"):
    kept.compile_all(asked(eval_input_fn=None), config, [Kind.TRAIN, Kind.EVAL], print)


@pytest.mark.parametrize(
  "topologies, folder",
  [(["xla:8"], ""), (["v3-8"], "out"), (["xla:8", "v3-8"], "out"), (["xla:8", "xla:4"], "out")],
)
def test_save_is_for_xla_devices_and_they_for_save(topologies, folder):
  with pytest.raises(errors.SettingError, match="expected both, with one topology such as xla:8"):
    topology.xla_device(topologies, folder)


def test_flags():
  assert topology.xla_device(["v3-8", "v2-8"], "") == ""
  assert topology.xla_device(["xla:8"], "out") == "xla:8"
  with pytest.raises(errors.SettingError, match="--save=gs://bucket/compiled is a URL"):
    topology.xla_device(["xla:8"], "gs://bucket/compiled")
