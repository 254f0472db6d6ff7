"""Finds a Python file's imports and uses of TensorFlow in its syntax tree."""

import ast
import dataclasses
import io
import pathlib
import tokenize
from collections.abc import Iterator

from trainer.compat.scan import uses as uses_lib
from trainer.compat.scan.uses import INSIDE, PLAIN, V1, V2, Bound, Use

# Modules with names in trainer.compat: (the module's name there, its package). The longest prefix
# decides.
ROOTS = {
  "tensorflow": ("", PLAIN),
  "tensorflow.compat.v1": ("", V1),
  "tensorflow.compat.v2": ("", V2),
  "tensorflow.contrib": ("contrib", V1),
  "tensorflow_estimator": ("", PLAIN),
  "tensorflow_estimator.python.estimator": ("estimator", V1),
  "tensorflow.python.estimator": ("estimator", V1),
  "tensorflow_hub": ("hub", V1),
  "tf_slim": ("contrib.slim", V1),
  "gin": ("gin", V1),
  "gin.tf": ("gin", V1),
  "tensorflow.python.framework.ops": ("python.ops", V1),
  "tensorflow.python.ops.control_flow_ops": ("python.control_flow_ops", V1),
  "tensorflow.python.tf2": ("tf2", PLAIN),
  "tensorflow.python.tpu.tpu_function": ("tpu_function", V1),
  "tensorflow.python.util.nest": ("python.nest", V1),
  # A program from an earlier change of imports.
  "trainer.compat.v1": ("", V1),
  "trainer.compat.v2": ("", V2),
}

# Modules inside of tf.estimator → the module here with their names.
_INSIDE = {
  "export.export": "estimator.export",
  "export.export_output": "estimator.export",
  "exporter": "estimator",
  "inputs.numpy_io": "estimator.inputs",
  "inputs.pandas_io": "estimator.inputs",
  "mode_keys": "estimator",
  "model_fn": "estimator",
  "tpu.tpu_config": "estimator.tpu",
  "tpu.tpu_context": "estimator.tpu",
  "tpu.tpu_estimator": "estimator.tpu",
}
ROOTS |= {
  f"{package}.python.estimator.{module}": (found, V1)
  for package in ("tensorflow", "tensorflow_estimator")
  for module, found in _INSIDE.items()
}
# Their additional places before TensorFlow 2.16.
ROOTS |= {
  f"tensorflow.python.{module}": (found, V1)
  for module, found in _INSIDE.items()
  if module.startswith("tpu.")
}

# Modules that programs import and that need no change: TensorFlow still has them.
KEPT = (
  "tensorflow.compiler",
  "tensorflow.core",
  "tensorflow.dtensor",
  "tensorflow.lite.python",
  "tensorflow.python",
  "tensorflow.tools",
  "tensorflow_addons",
  "tensorflow_datasets",
  "tensorflow_probability",
  "tensorflow_text",
)


@dataclasses.dataclass(frozen=True)
class Import:
  """A name that an import statement binds to a module or name of TensorFlow.

  Attributes:
    bound: the name in the file.
    module: the imported module, or the module of the imported name.
    name: the imported name, or "".
    node: the statement.
  """

  bound: str
  module: str
  name: str
  node: ast.Import | ast.ImportFrom

  @property
  def full(self) -> str:
    """The whole dotted name behind the bound name."""
    return f"{self.module}.{self.name}" if self.name else self.module

  @property
  def target(self) -> str | None:
    """The name in trainer.compat's package ("" for the package itself), or None to keep it."""
    return target_of(self.module, self.name)[0]

  @property
  def api(self) -> str:
    """The package with the name: V1, V2, or PLAIN."""
    return target_of(self.module, self.name)[1]


@dataclasses.dataclass(frozen=True)
class Taken:
  """A name that a file imports from a module: `from ..module import name as bound`.

  Attributes:
    dots: the dots before the module's name.
    module: its dotted name.
    name: the name in the module; "" for `import module`.
    bound: the name in the file.
    line: the statement's line.
    is_guarded: whether the file handles a failure of this import.
  """

  dots: int
  module: str
  name: str
  bound: str
  line: int
  is_guarded: bool


@dataclasses.dataclass(frozen=True)
class Source:
  """A file and its names of TensorFlow.

  Attributes:
    path, text, tree: the file, its text and syntax tree.
    imports, uses: its imports and uses of TensorFlow.
    bound: the bindings of its import statements to names of TensorFlow.
    taken: the names that it imports from any module.
    encoding: of the file.
  """

  path: pathlib.Path
  text: str
  imports: list[Import]
  uses: list[Use]
  tree: ast.Module = dataclasses.field(default_factory=lambda: ast.Module([], []), repr=False)
  bound: Bound = dataclasses.field(default_factory=dict)
  taken: list[Taken] = dataclasses.field(default_factory=list)
  encoding: str = "utf-8"

  @property
  def is_script(self) -> bool:
    """Returns whether the file is a script to run, not only a module to import."""
    return "__main__" in self.text

  @property
  def is_plain(self) -> bool:
    """Returns whether some names depend on the version that the program means."""
    return any(one.target is not None and one.api == PLAIN for one in self.imports)


def target_of(module: str, name: str = "") -> tuple[str | None, str]:
  """Returns (name of `module.name` in trainer.compat, its package); (None, PLAIN) to keep it."""
  full = f"{module}.{name}" if name else module
  parts = full.split(".")
  for end in range(len(parts), 0, -1):
    root = ".".join(parts[:end])
    if root == "tensorflow.python.keras":
      return _of_keras(parts[end:]), PLAIN
    if root in KEPT:
      return None, PLAIN
    if root in ROOTS:
      target, api = ROOTS[root]
      return ".".join(filter(None, [target, *parts[end:]])), api
  return None, PLAIN


def _of_keras(parts: list[str]) -> str | None:
  """Returns the public name of a private name of Keras; None if tf.keras has none.

  TensorFlow still has the private modules, but they are a second Keras: its models refuse the
  optimizers of tf.keras.
  """
  import keras

  if parts[:1] == ["layers"]:  # layers.core.Dense
    parts = ["layers", *parts[-1:]] if len(parts) > 1 else parts
  found = keras
  for part in parts:
    found = getattr(found, part, None)
  return None if found is None else ".".join(["keras", *parts])


def files(paths: list[str]) -> Iterator[pathlib.Path]:
  """Returns the Python files at paths: files, and files in folders."""
  for given in paths:
    path = pathlib.Path(given)
    yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def read(path: pathlib.Path) -> Source:
  """Reads a file; SyntaxError if it is not Python 3."""
  content = path.read_bytes()  # keeps the ends of lines
  encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
  text = content.decode(encoding)
  tree = ast.parse(text, str(path))
  with_gin = _uses_old_gin(tree)
  imports = [found for node in ast.walk(tree) for found in _imports(node, with_gin)]
  bound: Bound = {}
  for one in imports:
    # `try: import tensorflow.compat.v1 as tf`, `except: import tensorflow as tf` means v1.
    if one.target is not None and (one.bound not in bound or one.api != PLAIN):
      bound[one.bound] = one.target, one.api
  guarded = _guarded(tree)
  kept = [one for one in imports if one.target is None and one.module.startswith("tensorflow.")]
  # The program handles the absence of a guarded import, so `bound` leaves it out.
  kept = [one for one in kept if id(one.node) not in guarded]
  bound |= {one.bound: (one.full, INSIDE) for one in kept}
  bound.pop("*", None)
  taken = [found for node in ast.walk(tree) for found in _taken(node, guarded)]
  own = {Use(one.full, one.node.lineno, INSIDE) for one in kept if one.name != "*"}
  uses = uses_lib.found(tree, bound, own)
  return Source(path, text, imports, uses, tree, bound, taken, encoding)


def _guarded(tree: ast.AST) -> set[int]:
  """Returns the identities of statements in a `try` that continues after an error."""
  tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try) and node.handlers]
  return {id(inner) for one in tries for each in one.body for inner in ast.walk(each)}


def _taken(node: ast.AST, guarded: set[int]) -> Iterator[Taken]:
  if isinstance(node, ast.Import):
    for alias in node.names:
      bound = alias.asname or alias.name
      yield Taken(0, alias.name, "", bound, node.lineno, id(node) in guarded)
  elif isinstance(node, ast.ImportFrom):
    for alias in node.names:
      bound = alias.asname or alias.name
      yield Taken(
        node.level, node.module or "", alias.name, bound, node.lineno, id(node) in guarded
      )


def _is_of_tensorflow(module: str) -> bool:
  roots = {root.split(".")[0] for root in (*ROOTS, *KEPT)} - {"gin", "trainer"}
  deeper = ("gin.tf", "trainer.compat.v1", "trainer.compat.v2")
  return module.split(".")[0] in roots or any(f"{module}.".startswith(f"{one}.") for one in deeper)


def _uses_old_gin(tree: ast.AST) -> bool:
  """Returns whether a file uses arguments that gin renamed."""
  names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
  return bool(names & {"blacklist", "whitelist"})


def _imports(node: ast.AST, with_gin: bool = False) -> Iterator[Import]:
  """Yields a statement's imports of TensorFlow's modules, and of gin on request."""
  if isinstance(node, ast.Import):
    for alias in node.names:
      if _is_of_tensorflow(alias.name) or (with_gin and alias.name == "gin"):
        # `import tensorflow.contrib.slim` binds `tensorflow`, the module before the first dot.
        module = alias.name if alias.asname else alias.name.split(".")[0]
        yield Import(alias.asname or module, module, "", node)
  elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
    for alias in node.names:
      of_gin = node.module == "gin" and (with_gin or alias.name == "tf")
      if (
        _is_of_tensorflow(node.module) or _is_of_tensorflow(f"{node.module}.{alias.name}") or of_gin
      ):
        yield Import(alias.asname or alias.name, node.module, alias.name, node)
