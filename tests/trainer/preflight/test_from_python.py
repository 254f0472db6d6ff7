"""Preflight of a model_fn without gin."""

import keras
import pytest

import trainer
from tests.trainer.preflight import programs
from tests.trainer.preflight.test_check import compiled
from trainer import errors, preflight
from trainer.preflight import compiler


@pytest.fixture
def fake_compiler(monkeypatch):
  """A compiler to which everything fits."""
  monkeypatch.setattr(compiler, "require_extra", lambda topologies: None)
  monkeypatch.setattr(compiler, "compile_program", lambda *arguments: compiled(2**20))


def build_model():
  return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])


@pytest.mark.usefixtures("fake_compiler")
def test_the_steps_of_a_keras_model_are_compiled():
  model_fn = trainer.model_fn_from_keras(
    build_model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), "adam"
  )
  reports = preflight.check_steps(
    model_fn,
    "v5e-8",
    train_input_fn=programs.input_fn,
    eval_input_fn=programs.input_fn,
    train_batch_size=64,
    eval_per_core_batch_size=2,
  )
  assert [(report.kind, report.per_core, report.failed) for report in reports] == [
    ("train", 8, ""),
    ("eval", 2, ""),
    ("predict", 2, ""),
  ]
  assert preflight.text(reports[0]).startswith("train on v5e-8, 8 examples a core, 8 cores")


def test_an_unknown_topology_is_told_first():
  with pytest.raises(errors.SettingError, match="v5e-8"):
    preflight.check_steps(programs.model_fn, "v9", train_input_fn=programs.input_fn)
