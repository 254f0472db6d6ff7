"""Imports run one way, and what is typed wrongly need not wait for TensorFlow."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

import trainer
from docs.tools import architecture
from tests import sources

ROOT = sources.ROOT
PUBLIC = {"errors", *trainer.__all__}
NOT_IMPORTED_BY_TRAINER = ("models", "input_pipelines")


def imports(tree):
  """(line, module, name) of every import: name is None for `import module`."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      yield from ((node.lineno, alias.name, None) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
      yield from (
        (node.lineno, "." * node.level + (node.module or ""), alias.name) for alias in node.names
      )


def private_uses(tree):
  """What a file takes from trainer beside its public names, as "line: what".

  A command may be run as those of trainer are.
  """
  public = PUBLIC
  is_command = any(
    isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
    for node in tree.body
  )
  for line, module, name in imports(tree):
    if module == "trainer" and name is not None and name not in public:
      yield f"{line}: from trainer import {name}"
    elif module == "trainer.cli" and name == "command" and is_command:
      continue
    elif module.startswith("trainer.") and module != "trainer.errors":
      yield f"{line}: {module}"
  for node in ast.walk(tree):
    if (
      isinstance(node, ast.Attribute)
      and isinstance(node.value, ast.Name)
      and node.value.id == "trainer"
      and node.attr not in public
    ):
      yield f"{node.lineno}: trainer.{node.attr}"


def upward_imports(tree):
  """What a file of trainer takes from models and input_pipelines, as "line: module"."""
  for line, module, _ in imports(tree):
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


def libraries_internals(tree):
  """What a file imports of a library's own modules, as (line, one of PRIVATE)."""
  for line, module, name in imports(tree):
    whole = f"{module}.{name}."
    yield from ((line, private) for private in PRIVATE if whole.startswith(f"{private}."))


# What reads and writes files without a second try, and who may call it: storage does try again,
# files writes whole files on a disk.
_ONCE = ("tf.io.gfile", "tf.io.read_file", "tf.io.write_file", "tf.train.latest_checkpoint")
MAY_FAIL_ONCE = {
  "trainer/io/storage.py": _ONCE,
  "trainer/io/files.py": ("tf.io.gfile",),
  "trainer/checkpoints/reader.py": ("tf.train.latest_checkpoint",),
  "trainer/compat/estimator/estimator.py": ("tf.train.latest_checkpoint",),
}


def files_past_storage(tree, allowed=()):
  """What a file calls that reads or writes a file once, as "line: name"."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Attribute) and ast.unparse(node) in set(_ONCE) - set(allowed):
      yield f"{node.lineno}: {ast.unparse(node)}"


# The rooms of trainer/ from the bottom to the top: a room imports from those before it.
ROOMS = architecture.rooms(architecture.PAGE.read_text())


def imported_modules(tree):
  """(line, name below trainer) of every module of trainer that a file imports."""
  for line, module, name in imports(tree):
    if module == "trainer" and name is not None:
      yield line, name
    elif module.startswith("trainer."):
      below = module.removeprefix("trainer.")
      yield line, below if name is None else f"{below}.{name}"


def room_of(path):
  """The room of a file below the repository's root: a folder of trainer/, or a file beside them."""
  return pathlib.Path(path).parts[1].removesuffix(".py")


def backward_imports(room, tree):
  """What a file of a room imports from its own level or above, as "line: module"."""
  before = ROOMS[: ROOMS.index(room)]
  for line, module in imported_modules(tree):
    other = module.partition(".")[0]
    if other != room and other not in before and other not in PUBLIC and other != "__version__":
      yield f"{line}: {module}"


def names_past_the_face(room, tree):
  """What a file imports from another package of trainer that this package does not show."""
  for line, module in imported_modules(tree):
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


def test_rooms_import_downwards_and_by_their_faces():
  paths = [path for path in sources.files("trainer") if path != "trainer/__init__.py"]
  breaks = functools.partial(sources.breaches, paths)
  assert breaks(lambda path: backward_imports(room_of(path), sources.tree(path))) == {}
  assert breaks(lambda path: names_past_the_face(room_of(path), sources.tree(path))) == {}


