"""Imports run one way, and what is typed wrongly need not wait for TensorFlow."""

import ast
import pathlib
import subprocess
import sys

import pytest

import trainer

ROOT = pathlib.Path(trainer.__file__).resolve().parents[1]
PUBLIC = {"errors", *trainer.__all__}
NOT_IMPORTED_BY_TRAINER = ("models", "input_pipelines")


def imports(source):
  """(line, module, name) of every import: name is None for `import module`."""
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      yield from ((node.lineno, alias.name, None) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield from ((node.lineno, "." * node.level + (node.module or ""), alias.name) for alias in node.names)


def private_uses(source):
  """What a file takes from trainer beside its public names, as "line: what". A command may be run as those of trainer are."""
  public = PUBLIC | {"command"} if '__name__ == "__main__"' in source else PUBLIC
  for line, module, name in imports(source):
    if module == "trainer" and name is not None and name not in public:
      yield f"{line}: from trainer import {name}"
    elif module.startswith("trainer.") and module != "trainer.errors":
      yield f"{line}: {module}"
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "trainer" and node.attr not in public:
      yield f"{node.lineno}: trainer.{node.attr}"


def upward_imports(source):
  """What a file of trainer takes from models and input_pipelines, as "line: module"."""
  for line, module, _ in imports(source):
    if module.partition(".")[0] in NOT_IMPORTED_BY_TRAINER:
      yield f"{line}: {module}"


# The modules of each library that are its own business, and the one file of trainer that may know.
PRIVATE = {
    "gin.config": "trainer/config/gin_internals.py",
    "keras.src": "trainer/internals/keras_internals.py",
    "tensorflow.compiler": "trainer/internals/tensorflow_internals.py",
    "tensorflow.python": "trainer/internals/tensorflow_internals.py",
}


def libraries_internals(source):
  """What a file imports of a library's own modules, as (line, one of PRIVATE)."""
  for line, module, name in imports(source):
    whole = f"{module}.{name}."
    yield from ((line, private) for private in PRIVATE if whole.startswith(f"{private}."))


def files(*folders):
  return [str(path.relative_to(ROOT)) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", files("trainer"))
def test_trainer_imports_no_model_and_no_input(path):
  assert list(upward_imports((ROOT / path).read_text())) == []


@pytest.mark.parametrize("path", files("models", "input_pipelines"))
def test_models_and_inputs_use_the_public_contract_alone(path):
  assert list(private_uses((ROOT / path).read_text())) == []


@pytest.mark.parametrize("path", files("trainer"))
def test_private_modules_of_a_library_are_imported_in_one_file(path):
  found = libraries_internals((ROOT / path).read_text())
  assert [(line, private) for line, private in found if PRIVATE[private] != path] == []


def own_registrations(source):
  """What a file registers with gin itself, as "line: name": where a configuration is locked, gin takes none."""
  for node in ast.walk(ast.parse(source)):
    is_of_gin = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gin"
    if is_of_gin and node.attr in ("configurable", "constant", "constants_from_enum", "external_configurable", "register"):
      yield f"{node.lineno}: gin.{node.attr}"


# What registers for others, and the file by which the rest register.
REGISTER = ("trainer/config/gin_names.py", "trainer/compat/v1/gin.py")


@pytest.mark.parametrize("path", [path for path in files("trainer") if path not in REGISTER])
def test_trainer_registers_its_names_so_that_they_may_load_late(path):
  assert list(own_registrations((ROOT / path).read_text())) == []


def test_the_rules_find_what_breaks_them():
  assert list(own_registrations("import gin\n@gin.configurable\ndef f(): ...")) == ["2: gin.configurable"]
  assert list(libraries_internals("import keras.src")) == [(1, "keras.src")]
  assert list(libraries_internals("from keras.src.utils import naming")) == [(1, "keras.src")]
  assert list(libraries_internals("from gin import config")) == [(1, "gin.config")]
  assert list(libraries_internals("import tensorflow as tf\nfrom keras import layers")) == []
  assert list(upward_imports("def f():\n  from models import digits_mlp")) == ["2: models"]
  assert list(upward_imports("import input_pipelines.digits as d")) == ["1: input_pipelines.digits"]
  assert list(upward_imports("import modelsmith")) == []
  assert list(private_uses("import trainer\nfrom trainer import errors\nimport trainer.errors\ntrainer.EstimatorSpec")) == []
  assert list(private_uses("from trainer import command")) == ["1: from trainer import command"]
  assert list(private_uses('from trainer import command\nif __name__ == "__main__":\n  command.run(main)')) == []
  assert list(private_uses("from trainer import estimator")) == ["1: from trainer import estimator"]
  assert list(private_uses("import trainer.loop")) == ["1: trainer.loop"]
  assert list(private_uses("from trainer.optimizers import minimize")) == ["1: trainer.optimizers"]
  assert list(private_uses("import trainer\n\ntrainer.step.run()")) == ["3: trainer.step"]


def test_the_command_and_its_configuration_do_not_import_tensorflow():
  code = "import sys, trainer, trainer.main, trainer.config; print([name for name in ('tensorflow', 'keras', 'numpy') if name in sys.modules])"
  done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
  assert done.stdout == "[]\n"


def test_a_training_of_digits_imports_nothing_heavy_that_it_does_not_use():
  code = """
import sys
from trainer import config
config.load(["gin_configs/digits.gin"])
print([name for name in ("jax", "optuna", "tensorflow_datasets", "torch", "trainer.preflight", "trainer.sweep") if name in sys.modules])
"""
  done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
  assert done.stdout == "[]\n"
