"""What a Python file imports and uses of TensorFlow, by its syntax tree."""

import ast
import dataclasses
import pathlib
from collections.abc import Iterator

# Which package of trainer.compat has a name: that of TensorFlow 1, that of TensorFlow 2, or the one
# that the program means by a plain `tensorflow`.
V1, V2, PLAIN = "v1", "v2", ""

# A name inside of TensorFlow that an import keeps: `tensorflow.python.framework.ops`.
INSIDE = "tensorflow"

# Modules whose names trainer.compat has: (the name that they have there, of which package). The
# longest that fits is taken.
ROOTS = {
  "tensorflow": ("", PLAIN),
  "tensorflow.compat.v1": ("", V1),
  "tensorflow.compat.v2": ("", V2),
  "tensorflow.contrib": ("contrib", V1),
  "tensorflow.compat.v1.keras": ("keras", V1),
  "tensorflow.compat.v2.keras": ("keras", V2),
  "tensorflow_estimator": ("", PLAIN),
  "tensorflow_estimator.python.estimator": ("estimator", V1),
  "tensorflow.python.estimator": ("estimator", V1),
  "tensorflow_hub": ("hub", V1),
  "tf_slim": ("contrib.slim", V1),
  "gin": ("gin", V1),
  "gin.tf": ("gin", V1),
  "tensorflow.python.tpu.tpu_function": ("tpu_function", V1),
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
  "tpu.tpu_config": "estimator.tpu",
  "tpu.tpu_context": "estimator.tpu",
  "tpu.tpu_estimator": "estimator.tpu",
}
ROOTS |= {
  f"{package}.python.estimator.{module}": (found, V1)
  for package in ("tensorflow", "tensorflow_estimator")
  for module, found in _INSIDE.items()
}
# Where TensorFlow had them besides, before 2.16.
ROOTS |= {
  f"tensorflow.python.{module}": (found, V1)
  for module, found in _INSIDE.items()
  if module.startswith("tpu.")
}

# Modules of TensorFlow that programs import and that stay as they are: TensorFlow still has them.
KEPT = (
  "tensorflow.compiler",
  "tensorflow.core",
  "tensorflow.dtensor",
  "tensorflow.keras",
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
  def full(self) -> str:
    """The whole dotted name that it binds."""
    return f"{self.module}.{self.name}" if self.name else self.module

  @property
  def target(self) -> str | None:
    """The name in trainer.compat's package ("" for itself), or None if it stays."""
    return target_of(self.module, self.name)[0]

  @property
  def api(self) -> str:
    """The package that has it: V1, V2, or PLAIN."""
    return target_of(self.module, self.name)[1]


@dataclasses.dataclass(frozen=True)
class Use:
  """A name of TensorFlow that a file uses.

  Attributes:
    name: as trainer.compat has it: `layers.dense`, `estimator.ModeKeys.TRAIN`.
    line: where.
    api: the package that has it: V1, V2, or PLAIN; INSIDE for a whole name of TensorFlow itself.
    of_plain: whether it is a name of TensorFlow 1 or 2 that is asked of a plain `tf`:
      `tf.compat.v1.layers.dense`.
    positional: how many arguments without a name it is called with; -1 where it is not called, or
      with a `*`.
    keywords: the names of the arguments that it is called with.
    optimizers: names of TensorFlow in the arguments whose name ends in "optimizer".
  """

  name: str
  line: int
  api: str = V1
  of_plain: bool = False
  positional: int = -1
  keywords: tuple[str, ...] = ()
  optimizers: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Source:
  """A file that was read.

  Attributes:
    path, text: where it is, and what is in it.
    imports, uses: what it imports and uses of TensorFlow.
    modules: what it imports, as (dots in front, dotted name), each also with what comes from it.
  """

  path: pathlib.Path
  text: str
  imports: list[Import]
  uses: list[Use]
  modules: list[tuple[int, str]] = dataclasses.field(default_factory=list)

  @property
  def is_script(self) -> bool:
    """Whether it is made to be run, and not only to be imported."""
    return "__main__" in self.text

  @property
  def is_plain(self) -> bool:
    """Whether it has names of which the program says otherwise whether they are v1 or v2."""
    return any(one.target is not None and one.api == PLAIN for one in self.imports)


def target_of(module: str, name: str = "") -> tuple[str | None, str]:
  """(The name in trainer.compat of `module.name`, its package); (None, PLAIN) where it stays."""
  full = f"{module}.{name}" if name else module
  parts = full.split(".")
  for end in range(len(parts), 0, -1):
    root = ".".join(parts[:end])
    if root in KEPT:
      return None, PLAIN
    if root in ROOTS:
      target, api = ROOTS[root]
      return ".".join(filter(None, [target, *parts[end:]])), api
  return None, PLAIN


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
  bound: dict[str, tuple[str, str]] = {}
  for one in imports:
    # `try: import tensorflow.compat.v1 as tf`, `except: import tensorflow as tf` is v1.
    if one.target is not None and (one.bound not in bound or one.api != PLAIN):
      bound[one.bound] = one.target, one.api
  for node in tree.body:
    bound |= _alias(node, bound)
  kept = [one for one in imports if one.target is None and one.module.startswith("tensorflow.")]
  guarded = _guarded(tree)
  # What is left out of `bound` may be absent: the program says what to do then.
  bound |= {one.bound: (one.full, INSIDE) for one in kept if id(one.node) not in guarded}
  uses = sorted(
    {*_uses(tree, bound), *_imported(kept, bound)}, key=lambda use: (use.line, use.name)
  )
  modules = [found for node in ast.walk(tree) for found in _modules(node)]
  return Source(path, text, imports, uses, modules)


def _guarded(tree: ast.AST) -> set[int]:
  """The identities of statements in a `try` that goes on where they raise."""
  tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try) and node.handlers]
  return {id(inner) for one in tries for each in one.body for inner in ast.walk(each)}


