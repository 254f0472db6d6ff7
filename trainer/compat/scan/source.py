"""What a Python file imports and uses of TensorFlow, by its syntax tree."""

import ast
import dataclasses
import pathlib
from collections.abc import Iterator

# Modules whose names this package has, by the name that they are imported under. The longest that
# fits is taken.
ROOTS = {
  "tensorflow": "",
  "tensorflow.compat.v1": "",
  "tensorflow_estimator": "",
  "tensorflow_estimator.python.estimator": "estimator",
  "tensorflow.python.estimator": "estimator",
  "tensorflow_hub": "hub",
  "tf_slim": "contrib.slim",
  "gin": "gin",
  "gin.tf": "gin",
  "tensorflow.python.tpu.tpu_function": "tpu_function",
}

# Modules inside of tf.estimator whose names are those of another one here.
_INSIDE = {
  "export.export": "estimator.export",
  "export.export_output": "estimator.export",
  "exporter": "estimator",
  "inputs.numpy_io": "estimator.inputs",
  "inputs.pandas_io": "estimator.inputs",
  "mode_keys": "estimator",
  "model_fn": "estimator",
}
ROOTS |= {
  f"{package}.python.estimator.{module}": found
  for package in ("tensorflow", "tensorflow_estimator")
  for module, found in _INSIDE.items()
}

# Modules of TensorFlow that programs import and that stay as they are.
KEPT = (
  "tensorflow.compat.v2",
  "tensorflow.core",
  "tensorflow.keras",
  "tensorflow.python",
  "tensorflow_addons",
  "tensorflow_datasets",
  "tensorflow_probability",
  "tensorflow_text",
)


@dataclasses.dataclass(frozen=True)
class Import:
  """A name that an import statement binds to something of TensorFlow.

  Attributes:
    bound: the name in the file.
    module: the module that is imported, or imported from.
    name: what is imported from it, or "".
    node: the statement.
  """

  bound: str
  module: str
  name: str
  node: ast.Import | ast.ImportFrom

  @property
  def target(self) -> str | None:
    """The name in trainer.compat.v1 ("" for the package itself), or None if it stays."""
    return target_of(self.module, self.name)

  @property
  def is_v2(self) -> bool:
    """Whether it is tf.compat.v2, which stays, but has not all names that it had."""
    return "tensorflow.compat.v2" in (self.module, f"{self.module}.{self.name}")


@dataclasses.dataclass(frozen=True)
class Use:
  """A name of TensorFlow that a file uses.

  Attributes:
    name: as trainer.compat.v1 has it: `layers.dense`, `estimator.ModeKeys.TRAIN`.
    line: where.
  """

  name: str
  line: int


@dataclasses.dataclass(frozen=True)
class Source:
  """A file that was read.

  Attributes:
    path, text: where it is, and what is in it.
    imports, uses: what it imports and uses of TensorFlow.
    of_trainer: by name of a module of a package `trainer` that it imports, the line.
  """

  path: pathlib.Path
  text: str
  imports: list[Import]
  uses: list[Use]
  of_trainer: dict[str, int] = dataclasses.field(default_factory=dict)


def target_of(module: str, name: str = "") -> str | None:
  """The name in trainer.compat.v1 of `module.name`, or None where it is none of its names."""
  full = f"{module}.{name}" if name else module
  parts = full.split(".")
  for end in range(len(parts), 0, -1):
    root = ".".join(parts[:end])
    if root in KEPT:
      return None
    if root in ROOTS:
      return ".".join(filter(None, [ROOTS[root], *parts[end:]]))
  return None


def files(paths: list[str]) -> Iterator[pathlib.Path]:
  """The Python files at paths: files, and those in folders."""
  for given in paths:
    path = pathlib.Path(given)
    yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def read(path: pathlib.Path) -> Source:
  """Reads a file; SyntaxError if it is not Python 3."""
  text = path.read_text()
  tree = ast.parse(text, str(path))
  with_gin = _uses_old_gin(tree)
  imports = [found for node in ast.walk(tree) for found in _imports(node, with_gin)]
  bound = {one.bound: one.target for one in imports if one.target is not None}
  bound |= {one.bound: "compat.v2" for one in imports if one.is_v2}
  uses = sorted(set(_uses(tree, bound)), key=lambda use: (use.line, use.name))
  of_trainer = {name: line for node in ast.walk(tree) for name, line in _of_trainer(node)}
  return Source(path, text, imports, uses, of_trainer)


def _of_trainer(node: ast.AST) -> Iterator[tuple[str, int]]:
  if isinstance(node, ast.Import):
    modules = [alias.name for alias in node.names]
  elif isinstance(node, ast.ImportFrom) and not node.level:
    modules = [f"{node.module}.{alias.name}" for alias in node.names]
  else:
    return
  for module in modules:
    root, *inner = module.split(".")
    if root == "trainer" and inner:
      yield inner[0], node.lineno


def _is_of_tensorflow(module: str) -> bool:
  return module.split(".")[0] in {root.split(".")[0] for root in (*ROOTS, *KEPT)} - {"gin"} or (
    module in ("gin.tf",) or module.startswith("gin.tf.")
  )


def _uses_old_gin(tree: ast.AST) -> bool:
  """Whether a file uses arguments that gin renamed."""
  names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
  return bool(names & {"blacklist", "whitelist"})


def _imports(node: ast.AST, with_gin: bool = False) -> Iterator[Import]:
  """The imports of TensorFlow's modules in a statement, and that of gin where it is asked for."""
  if isinstance(node, ast.Import):
    for alias in node.names:
      if _is_of_tensorflow(alias.name) or (with_gin and alias.name == "gin"):
        # `import tensorflow.contrib.slim` binds `tensorflow`, the module before the first dot.
        module = alias.name if alias.asname else alias.name.split(".")[0]
        yield Import(alias.asname or module, module, "", node)
  elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
    for alias in node.names:
      of_gin = node.module == "gin" and (with_gin or alias.name == "tf")
      if _is_of_tensorflow(node.module) or of_gin:
        yield Import(alias.asname or alias.name, node.module, alias.name, node)


def _uses(tree: ast.AST, bound: dict[str, str]) -> Iterator[Use]:
  """Chains of attributes that begin with a bound name, each as long as it is."""
  inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
  for node in ast.walk(tree):
    if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
      chain = _chain(node)
      if chain and chain[0] in bound:
        parts = [part for part in bound[chain[0]].split(".") if part] + chain[1:]
        if parts[:2] == ["compat", "v1"]:
          parts = parts[2:]
        if parts:
          yield Use(".".join(parts), node.lineno)


def _chain(node: ast.AST) -> list[str]:
  """["tf", "layers", "dense"] of `tf.layers.dense`; [] of anything else."""
  names: list[str] = []
  while isinstance(node, ast.Attribute):
    names.append(node.attr)
    node = node.value
  return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []
