"""The interpreter of the engine TensorFlow Lite, and its silence; `test_choose` converts models."""

import importlib.util
import os
import sys
import types

import pytest
import tensorflow as tf

from trainer import errors
from trainer.outputs import engines


def test_an_installed_litert_comes_first(monkeypatch):
  interpreter = types.ModuleType("ai_edge_litert.interpreter")
  interpreter.Interpreter = object()
  package = types.ModuleType("ai_edge_litert")
  package.interpreter = interpreter
  package.__spec__ = importlib.util.spec_from_loader("ai_edge_litert", None)
  monkeypatch.setitem(sys.modules, "ai_edge_litert", package)
  monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", interpreter)
  assert engines.find_interpreter() is interpreter.Interpreter


def test_without_an_interpreter_the_package_is_named(monkeypatch):
  monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
  monkeypatch.setattr(tf, "lite", types.SimpleNamespace())
  with pytest.raises(errors.SettingError, match="runs no TensorFlow Lite models.*litert"):
    engines.find_interpreter()


def test_only_the_library_is_silent(capfd):
  os.write(2, b"before\n")
  with pytest.raises(OSError, match="Bad file"), engines._silence():
    os.read(os.write(2, b"of the library\n") + 10**6, 1)  # an error of the library
  os.write(2, b"after\n")
  assert capfd.readouterr().err == "before\nafter\n"
