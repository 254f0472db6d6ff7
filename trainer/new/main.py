"""Makes the folder of a new project: a model, its data, a gin file, a test and a README.

    python -m trainer.new my_project
    python -m trainer.new my_project --kind=images

    table         classifies the rows of a CSV file: numbers and categories, some of them missing
    images        classifies images in a folder for each class
    text          classifies texts
    keras         classifies images by a Keras model
    regression    predicts a number of the rows of a CSV file

The project trains, exports, predicts and passes its test without changes, and is yours to change.
Its package has the project's name, so that it does not hide Octet's packages, nor they it.

Each kind fills the same templates, with the parts in templates/KIND.jinja.
"""

import importlib.util
import keyword
import os
import pathlib
import shlex
import shutil
from collections.abc import Sequence

import jinja2
from absl import flags

from trainer import errors
from trainer.cli import command
from trainer.new import samples

_TEMPLATES = pathlib.Path(__file__).parent / "templates"

KINDS = ("table", "images", "text", "keras", "regression")

# Template → its file in the project's folder.
_FILES = {
  "readme.md.jinja": "README.md",
  "init.py.jinja": "{name}/__init__.py",
  "model.py.jinja": "{name}/model.py",
  "experiment.gin.jinja": "configs/{name}.gin",
  "test.py.jinja": "tests/test_{name}.py",
}
# The kinds with an input_fn of their own; others take one of Octet's input pipelines.
_DATA = {"regression": {"data.py.jinja": "{name}/data.py"}}
_LONGEST_NAME = 100  # Folders and files have it, and a file system has a limit.
_FOLDERS = ("configs", "data", "out", "tests")  # Beside the package, in a project.

_KIND = flags.DEFINE_enum("kind", "table", KINDS, "The task of the project.")


def main(argv: Sequence[str]) -> None:
  """Makes the project of the name in argv, and prints the next steps.

  Raises:
    SettingError: there is not exactly one name, or it cannot be a project's.
    OutputError: it cannot write the folder.
  """
  if len(argv) != 2:
    raise errors.SettingError("Give one name for the project: python -m trainer.new my_project")
  command.require_local(argv[1], "The project")
  folder = pathlib.Path(argv[1])
  for path in create(folder, _KIND.value):
    print(path)
  readme = (folder / "README.md").read_text(encoding="utf-8")
  commands = [line.strip() for line in readme.splitlines() if line.startswith("    python ")]
  print("\nNext:", f"cd {shlex.quote(str(folder))}", *commands, sep="\n  ")


def create(folder: pathlib.Path, kind: str = "table") -> list[pathlib.Path]:
  """Makes a project.

  Args:
    folder: must not exist yet. Its name becomes the package's name.
    kind: one of KINDS.

  Returns:
    The files; for many files of data, their folder.

  Raises:
    SettingError: no package can have the name, or it hides another package; or the folder exists.
    OutputError: it cannot write the project.
  """
  if folder.exists():
    raise errors.SettingError(f"{folder} is there already: give another name, or remove it.")
  check_name(folder.name)
  contents = {path: text.encode() for path, text in _rendered(folder.name, kind).items()}
  data = samples.files(kind)
  aside = folder.with_name(f"{folder.name}.writing-{os.getpid()}")
  try:
    for path, content in (contents | data).items():
      (aside / path).parent.mkdir(parents=True, exist_ok=True)
      (aside / path).write_bytes(content)
    aside.rename(folder)
  except OSError as error:
    shutil.rmtree(aside, ignore_errors=True)
    raise errors.OutputError(f"Cannot write the project to {folder}: {error}") from error
  shown = data if len(data) < 10 else dict.fromkeys(os.path.dirname(path) for path in data)
  return [folder / path for path in (*contents, *shown)]


def _rendered(name, kind):
  """Returns path → text of the files from templates."""
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_TEMPLATES),
    keep_trailing_newline=True,
    lstrip_blocks=True,
    trim_blocks=True,
    undefined=jinja2.StrictUndefined,
  )
  part = environment.get_template(f"{kind}.jinja").module
  templates = _FILES | _DATA.get(kind, {})
  return {
    path.format(name=name): environment.get_template(template).render(
      name=name, part=part, has_data_module=kind in _DATA
    )
    for template, path in templates.items()
  }


def check_name(name: str) -> None:
  """Raises SettingError unless a package can have the name, and none has it yet."""
  is_word = name.isidentifier() and not keyword.iskeyword(name) and name == name.lower()
  if not is_word or len(name) > _LONGEST_NAME:
    raise errors.SettingError(
      f"{name!r} cannot be the name of a package: expected lower-case letters, digits and _, such "
      f"as my_project, {_LONGEST_NAME} at most."
    )
  found = importlib.util.find_spec(name)
  if found is not None or name in _FOLDERS:
    origin = next(iter((found and found.submodule_search_locations) or ()), None)
    where = origin or (found and found.origin) or "a folder of every project"
    raise errors.SettingError(
      f"Another module has the name {name} ({where}): Python would import one of the two and hide "
      "the other. Give the project a name of its own."
    )