@pytest.mark.parametrize(
  "rule, room, source, found",
  [
    (backward_imports, "inputs", "from trainer import estimator", ["1: estimator"]),
    (backward_imports, "inputs", "from trainer.loop import outer_loop", ["1: loop.outer_loop"]),
    (backward_imports, "loop", "from trainer.inputs import call", []),
    (
      names_past_the_face,
      "loop",
      "from trainer.checkpoints import keras_weights",
      ["1: checkpoints.keras_weights"],
    ),
    (names_past_the_face, "checkpoints", "from trainer.checkpoints import reader", []),
  ],
)
def test_the_room_rules_find_what_breaks_them(rule, room, source, found):
  assert list(rule(room, ast.parse(source))) == found


def test_trainer_imports_no_model_and_no_input():
  found = sources.breaches(
    sources.files("trainer"), lambda path: upward_imports(sources.tree(path))
  )
  assert found == {}


def test_models_and_inputs_use_the_public_contract_alone():
  paths = sources.files("models", "input_pipelines")
  assert sources.breaches(paths, lambda path: private_uses(sources.tree(path))) == {}


def test_private_modules_of_a_library_are_imported_in_one_file():
  def rule(path):
    found = libraries_internals(sources.tree(path))
    return [(line, private) for line, private in found if PRIVATE[private] != path]

  assert sources.breaches(sources.files("trainer"), rule) == {}


def own_registrations(tree):
  """What a file registers with gin itself, as "line: name": where a configuration is locked,
  gin takes none.
  """
  for node in ast.walk(tree):
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
REGISTER = ("trainer/config/gin_names.py", "trainer/compat/packages/gin.py")


def test_trainer_registers_its_names_so_that_they_may_load_late():
  paths = set(sources.files("trainer")) - set(REGISTER)
  assert sources.breaches(paths, lambda path: own_registrations(sources.tree(path))) == {}


def test_trainer_reads_and_writes_through_storage():
  def rule(path):
    return files_past_storage(sources.tree(path), MAY_FAIL_ONCE.get(path, ()))

  assert sources.breaches(sources.files("trainer"), rule) == {}


@pytest.mark.parametrize(
  "rule, source, found",
  [
    (files_past_storage, "with tf.io.gfile.GFile(path) as file:\n  pass", ["1: tf.io.gfile"]),
    (own_registrations, "import gin\n@gin.configurable\ndef f(): ...", ["2: gin.configurable"]),
    (libraries_internals, "import keras.src", [(1, "keras.src")]),
    (libraries_internals, "from keras.src.utils import naming", [(1, "keras.src")]),
    (libraries_internals, "from gin import config", [(1, "gin.config")]),
    (libraries_internals, "import tensorflow as tf\nfrom keras import layers", []),
    (upward_imports, "def f():\n  from models import digits_mlp", ["2: models"]),
    (upward_imports, "import input_pipelines.digits as d", ["1: input_pipelines.digits"]),
    (upward_imports, "import modelsmith", []),
    (
      private_uses,
      "import trainer\nfrom trainer import errors\nimport trainer.errors\ntrainer.EstimatorSpec",
      [],
    ),
    (private_uses, "from trainer.cli import command", ["1: trainer.cli"]),
    (
      private_uses,
      'from trainer.cli import command\nif __name__ == "__main__":\n  command.run()',
      [],
    ),
    (private_uses, "from trainer import estimator", ["1: from trainer import estimator"]),
    (private_uses, "import trainer.loop", ["1: trainer.loop"]),
    (
      private_uses,
      "from trainer.optimization.optimizers import minimize",
      ["1: trainer.optimization.optimizers"],
    ),
    (private_uses, "import trainer\n\ntrainer.step.run()", ["3: trainer.step"]),
  ],
)
def test_the_rules_find_what_breaks_them(rule, source, found):
  assert list(rule(ast.parse(source))) == found


def test_command_and_configuration_do_not_import_tensorflow():
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


def missing_imports(path):
  """What a file imports of this tree that is not there, as "line: what"."""
  for line, module, name in imports(sources.tree(path)):
    if module.partition(".")[0] not in ("tests", "trainer", "benchmarks", "models"):
      continue
    place = ROOT.joinpath(*module.split("."))
    if place.with_suffix(".py").exists():
      continue
    if not place.is_dir():
      yield f"{line}: {module}"
    elif name is not None and module != "trainer":
      below = place.joinpath(name)
      if not below.is_dir() and not below.with_suffix(".py").exists():
        yield f"{line}: {module}.{name}"


def test_what_no_test_runs_imports_what_is_there():
  """The long proofs and the benchmarks take files and packages of this tree that exist."""
  assert sources.breaches(sources.files("tests/slow", "benchmarks"), missing_imports) == {}
