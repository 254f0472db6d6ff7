"""What is registered with gin after the configuration was locked.

That all registers by gin_names, tests/test_imports.py shows.
"""

import importlib
import pathlib
import subprocess
import sys

import gin
import pytest

import trainer
from docs.tools import architecture
from trainer.config import gin_names

PROGRAM = """
import gin, trainer
gin.parse_config_files_and_bindings([], [])
assert gin.config_is_locked()
for name in trainer.__all__:
  getattr(trainer, name)
import trainer.config.keras_names, trainer.sweep.settings
trainer.config.keras_names.register()
assert gin.config_is_locked()
with gin.unlock_config():
  gin.parse_config("RunConfig.save_summary_steps = 7")
assert trainer.RunConfig().save_summary_steps == 7
assert gin.get_configurable("keras.optimizers.Adam")
"""


@pytest.mark.long
def test_a_program_that_parses_gin_first_names_everything_later():
  run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
  assert run.returncode == 0, run.stderr[-2000:]


def test_a_run_imports_every_configurable_that_trainer_shows():
  """A gin file names them without an import."""
  graph = architecture.imports_of_modules(pathlib.Path(trainer.__file__).parent)
  imported, left = set(), ["trainer.experiment"]
  while left:
    module = left.pop()
    if module not in imported:
      imported.add(module)
      left += graph[module]
  sources = {
    home: pathlib.Path(importlib.import_module(home).__file__).read_text()
    for home in trainer._HOMES.values()
  }
  homes = {home for home, source in sources.items() if "@gin_names." in source}
  assert len(homes) > 8
  assert homes <= imported


@pytest.fixture
def registered():
  """Selectors that are forgotten at the end."""
  selectors = []
  yield selectors
  for selector in selectors:
    gin.config._REGISTRY.pop(selector)


@pytest.mark.parametrize("locks", [True, False])
def test_the_lock_is_left_as_it_was(registered, locks):
  if locks:
    gin.finalize()
  late = gin_names.configurable("late", module="mine")(lambda size=1: size)
  registered.append("mine.late")
  assert gin.config_is_locked() == locks
  with gin.unlock_config():
    gin.bind_parameter("mine.late.size", 5)
  assert late() == 5


def test_a_name_that_is_taken_leaves_the_configuration_locked(registered):
  gin_names.configurable("taken", module="mine")(lambda: 1)
  registered.append("mine.taken")
  gin.finalize()
  with pytest.raises(ValueError, match=r"different configurable matching 'mine\.taken'"):
    gin_names.configurable("taken", module="mine")(lambda: 2)
  assert gin.config_is_locked()
