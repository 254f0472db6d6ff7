"""A stand-in for the package of Weights & Biases."""

import importlib.machinery
import sys

import pytest

from tests.trainer.tracking import fake_wandb


@pytest.fixture
def wandb(monkeypatch):
  module = fake_wandb.Wandb()
  module.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
  monkeypatch.setitem(sys.modules, "wandb", module)
  return module
