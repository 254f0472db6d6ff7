"""Preflight keeps the programs that a run compiles: --save. Runs find them."""

import dataclasses

import pytest

from tests.trainer import programs
from trainer import errors, experiment
from trainer.pjrt import installed
from trainer.preflight import bindings, check, topology
from trainer.settings.kinds import Kind

XLA = topology.find("xla:8")


@pytest.fixture
def folder(tmp_path):
  try:
    installed.require()
  except errors.VersionError as error:
    pytest.skip(str(error))
  return str(tmp_path / "compiled")


EVAL_INPUT = programs.examples(80)


def asked(model_fn=programs.line, eval_input_fn=EVAL_INPUT):
  return experiment.Experiment(
    model_fn=model_fn,
    train_input_fn=programs.train_input,
    eval_input_fn=eval_input_fn,
    train_per_core_batch_size=8,
    eval_per_core_batch_size=5,
  )


def checker(folder, **changes):
  return check.Check(bindings.of_run(asked(**changes), "float32"), kept=folder)


def test_a_run_finds_what_preflight_has_kept(tmp_path, folder, caplog, monkeypatch):
  checked = checker(folder)
  # Each is compiled in a process of its own.
  reports = [checked.check_step(kind, XLA) for kind in (Kind.TRAIN, Kind.EVAL)]
  assert [report.failed for report in reports] == [""] * 2
  assert all(report.compiled.kept_bytes for report in reports)

  from trainer.pjrt import jaxlib_internals

  monkeypatch.setattr(jaxlib_internals, "compile_for", None)
  caplog.clear()
  with caplog.at_level("INFO", logger="absl"):
    flags = experiment.Flags(model_dir=str(tmp_path / "run"), device="xla:8", compiled=folder)
    metrics = experiment.run(flags, dataclasses.replace(asked(), train_steps=3, exporters=[]))
  assert metrics["global_step"] == 3
  assert caplog.text.count("Found the program of") == 2


def test_a_program_that_fails_does_not_stop_the_others(folder):
  def model_fn(features, labels, mode, params):
    if mode == "train":
      raise ValueError("no training")
    return programs.line(features, labels, mode, params)

  checked = checker(folder, model_fn=model_fn)
  train, evaluation = (checked.check_step(kind, XLA) for kind in (Kind.TRAIN, Kind.EVAL))
  assert train.failed == "trace"
  assert "no training" in train.problem
  assert evaluation.compiled.kept_bytes


def test_a_program_that_is_not_kept_has_failed(tmp_path, folder):
  (tmp_path / "compiled").write_text("a file")
  report = checker(folder).check_step(Kind.TRAIN, XLA)
  assert report.failed == "compile"
  assert report.problem.startswith("Cannot write ")
  assert ": File exists. (--save)" in report.problem


@pytest.mark.preflight
def test_tpu_program_is_kept_for_its_topology_and_versions(folder):
  checked = checker(folder)
  v5e = topology.find("v5e-8")
  report = checked.check_step(Kind.TRAIN, v5e)
  assert report.failed == ""

  from trainer.pjrt import compiled_forms, devices

  (lowered,) = checked._lowered.values()
  digest, made_by = lowered.source.digest, lowered.source.versions
  forms = compiled_forms.CompiledForms(folder)
  key = {**devices.describe(v5e.compiler_name, 8, **dict(v5e.options)).key, **made_by}
  form, _ = forms.find(digest, key)
  assert len(form) == report.compiled.kept_bytes
  for changed, why in (
    (key | {"jaxlib": "0.0.1"}, "jaxlib (0.10.2, here 0.0.1)"),
    (key | {"tensorflow": "2.0"}, "tensorflow ("),
    ({**devices.describe("v3:2x2", 8).key, **made_by}, "devices (TPU v5 lite, here TPU v3)"),
  ):
    form, found = forms.find(digest, changed)
    assert form is None
    assert "the compiled form is for another" in found
    assert why in found
