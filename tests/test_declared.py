"""setup.py declares what is imported, and of what is relied on closely the versions that were
tried.
"""

import ast
import functools
import importlib.metadata
import pathlib
import sys

import pytest

from docs.tools import syntax
from tests import declared

# Which extra brings what a folder or file imports beyond the rest; any of those of TensorFlow will
# do.
EXTRAS = {
  "trainer/sweep": ["sweep"],
  "trainer/pjrt": ["pjrt"],
  "trainer/preflight": ["preflight"],
  "trainer/compare": ["plot"],
  "trainer/checkpoints/safetensors_file.py": ["safetensors"],
  "trainer/plot": ["plot"],
  "trainer/tune": ["plot"],
  "trainer/outputs/contact_sheet.py": ["plot"],
  "trainer/outputs/engines.py": ["litert", "onnx", "openvino"],
  "trainer/outputs/runtimes.py": ["onnx", "openvino"],
  "trainer/serving": ["serve"],
  "trainer/tracking": ["mlflow", "wandb"],
  "benchmarks": ["benchmarks"],
  "benchmarks/exports.py": ["onnx", "openvino"],
}
# Where they are not installed.
NAMES = {"mlflow": "mlflow-skinny", "pynvml": "nvidia-ml-py"}
OWN = {"trainer", "models", "input_pipelines", "benchmarks", "tests"}
CAPPED = ("tensorflow-cpu", "tensorflow", "keras", "gin-config", "tensorboard")


def imported(path):
  """The top-level modules that a file imports, anywhere in it."""
  for node in ast.walk(syntax.tree(path.read_text())):
    if isinstance(node, ast.Import):
      yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
      yield node.module.partition(".")[0]


@functools.cache
def packages():
  return importlib.metadata.packages_distributions()


def distributions(module):
  """The names of the packages that bring a module, as setup.py may write them."""
  names = packages().get(module, [NAMES.get(module, module)])
  return {name.lower().replace("_", "-") for name in names}


@pytest.mark.parametrize("folder", ["trainer", "models", "input_pipelines", "benchmarks"])
def test_what_is_imported_is_declared(folder):
  missing = set()
  for path in sorted((declared.ROOT / folder).rglob("*.py")):
    relative = path.relative_to(declared.ROOT)
    extras = [
      extra for place, names in EXTRAS.items() if relative.is_relative_to(place) for extra in names
    ]
    known = {name.lower().replace("_", "-") for name in declared.requirements("cpu", *extras)}
    for module in set(imported(path)) - OWN - set(sys.stdlib_module_names):
      if not distributions(module) & known:
        missing.add(f"{relative}: {module}")
  assert missing == set()


@pytest.mark.parametrize("name", CAPPED)
def test_versions_have_both_ends(name):
  found = declared.requirements("cpu", "gpu", "tpu")[name]
  operators = {each.operator for each in found.specifier}
  assert operators == {"=="} or (">=" in operators and operators & {"<", "<="})


@pytest.mark.parametrize("name", ["tensorflow-cpu", "keras", "gin-config", "tensorboard"])
def test_what_is_installed_here_is_declared(name):
  try:
    version = importlib.metadata.version(name)
  except importlib.metadata.PackageNotFoundError:
    pytest.skip(f"{name} is not installed, but another build of it")
  assert declared.requirements("cpu")[name].specifier.contains(version)


def test_the_python_that_runs_this_is_declared():
  found = declared.arguments()
  minor = f"Programming Language :: Python :: {sys.version_info.major}.{sys.version_info.minor}"
  assert minor in found["classifiers"]


def test_the_readme_says_what_is_declared():
  text = pathlib.Path(declared.ROOT, "README.md").read_text()
  assert (
    f"TensorFlow {declared.lowest(declared.requirements('cpu')['tensorflow-cpu'])} to 2.21" in text
  )
  assert f"Keras {declared.lowest(declared.requirements()['keras'])} to 3.15" in text
