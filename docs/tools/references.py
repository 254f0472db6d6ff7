"""Pages of reference, made from the code.

    page = references.PAGES["reference/gin.md"]()

Each function returns a page in Markdown. The functions import all of trainer, models and
input_pipelines, and TensorFlow with them.
"""

import importlib
import inspect
import pathlib
import pkgutil
from collections.abc import Callable
from typing import Any

import griffe

ROOT = pathlib.Path(__file__).parents[2]


def python() -> str:
  """Returns the page of all public Python names, for mkdocstrings to complete."""
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
  """Returns the page of all names that gin files may use without a flag."""
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
  """Returns complete selector → gin's Configurable, for all that Octet registers."""
  import input_pipelines
  import models
  import trainer
  from trainer.config import gin_internals, keras_names

  for package in (models, input_pipelines):
    for module in pkgutil.iter_modules(package.__path__):
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
  """Returns parameter → meaning, from the docstrings of a function, or of a class and its bases."""
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
  "reference/errors.md": error_classes,
}
