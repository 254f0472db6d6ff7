"""Finds what Octet refuses in a program although each name of it exists."""

import ast
import pathlib
import re
from collections.abc import Iterator
from importlib import metadata, util

from trainer.compat.scan import source as source_lib
from trainer.compat.scan import uses
from trainer.compat.scan.apis import Program
from trainer.compat.scan.source import Source

_SESSIONS = (
  *("InteractiveSession", "Session", "train.MonitoredSession", "train.MonitoredTrainingSession"),
  "train.SingularMonitoredSession",
)

# Methods by which an optimizer of Keras 2 updates variables.
_OF_KERAS_2 = {"_create_slots", "_resource_apply_dense", "_resource_apply_sparse", "get_updates"}

_ESTIMATOR = "tensorflow_estimator"

# Lines at the top of a module that fail on today's TensorFlow.
_REMOVED = re.compile(
  r"^(?:from|import|class)\b.*\b(?:tensorflow_estimator|(?:tensorflow|tf)\b.*\b(?:contrib|estimator))\b",
  re.MULTILINE,
)


def found(programs: list[Program]) -> dict[str, list[str]]:
  """Returns kind → lines of the report.

  The kinds: "fed" for iterators of an input_fn that a hook initializes with a feed_dict, "sessions"
  for sessions in files that open no graph and have no tf.test.TestCase, "optimizers" for classes
  with methods of Keras 2's optimizers, "own" for a program's package tensorflow_estimator, "older"
  for installed packages that import tf.estimator or tf.contrib.
  """
  sources = [source for program in programs for source in program.sources]
  kinds = {"fed": _fed, "sessions": _sessions, "optimizers": _optimizers}
  lines = {kind: [line for one in sources for line in of(one)] for kind, of in kinds.items()}
  return lines | {"own": [*_own(sources)], "older": [*_older(sources)]}


def _fed(source: Source) -> Iterator[str]:
  nodes = [*ast.walk(source.tree)]
  functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
  if {"make_initializable_iterator", "after_create_session"} <= _attributes(source) | functions:
    for node in nodes:
      if isinstance(node, ast.Call) and _is_fed(node):
        yield (
          f"fed     {source.path}:{node.lineno}: a hook feeds the iterator of an input_fn. Octet "
          "reads an input without a session: give the values to the dataset itself, as in "
          "Dataset.from_tensor_slices((x, y))."
        )


def _is_fed(call: ast.Call) -> bool:
  return (
    isinstance(call.func, ast.Attribute)
    and call.func.attr == "run"
    and any(isinstance(one, ast.Attribute) and one.attr == "initializer" for one in call.args[:1])
    and any(one.arg == "feed_dict" for one in call.keywords)
  )


def _sessions(source: Source) -> Iterator[str]:
  if {"TestCase", "as_default"} & _attributes(source):
    return
  for use in source.uses:
    # Session(target, graph)
    has_graph = "graph" in use.keywords or use.positional > 1
    if use.name in _SESSIONS and use.positional >= 0 and not has_graph:
      yield (
        f"session {source.path}:{use.line}: a session outside of a graph. There, Octet runs "
        "operations at once. Build them inside `with tf.Graph().as_default(), tf.Session() as "
        "session:`."
      )


def _optimizers(source: Source) -> Iterator[str]:
  for node in ast.walk(source.tree):
    if isinstance(node, ast.ClassDef):
      methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} & _OF_KERAS_2
      if methods and any("keras.optimizers." in _full(base, source) for base in node.bases):
        yield (
          f"keras2  {source.path}:{node.lineno}: Keras 3 calls no {min(methods)} of an optimizer, "
          f"so {node.name} does not train. Let it extend tf.compat.v1.train.Optimizer, which "
          "calls _resource_apply_dense, or give it Keras 3's update_step."
        )


def _full(base: ast.expr, source: Source) -> str:
  """Returns the dotted name of a class's base, as far as the file's imports tell it."""
  value = uses.value_of(base, source.bound)
  return value[0] if value else ast.unparse(base)


def _own(sources: list[Source]) -> Iterator[str]:
  folders = {parent for one in sources for parent in one.path.parents if parent.name == _ESTIMATOR}
  imported = {one.module.split(".")[0] for source in sources for one in source.imports}
  for folder in sorted(folders) if _ESTIMATOR in imported else ():
    yield (
      f"own     {folder} is the program's own package. The changed imports leave it out: Octet's "
      "Estimator replaces every tensorflow_estimator. Rename the package if its changes matter."
    )


def _older(sources: list[Source]) -> Iterator[str]:
  known = {source.path.resolve() for source in sources}
  places: dict[str, str] = {}
  for source in sources:
    for one in source.taken:
      root = one.module.split(".")[0]
      is_tensorflows = root in source_lib.KEPT or source_lib.target_of(root)[0] is not None
      if not (one.dots or one.is_guarded or is_tensorflows):
        places.setdefault(root, f"{source.path}:{one.line}")
  for root, place in places.items():
    if (file := _file_of_removed_names(root)) and file.resolve() not in known:
      yield (
        f"older   {place}: {root} needs tf.estimator or tf.contrib itself ({file}). Copy its "
        "folder beside the program, and run this command on both."
      )


def _file_of_removed_names(package: str) -> pathlib.Path | None:
  """Returns a file of an installed package that needs names that TensorFlow removed."""
  try:  # without metadata, such as a package that is no distribution, nothing is known
    requires = metadata.requires(package) or []
  except metadata.PackageNotFoundError:
    return None
  if not any(one.startswith("tensorflow") for one in requires):
    return None
  spec = util.find_spec(package)
  folders = (spec.submodule_search_locations if spec else None) or []
  files = (path for folder in folders for path in sorted(pathlib.Path(folder).rglob("*.py")))
  return next((one for one in files if _REMOVED.search(one.read_text(errors="replace"))), None)


def _attributes(source: Source) -> set[str]:
  return {node.attr for node in ast.walk(source.tree) if isinstance(node, ast.Attribute)}
