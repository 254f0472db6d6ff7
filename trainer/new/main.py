"""Makes the folder of a new project: a model, its data, a gin file, a test and a README.

python -m trainer.new my_project

The project trains as it is, and is yours to change. Its package has the project's name, so that it
neither hides Octet's packages nor is hidden by them.
"""

import importlib.util
import keyword
import os
import pathlib
import shlex
import shutil
from collections.abc import Sequence

import jinja2

from trainer import errors
from trainer.cli import command

_TEMPLATES = pathlib.Path(__file__).parent / "templates"

# Template → the file that it becomes, below the project's folder.
_FILES = {
  "readme.md.jinja": "README.md",
  "init.py.jinja": "{name}/__init__.py",
  "model.py.jinja": "{name}/model.py",
  "data.py.jinja": "{name}/data.py",
  "experiment.gin.jinja": "configs/{name}.gin",
  "test.py.jinja": "tests/test_{name}.py",
}
_FOLDERS = ("configs", "out", "tests")  # beside the package, in a project


def main(argv: Sequence[str]) -> None:
  """Makes the project that is named, and says what to do next.

  Raises:
    SettingError: not one name was given, or it cannot be a project's.
    OutputError: the folder cannot be written.
  """
  if len(argv) != 2:
    raise errors.SettingError("Give one name for the project: python -m trainer.new my_project")
  command.require_local(argv[1], "The project")
  folder = pathlib.Path(argv[1])
  for path in create(folder):
    print(path)
  print(
    f"\nNext:\n  cd {shlex.quote(str(folder))}\n"
    f"  python -m trainer.main --gin_file=configs/{folder.name}.gin --model_dir=out/first\n"
    "  python -m pytest tests"
  )


def create(folder: pathlib.Path) -> list[pathlib.Path]:
  """Makes a project.

  Args:
    folder: which must not be there yet. Its name is that of the project's package.

  Returns:
    The files.

  Raises:
    SettingError: the name cannot be that of a package, or hides another one; or the folder is
      there.
    OutputError: it cannot be written.
  """
  check_name(folder.name)
  if folder.exists():
    raise errors.SettingError(f"{folder} is there already: give another name, or remove it.")
  aside = folder.with_name(f"{folder.name}.writing-{os.getpid()}")
  try:
    made = [_write(aside, template, path, folder.name) for template, path in _FILES.items()]
    aside.rename(folder)
  except OSError as error:
    shutil.rmtree(aside, ignore_errors=True)
    raise errors.OutputError(f"The project cannot be written to {folder}: {error}") from error
  return [folder / path.relative_to(aside) for path in made]


def check_name(name: str) -> None:
  """Raises SettingError unless a name can be that of a package, and none has it yet."""
  if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
    raise errors.SettingError(
      f"{name!r} cannot be the name of a package: expected lower-case letters, digits and _, such "
      "as my_project."
    )
  found = importlib.util.find_spec(name)
  if found is not None or name in _FOLDERS:
    origin = next(iter((found and found.submodule_search_locations) or ()), None)
    where = origin or (found and found.origin) or "a folder of every project"
    raise errors.SettingError(
      f"{name} is taken ({where}): Python would import one of the two and hide the other. Give the "
      "project a name of its own."
    )


def _write(folder, template, path, name):
  target = folder / path.format(name=name)
  target.parent.mkdir(parents=True, exist_ok=True)
  source = (_TEMPLATES / template).read_text(encoding="utf-8")
  made = jinja2.Template(source, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
  target.write_text(made.render(name=name), encoding="utf-8")
  return target
