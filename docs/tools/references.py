"""Pages of reference, made from the code.

    page = references.PAGES["reference/gin.md"]()

Each function returns a page in Markdown. They import all of trainer, models and input_pipelines,
and TensorFlow with them.
"""

import ast
import importlib
import inspect
import pathlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import griffe

ROOT = pathlib.Path(__file__).parents[2]

# The commands, in the order of the README; what each is for is the first line of its docstring.
COMMANDS = {
  "trainer.main": "trainer/main.py",
  "trainer.new": "trainer/new/main.py",
  "trainer.data_service": "trainer/inputs/data_service_main.py",
  "trainer.predict": "trainer/serving/predict_main.py",
  "trainer.serve": "trainer/serving/serve_main.py",
  "trainer.devices": "trainer/devices/main.py",
  "trainer.plot": "trainer/plot/main.py",
  "trainer.reproduce": "trainer/reproduce.py",
  "trainer.checkpoints": "trainer/checkpoints/main.py",
  "trainer.preflight": "trainer/preflight/main.py",
  "trainer.pjrt": "trainer/pjrt/main.py",
  "trainer.compare": "trainer/compare/main.py",
  "trainer.tune": "trainer/tune/main.py",
  "trainer.sweep": "trainer/sweep/main.py",
  "trainer.sweep_report": "trainer/sweep/report_main.py",
  "trainer.compat": "trainer/compat/__main__.py",
  "input_pipelines.make_tfrecords": "input_pipelines/make_tfrecords.py",
  "input_pipelines.make_vocabulary": "input_pipelines/make_vocabulary.py",
}


def python() -> str:
  """Returns the page of all public Python names, for mkdocstrings to fill."""
  import trainer
  from trainer import testing

  lines = ["# Python", "", "What `import trainer` gives. All else may change in any version.", ""]
  lines += [f"::: trainer.{name}\n" for name in trainer.__all__]
  lines += ["## trainer.testing", "", f"{inspect.getdoc(testing).splitlines()[0]}", ""]
  lines += [
    f"::: trainer.testing.{name}\n    options: {{heading_level: 3}}\n"
    for name, value in vars(testing).items()
    if inspect.isfunction(value) and value.__module__ == testing.__name__ and name[0] != "_"
  ]
  return "\n".join(lines)


def gin_names() -> str:
  """Returns the page of all that a gin file may name without a flag."""
  found = configurables()
  own = [name for name in found if not name.startswith(("gin.", "keras.", "tf."))]
  lines = [
    "# Gin names",
    "",
    "What a gin file may bind and refer to. The last parts of a name do, where they are clear:",
    "`digits.input_fn` for `input_pipelines.digits.input_fn`, which the file imports. What has no",
    "default is required, or comes from the caller.",
    "",
  ]
  for name in sorted(own, key=lambda name: (not name.startswith("trainer."), name)):
    lines += _configurable(name, found[name])
  lines += ["## Keras and TensorFlow", "", "With the parameters that they have there.", ""]
  for library in ("keras", "tf"):
    modules: dict[str, list[str]] = {}
    for name in sorted(name for name in found if name.startswith(f"{library}.")):
      module, _, last = name.rpartition(".")
      modules.setdefault(module, []).append(last)
    for module, names in modules.items():
      lines += [f"### {module}", "", ", ".join(f"`{name}`" for name in names), ""]
  return "\n".join(lines)


def configurables() -> dict[str, Any]:
  """Returns gin's Configurable by complete selector, of all that Octet registers."""
  import input_pipelines
  import models
  import trainer
  from trainer.config import gin_internals, keras_names

  for package in (models, input_pipelines):
    for module in pkgutil.iter_modules(package.__path__):
      if module.name != "make_tfrecords":  # a command: its flags are for its own process
        importlib.import_module(f"{package.__name__}.{module.name}")
  for name in trainer.__all__:
    getattr(trainer, name)
  for path in (ROOT / "trainer").rglob("*.py"):
    if "@gin_names." in path.read_text():
      importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
  keras_names.register()
  found = {name: gin_internals.configurable(name) for name in gin_internals.all_selectors()}
  return {name: known for name, known in found.items() if _is_octets(known)}


def _is_octets(known: Any) -> bool:
  from trainer.config import gin_internals

  registrar = gin_internals.registrar(known.selector) or known.wrapped.__module__
  return registrar.split(".")[0] in ("trainer", "models", "input_pipelines", "schedules")


def _configurable(name: str, known: Any) -> list[str]:
  from trainer.config import binding

  first = (inspect.getdoc(known.wrapped) or "").partition("\n\n")[0].replace("\n", " ")
  meanings = _meanings(known.wrapped)
  denied = known.denylist or ()
  rows = [
    f"| `{parameter.name}` | {_default(parameter)} | {meanings.get(parameter.name, '')} |"
    for parameter in binding.named_parameters(known).values()
    if parameter.name not in denied
  ]
  table = ["| parameter | default | meaning |", "|---|---|---|", *rows, ""] if rows else []
  return [f"## {name}", "", first, "", *table]


def _default(parameter: inspect.Parameter) -> str:
  if parameter.default is parameter.empty:
    return ""
  value = parameter.default
  shown = value.__name__ if callable(value) else repr(value)
  return f"`{shown}`".replace("|", "\\|")


def _meanings(wrapped: Any) -> dict[str, str]:
  """Returns what the docstrings of a function, or of a class and its bases, say of parameters."""
  found: dict[str, str] = {}
  for each in inspect.getmro(wrapped)[:-1] if inspect.isclass(wrapped) else (wrapped,):
    for text in (each.__doc__, getattr(vars(each).get("__init__"), "__doc__", None)):
      sections = griffe.Docstring(inspect.cleandoc(text or "")).parse(
        "google", warnings=False, warn_unknown_params=False
      )
      for section in sections:
        if section.kind.value in ("parameters", "attributes"):
          for item in section.value:
            meaning = " ".join(item.description.split()).replace("|", "\\|")
            for name in item.name.split(","):  # "first, last: ..."
              found.setdefault(name.strip(), meaning)
  return found


def flags() -> str:
  """Returns the page of all flags, by command."""
  lines = [
    "# Flags",
    "",
    "All commands have `--help`, and `--debug`, which shows where an error comes from.",
    "",
  ]
  for command, path in COMMANDS.items():
    tree = ast.parse((ROOT / path).read_text())
    first = (ast.get_docstring(tree) or "").partition("\n\n")[0].replace("\n", " ")
    lines += [f"## python -m {command}", "", first, ""]
    rows = [
      f"| `--{name}` | {default} | {meaning} |"
      for each in [tree, *_shared(tree)]
      for name, default, meaning in _flags(each)
    ]
    lines += ["| flag | default | meaning |", "|---|---|---|", *rows, ""] if rows else []
  return "\n".join(lines)


def _shared(tree: ast.Module) -> Iterator[ast.AST]:
  """Yields where the flags are defined that a command shares with others."""
  for node in ast.walk(tree):
    if not isinstance(node, ast.Call):
      continue
    called = ast.unparse(node.func)
    if called == "flags.adopt_module_key_flags":
      (path,) = (ROOT / "trainer").rglob(f"{ast.unparse(node.args[0])}.py")
      yield ast.parse(path.read_text())
    elif called.startswith("run_flags."):
      functions = ast.parse((ROOT / "trainer/cli/run_flags.py").read_text()).body
      name = called.removeprefix("run_flags.")
      yield next(each for each in functions if getattr(each, "name", "") == name)


def _flags(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
  """Yields (name, default, meaning) of the flags that a file defines."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("DEFINE_"):
      name, default, *rest = node.args
      kind = node.func.attr.removeprefix("DEFINE_")
      meaning = _text(rest[-1]) if rest else ""
      if kind == "enum":
        values = rest[0]
        if isinstance(values, ast.Name):
          values = next(
            each.value
            for each in ast.walk(tree)
            if isinstance(each, ast.Assign) and each.targets[0].id == values.id
          )
        meaning = f"{', '.join(f'`{value}`' for value in ast.literal_eval(values))}. {meaning}"
      shown = ast.unparse(default).replace("trust.FOLDER", "'.'")
      yield _text(name), "" if shown in ("None", "''", "[]") else f"`{shown}`", meaning


def _text(node: ast.expr) -> str:
  if isinstance(node, ast.JoinedStr):
    return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
  return " ".join(str(ast.literal_eval(node)).split()).replace("|", "\\|")


def error_classes() -> str:
  """Returns the page of all error classes."""
  from trainer import errors

  first, _, rest = inspect.getdoc(errors).partition("\n\n")
  lines = [
    "# Errors",
    "",
    first,
    "",
    rest,
    "",
    "| `trainer.errors` | is also | when |",
    "|---|---|---|",
  ]
  for name, value in vars(errors).items():
    if inspect.isclass(value) and issubclass(value, errors.OctetError):
      bases = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
      lines.append(f"| `{name}` | {bases} | {' '.join(inspect.getdoc(value).split())} |")
  return "\n".join([*lines, ""])


PAGES: dict[str, Callable[[], str]] = {
  "reference/python.md": python,
  "reference/gin.md": gin_names,
  "reference/flags.md": flags,
  "reference/errors.md": error_classes,
}
