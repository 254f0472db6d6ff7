"""Imports run one way, and what is typed wrongly need not wait for TensorFlow."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

import trainer
from docs.tools import architecture

ROOT = pathlib.Path(trainer.__file__).resolve().parents[1]
PUBLIC = {"errors", *trainer.__all__}
NOT_IMPORTED_BY_TRAINER = ("models", "input_pipelines")


def imports(source):
  """(line, module, name) of every import: name is None for `import module`."""
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Import):
      yield from ((node.lineno, alias.name, None) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield from (
        (node.lineno, "." * node.level + (node.module or ""), alias.name) for alias in node.names
      )


def private_uses(source):
  """What a file takes from trainer beside its public names, as "line: what".

  A command may be run as those of trainer are.
  """
  public = PUBLIC
  is_command = '__name__ == "__main__"' in source
  for line, module, name in imports(source):
    if module == "trainer" and name is not None and name not in public:
      yield f"{line}: from trainer import {name}"
    elif module == "trainer.cli" and name == "command" and is_command:
      continue
    elif module.startswith("trainer.") and module != "trainer.errors":
      yield f"{line}: {module}"
  for node in ast.walk(ast.parse(source)):
    if (
      isinstance(node, ast.Attribute)
      and isinstance(node.value, ast.Name)
      and node.value.id == "trainer"
      and node.attr not in public
    ):
      yield f"{node.lineno}: trainer.{node.attr}"


def upward_imports(source):
  """What a file of trainer takes from models and input_pipelines, as "line: module"."""
  for line, module, _ in imports(source):
    if module.partition(".")[0] in NOT_IMPORTED_BY_TRAINER:
      yield f"{line}: {module}"


# The modules of each library that are its own business, and the one file of trainer that may know.
PRIVATE = {
  "gin.config": "trainer/config/gin_internals.py",
  "jax._src": "trainer/pjrt/jaxlib_internals.py",
  "jaxlib": "trainer/pjrt/jaxlib_internals.py",
  "keras.src": "trainer/internals/keras_internals.py",
  "tensorflow.compiler": "trainer/internals/tensorflow_internals.py",
  "tensorflow.python": "trainer/internals/tensorflow_internals.py",
}


def libraries_internals(source):
  """What a file imports of a library's own modules, as (line, one of PRIVATE)."""
  for line, module, name in imports(source):
    whole = f"{module}.{name}."
    yield from ((line, private) for private in PRIVATE if whole.startswith(f"{private}."))


# What reads and writes files without a second try, and who may call it: storage does try again,
# files writes whole files on a disk.
_ONCE = ("tf.io.gfile", "tf.io.read_file", "tf.io.write_file", "tf.train.latest_checkpoint")
MAY_FAIL_ONCE = {
  "trainer/io/storage.py": _ONCE,
  "trainer/io/files.py": ("tf.io.gfile",),
  "trainer/checkpoints/reader.py": ("tf.train.latest_checkpoint",),
  "trainer/compat/v1/estimator/estimator.py": ("tf.train.latest_checkpoint",),
}


def files_past_storage(source, allowed=()):
  """What a file calls that reads or writes a file once, as "line: name"."""
  for node in ast.walk(ast.parse(source)):
    if isinstance(node, ast.Attribute) and ast.unparse(node) in set(_ONCE) - set(allowed):
      yield f"{node.lineno}: {ast.unparse(node)}"


def files(*folders):
  return [
    str(path.relative_to(ROOT))
    for folder in folders
    for path in sorted((ROOT / folder).rglob("*.py"))
  ]


# The rooms of trainer/ from the bottom to the top: a room imports from those before it.
ROOMS = architecture.rooms(architecture.PAGE.read_text())


def imported_modules(source):
  """(line, name below trainer) of every module of trainer that a file imports."""
  for line, module, name in imports(source):
    if module == "trainer" and name is not None:
      yield line, name
    elif module.startswith("trainer."):
      below = module.removeprefix("trainer.")
      yield line, below if name is None else f"{below}.{name}"


def room_of(path):
  """The room of a file below the repository's root: a folder of trainer/, or a file beside them."""
  return pathlib.Path(path).parts[1].removesuffix(".py")


def backward_imports(room, source):
  """What a file of a room imports from its own level or above, as "line: module"."""
  before = ROOMS[: ROOMS.index(room)]
  for line, module in imported_modules(source):
    other = module.partition(".")[0]
    if other != room and other not in before and other not in PUBLIC and other != "__version__":
      yield f"{line}: {module}"


def names_past_the_face(room, source):
  """What a file imports from another package of trainer that this package does not show."""
  for line, module in imported_modules(source):
    package, _, below = module.partition(".")
    name = below.partition(".")[0]
    init = ROOT / "trainer" / package / "__init__.py"
    if name and package != room and init.exists() and name not in face_of(package):
      yield f"{line}: {module}"


@functools.cache
def face_of(package):
  """The names in __all__ of a package of trainer."""
  tree = ast.parse((ROOT / "trainer" / package / "__init__.py").read_text())
  for node in tree.body:
    if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
      return ast.literal_eval(node.value)
  return []


@pytest.mark.parametrize("path", files("trainer"))
def test_rooms_import_downwards_and_by_their_faces(path):
  room, source = room_of(path), (ROOT / path).read_text()
  if path == "trainer/__init__.py":
    return
  assert list(backward_imports(room, source)) == []
  assert list(names_past_the_face(room, source)) == []


def test_the_room_rules_find_what_breaks_them():
  assert list(backward_imports("inputs", "from trainer import estimator")) == ["1: estimator"]
  assert list(backward_imports("inputs", "from trainer.loop import outer_loop")) == [
    "1: loop.outer_loop"
  ]
  assert list(backward_imports("loop", "from trainer.inputs import call")) == []
  assert list(names_past_the_face("loop", "from trainer.checkpoints import keras_weights")) == [
    "1: checkpoints.keras_weights"
  ]
  assert list(names_past_the_face("checkpoints", "from trainer.checkpoints import reader")) == []


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
  """What a file registers with gin itself, as "line: name": where a configuration is locked,
  gin takes none.
  """
  for node in ast.walk(ast.parse(source)):
    is_of_gin = (
      isinstance(node, ast.Attribute)
      and isinstance(node.value, ast.Name)
      and node.value.id == "gin"
    )
    if is_of_gin and node.attr in (
      "configurable",
      "constant",
      "constants_from_enum",
      "external_configurable",
      "register",
    ):
      yield f"{node.lineno}: gin.{node.attr}"


# What registers for others, and the file by which the rest register.
REGISTER = ("trainer/config/gin_names.py", "trainer/compat/v1/gin.py")


@pytest.mark.parametrize("path", [path for path in files("trainer") if path not in REGISTER])
def test_trainer_registers_its_names_so_that_they_may_load_late(path):
  assert list(own_registrations((ROOT / path).read_text())) == []


def test_trainer_reads_and_writes_through_storage():
  found = {
    path: list(files_past_storage((ROOT / path).read_text(), MAY_FAIL_ONCE.get(path, ())))
    for path in files("trainer")
  }
  assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_rules_find_what_breaks_them():
  assert list(files_past_storage("with tf.io.gfile.GFile(path) as file:\n  pass")) == [
    "1: tf.io.gfile"
  ]
  assert list(own_registrations("import gin\n@gin.configurable\ndef f(): ...")) == [
    "2: gin.configurable"
  ]
  assert list(libraries_internals("import keras.src")) == [(1, "keras.src")]
  assert list(libraries_internals("from keras.src.utils import naming")) == [(1, "keras.src")]
  assert list(libraries_internals("from gin import config")) == [(1, "gin.config")]
  assert list(libraries_internals("import tensorflow as tf\nfrom keras import layers")) == []
  assert list(upward_imports("def f():\n  from models import digits_mlp")) == ["2: models"]
  assert list(upward_imports("import input_pipelines.digits as d")) == ["1: input_pipelines.digits"]
  assert list(upward_imports("import modelsmith")) == []
  assert (
    list(
      private_uses(
        "import trainer\nfrom trainer import errors\nimport trainer.errors\ntrainer.EstimatorSpec"
      )
    )
    == []
  )
  assert list(private_uses("from trainer.cli import command")) == ["1: trainer.cli"]
  assert (
    list(
      private_uses('from trainer.cli import command\nif __name__ == "__main__":\n  command.run()')
    )
    == []
  )
  assert list(private_uses("from trainer import estimator")) == ["1: from trainer import estimator"]
  assert list(private_uses("import trainer.loop")) == ["1: trainer.loop"]
  assert list(private_uses("from trainer.optimization.optimizers import minimize")) == [
    "1: trainer.optimization.optimizers"
  ]
  assert list(private_uses("import trainer\n\ntrainer.step.run()")) == ["3: trainer.step"]


def test_the_command_and_its_configuration_do_not_import_tensorflow():
  code = """
import sys, trainer, trainer.main, trainer.config
print([name for name in ('tensorflow', 'keras', 'numpy') if name in sys.modules])
"""
  done = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
  )
  assert done.stdout == "[]\n"


def test_a_list_of_checkpoints_does_not_import_tensorflow(tmp_path):
  (tmp_path / "model.ckpt-7.index").write_text("")
  code = """
import sys
from trainer.checkpoints import main
main.main(["", "list", sys.argv[1]])
print([name for name in ('tensorflow', 'keras') if name in sys.modules])
"""
  done = subprocess.run(
    [sys.executable, "-c", code, str(tmp_path)],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=60,
    check=True,
  )
  assert done.stdout.endswith("[]\n")


def test_a_training_of_digits_imports_nothing_heavy_that_it_does_not_use():
  code = """
import sys
from trainer import config
config.load(["gin_configs/digits.gin"])
# Not jax: TensorFlow imports it by itself, where it is installed, for TensorFlow Lite.
heavy = (
  "libtpu", "optuna", "tensorflow_datasets", "torch",
  "trainer.pjrt.execution", "trainer.preflight", "trainer.sweep",
)
print([name for name in heavy if name in sys.modules])
"""
  done = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
  )
  assert done.stdout == "[]\n"


@pytest.mark.parametrize("path", files("tests/slow", "benchmarks"))
def test_what_no_test_runs_imports_what_is_there(path):
  """The long proofs and the benchmarks take files and packages of this tree that exist."""
  for line, module, name in imports((ROOT / path).read_text()):
    if module.partition(".")[0] in ("tests", "trainer", "benchmarks", "models"):
      place = ROOT.joinpath(*module.split("."))
      is_module = place.with_suffix(".py").exists()
      assert is_module or place.is_dir(), f"{path}:{line}: {module}"
      if not is_module and name is not None and module != "trainer":
        known = place.joinpath(name).is_dir() or place.joinpath(f"{name}.py").exists()
        assert known, f"{path}:{line}: {module}.{name}"
