"""What a stranger installs: `trainer` and one package more, which has the models and gin files."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests import warm

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHIPPED = ("gin_configs", "input_pipelines", "models")
FOLDERS = (*SHIPPED, "octet_trainer", "trainer")
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


def python(installed, folder, *arguments):
  """Runs `python *arguments` in a folder, where the wheel is installed; returns what it prints."""
  environment = {**os.environ, "PYTHONPATH": str(installed)}
  done = warm.run(*arguments, cwd=folder, env=environment)
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
  assert shipped == {*SHIPPED, "__init__.py", "compat.py", "run.py"}
  there = {path.relative_to(ROOT) for path in ROOT.glob("gin_configs/**/*.gin")}
  assert there == {
    path.relative_to(installed / "octet_trainer")
    for path in installed.glob("octet_trainer/gin_configs/**/*.gin")
  }


def test_a_gin_file_finds_its_modules_from_any_folder(installed, tmp_path):
  file, *modules = python(installed, tmp_path, "-c", LOADED).split()
  assert file == str(installed / "trainer" / "__init__.py")
  assert modules == ["models.digits_mlp", "input_pipelines.digits"]


def test_a_programs_own_models_stay_its_own(installed, tmp_path):
  (tmp_path / "models" / "gpt2").mkdir(parents=True)
  (tmp_path / "models" / "gpt2" / "gpt2.py").write_text("x = 1\n")
  code = "from models.gpt2 import gpt2\nassert gpt2.x == 1\n" + LOADED
  _, *modules = python(installed, tmp_path, "-c", code).split()
  assert modules == ["octet_trainer.models.digits_mlp", "input_pipelines.digits"]


def test_a_command_of_the_second_package_runs_and_names_itself(installed, tmp_path):
  module = "octet_trainer.input_pipelines.make_vocabulary"
  assert f"python -m {module}" in python(installed, tmp_path, "-m", module, "--help")


# What `pip install --editable` makes of the second package: a name without a folder.
EDITABLE = """
import sys
from importlib import machinery, util

class Finder:
  def find_spec(self, name, path=None, target=None):
    package, _, folder = name.partition(".")
    if package != "octet_trainer" or "." in folder:
      return None
    if not folder:
      spec = machinery.ModuleSpec(name, None, is_package=True)
      spec.submodule_search_locations = ["__editable__"]
      return spec
    path = f"{ROOT}/{folder}"
    return util.spec_from_file_location(
      name, f"{path}/__init__.py", submodule_search_locations=[path]
    )

sys.meta_path.insert(0, Finder())
"""


def test_own_models_stay_beside_an_editable_install(tmp_path):
  (tmp_path / "models").mkdir()
  (tmp_path / "models" / "__init__.py").write_text("x = 1\n")
  code = f"ROOT = {str(ROOT)!r}\n{EDITABLE}\nimport models\nassert models.x == 1\n{LOADED}"
  _, *modules = python(ROOT, tmp_path, "-c", code).split()
  assert modules == ["octet_trainer.models.digits_mlp", "input_pipelines.digits"]


# ------------------------------------------------------------- a program's own module `trainer`

OWN = """
import trainer.compat.v1 as tf

version = tf.__version__

if __name__ == "__main__":
  import sys
  import trainer
  print(tf.__name__, __file__.rpartition("/")[2], trainer.version == version, *sys.argv[1:])
"""
TASK = """
import sys
import trainer.compat.v1 as tf
import trainer.model
from trainer import config
from trainer.model import scale
from . import model
assert model is trainer.model and model.scale == scale == 2 and config.own
print(tf.__name__, __file__.rpartition("/")[2], trainer.__name__, *sys.argv[1:])
"""


@pytest.fixture(scope="module", params=["a clone", "a wheel"])
def octet(request):
  """Where Octet is: the folder of a clone, or of what the wheel brings."""
  return ROOT if request.param == "a clone" else request.getfixturevalue("installed")


def run(octet, folder, *arguments):
  return python(octet, folder, "-m", *arguments).splitlines()


def test_a_program_runs_whose_own_file_is_trainer_py(octet, tmp_path):
  (tmp_path / "trainer.py").write_text(OWN)
  (tmp_path / "main.py").write_text("from trainer import tf, version\nprint(tf.__name__)\n")
  said = "trainer.compat.v1 trainer.py True --a=1"
  assert run(octet, tmp_path, "octet_trainer.run", "trainer.py", "--a=1") == [said]
  assert run(octet, tmp_path, "octet_trainer.run", "-m", "trainer", "--a=1") == [said]
  assert run(octet, tmp_path, "octet_trainer.run", "main.py") == ["trainer.compat.v1"]


def test_a_program_runs_whose_own_package_is_trainer(octet, tmp_path):
  (tmp_path / "trainer").mkdir()
  for name, text in {"task": TASK, "model": "scale = 2\n", "config": "own = True\n"}.items():
    (tmp_path / "trainer" / f"{name}.py").write_text(text)
  said = "trainer.compat.v1 task.py octet_program.trainer --a=1"
  assert run(octet, tmp_path, "octet_trainer.run", "-m", "trainer.task", "--a=1") == [said]


def test_the_tool_runs_beside_a_programs_own_trainer(octet, tmp_path):
  (tmp_path / "trainer.py").write_text("import tensorflow as tf\nprint(tf.layers)\n")
  *_, said = run(octet, tmp_path, "octet_trainer.compat", "--write", "trainer.py")
  assert "`python -m octet_trainer.run FILE`" in said
  assert "import trainer.compat.v1 as tf" in (tmp_path / "trainer.py").read_text()