def _imported(kept: list[Import], bound: dict[str, tuple[str, str]]) -> Iterator[Use]:
  """What import statements themselves need of TensorFlow."""
  for one in kept:
    if bound.get(one.bound) == (one.full, INSIDE) and one.name != "*":
      yield Use(one.full, one.node.lineno, INSIDE)


def _alias(node: ast.stmt, bound: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
  """What `v1 = tf.compat.v1` binds; {} for another statement."""
  if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
    return {}
  chain = _chain(node.value)
  if len(chain) < 2 or chain[0] not in bound or len(node.targets) > 1:
    return {}
  target, api = bound[chain[0]]
  return {node.targets[0].id: (".".join(filter(None, [target, *chain[1:]])), api)}


def _modules(node: ast.AST) -> Iterator[tuple[int, str]]:
  if isinstance(node, ast.Import):
    yield from ((0, alias.name) for alias in node.names)
  elif isinstance(node, ast.ImportFrom):
    yield node.level, node.module or ""
    yield from (
      (node.level, f"{node.module}.{alias.name}" if node.module else alias.name)
      for alias in node.names
    )


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


def _uses(tree: ast.AST, bound: dict[str, tuple[str, str]]) -> Iterator[Use]:
  """Chains of attributes that begin with a bound name, each as long as it is."""
  inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
  calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
  for node in ast.walk(tree):
    # `tf.estimator.Estimator.hook = f` gives a name, and asks for none.
    is_read = isinstance(getattr(node, "ctx", None), ast.Load)
    if isinstance(node, ast.Attribute | ast.Name) and is_read and id(node) not in inner:
      name, api, of_plain = _resolved(node, bound)
      if name:
        called = _call(calls.get(id(node)), bound)
        yield Use(name, node.lineno, api, of_plain, *called)


def _resolved(node: ast.AST, bound: dict[str, tuple[str, str]]) -> tuple[str, str, bool]:
  """(name, api, of_plain) of a chain of attributes, as Use has them; name is "" for none."""
  chain = _chain(node)
  if not chain or chain[0] not in bound:
    return "", PLAIN, False
  target, api = bound[chain[0]]
  parts = [part for part in target.split(".") if part] + chain[1:]
  if parts[:1] == ["compat"] and parts[1:2] in ([V1], [V2]):
    return ".".join(parts[2:]), parts[1], api == PLAIN
  return ".".join(parts), api, False


def _call(
  node: ast.Call | None, bound: dict[str, tuple[str, str]]
) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
  """(positional, keywords, optimizers) of a call, as Use has them."""
  if node is None:
    return -1, (), ()
  optimizers = {
    _resolved(inside, bound)[0]
    for keyword in node.keywords
    if (keyword.arg or "").endswith("optimizer")
    for inside in ast.walk(keyword.value)
  }
  starred = any(isinstance(one, ast.Starred) for one in node.args)
  keywords = tuple(sorted(k.arg for k in node.keywords if k.arg))
  return -1 if starred else len(node.args), keywords, tuple(sorted(optimizers - {""}))


def _chain(node: ast.AST) -> list[str]:
  """["tf", "layers", "dense"] of `tf.layers.dense`; [] of anything else."""
  names: list[str] = []
  while isinstance(node, ast.Attribute):
    names.append(node.attr)
    node = node.value
  return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []
