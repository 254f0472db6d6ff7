"""What a stranger installs: `trainer` and one package more, which has the models and gin files."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("gin_configs", "input_pipelines", "models", "trainer")
FILES = ("LICENSE", "README.md", "pyproject.toml", "setup.py")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
  """A folder with what the wheel brings."""
  source = tmp_path_factory.mktemp("source")
  for name in FOLDERS:
    shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
  for name in FILES:
    shutil.copy(ROOT / name, source / name)
  command = [sys.executable, "-c", "import setuptools.build_meta as b; b.build_wheel('.')"]
  subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
  (wheel,) = source.glob("*.whl")
  target = tmp_path_factory.mktemp("site")
  with zipfile.ZipFile(wheel) as file:
    file.extractall(target)
  return target


def python(code, installed, folder):
  """Runs Python code in a folder, where the wheel is installed; returns what it prints."""
  environment = {**os.environ, "PYTHONPATH": str(installed)}
  done = subprocess.run(
    [sys.executable, "-c", code],
    cwd=folder,
    env=environment,
    capture_output=True,
    text=True,
    timeout=120,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


LOADED = """
import gin, trainer
from trainer import config
config.load(["gin_configs/digits.gin"])
from trainer import experiment
bound = gin.get_bindings(experiment.Experiment)
print(trainer.__file__, bound["model_fn"].__module__, bound["train_input_fn"].__module__)
"""


def test_the_wheel_has_two_packages(installed):
  names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
  assert names == {"octet_trainer", "trainer"}
  shipped = {path.name for path in (installed / "octet_trainer").iterdir()}
  assert shipped == {"gin_configs", "input_pipelines", "models"}
  there = {path.relative_to(ROOT) for path in ROOT.glob("gin_configs/**/*.gin")}
  assert there == {
    path.relative_to(installed / "octet_trainer")
    for path in installed.glob("octet_trainer/gin_configs/**/*.gin")
  }


def test_a_gin_file_finds_its_modules_from_any_folder(installed, tmp_path):
  file, *modules = python(LOADED, installed, tmp_path).split()
  assert file == str(installed / "trainer" / "__init__.py")
  assert modules == ["models.digits_mlp", "input_pipelines.digits"]


def test_a_programs_own_models_stay_its_own(installed, tmp_path):
  (tmp_path / "models" / "gpt2").mkdir(parents=True)
  (tmp_path / "models" / "gpt2" / "gpt2.py").write_text("x = 1\n")
  code = "from models.gpt2 import gpt2\nassert gpt2.x == 1\n" + LOADED
  _, *modules = python(code, installed, tmp_path).split()
  assert modules == ["octet_trainer.models.digits_mlp", "input_pipelines.digits"]
