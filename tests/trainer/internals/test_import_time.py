"""Modules of Keras that few programs use are loaded when they are used, and no garbage is collected
while TensorFlow is imported.
"""

import importlib.util
import subprocess
import sys

import keras
import pytest

from tests.trainer.internals import names_asked_for
from trainer.internals import import_time

ROOT = names_asked_for.__file__.rpartition("/tests/")[0]

FILES = {
  "tensorflow.py": """
import gc, keras
print("collects in it:", gc.isenabled())
if "fails" in __import__("sys").argv: raise ImportError("none")
""",
  "keras/__init__.py": "from keras import visualization, other",
  "keras/visualization.py": "print('visualization is loaded'); value = 1",
  "keras/other.py": "print('other is loaded')",
  "program.py": """
import gc, sys
import trainer
try:
  import tensorflow
except ImportError:
  print("failed")
print("collects:", gc.isenabled(), gc.get_count()[1:])
print([one for one in sys.meta_path if "trainer" in type(one).__module__])
import keras, inspect
inspect.getmodule(compile("", __file__, "exec"))
print("inspected:", "keras.visualization" in sys.modules)
print(keras.visualization.value)
print(keras.visualization.__file__[-16:], type(keras.visualization).__name__)
""",
}


KERAS_FIRST = """
import trainer
import keras
print("no tensorflow yet")
print(keras.visualization.value)
"""


@pytest.fixture
def run(tmp_path):
  """Runs the program; gives its lines."""
  for name, text in FILES.items():
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)

  def run(*arguments, program=FILES["program.py"]):
    (tmp_path / "program.py").write_text(program)
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "program.py", *arguments]
    return subprocess.check_output(command, cwd=tmp_path, env=environment, text=True).splitlines()

  return run


def test_what_is_not_used_is_loaded_later_and_nothing_stays(run):
  assert run() == [
    "other is loaded",
    "collects in it: False",
    "collects: True (0, 0)",
    "[]",
    "inspected: True",
    "visualization is loaded",
    "1",
    "visualization.py module",
  ]


def test_a_program_may_import_keras_before_tensorflow(run):
  assert run(program=KERAS_FIRST) == [
    "other is loaded",
    "no tensorflow yet",
    "visualization is loaded",
    "1",
  ]


def test_an_import_that_fails_leaves_nothing(run):
  assert run("fails")[2:5] == ["failed", "collects: True (0, 0)", "[]"]


@pytest.mark.parametrize("name", ["visualization", "wrappers"])
def test_keras_has_the_modules(name):
  found = getattr(keras, name, None)
  if found is None:
    pytest.skip(f"Keras {keras.__version__} has no {name}")
  assert found.__name__ in import_time._LAZY
  for lazy in import_time._LAZY:
    if lazy.endswith(name) and ".api." not in lazy:
      assert importlib.util.find_spec(lazy) is not None
