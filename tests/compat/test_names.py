"""The tables of trainer.compat.v1 and v2: each entry can be imported and has what it says."""

import importlib
import importlib.util
import pathlib
import re
import sys
import types

import pytest

import trainer
from docs.tools import architecture, syntax
from trainer.compat import v1, v2
from trainer.compat.names import absent, modules

TABLES = {"trainer.compat.v1": v1.MODULES, "trainer.compat.v2": v2.MODULES}
NEEDS = {"hub": "tensorflow_hub"} | {
  public: "tf_slim" for public in v1.MODULES if public.startswith("contrib.slim.nets")
}


@pytest.mark.parametrize(
  ("package", "public"), [(package, public) for package in TABLES for public in TABLES[package]]
)
def test_a_module_has_the_names_that_its_entry_says(package, public):
  entry = TABLES[package][public]
  full = f"{package}.{public}".rstrip(".")
  module = importlib.import_module(full)
  missing = public in NEEDS and importlib.util.find_spec(NEEDS[public]) is None
  for name in (*entry.homes, *entry.constants):
    if not missing or public == "hub":
      assert getattr(module, name) is not None
  if not missing:
    assert {*entry.homes, *entry.constants} <= set(dir(module))
  for one in entry.own:
    assert modules._public(modules._module(one)).items() <= vars(module).items()


def test_the_packages_of_names_have_no_files_but_their_tables():
  compat = pathlib.Path(trainer.__file__).parent / "compat"
  found = [path.name for package in ("v1", "v2") for path in (compat / package).rglob("*.py")]
  assert found == ["__init__.py", "__init__.py"]


@pytest.fixture
def imported():
  """What is imported beside what was is forgotten at the end: others look into each module."""
  before = set(sys.modules)
  yield
  for name in set(sys.modules) - before:
    if name.startswith("trainer.compat.v3"):
      del sys.modules[name]


@pytest.mark.usefixtures("imported")
def test_a_table_makes_modules_and_says_why_there_is_no_other(monkeypatch):
  package = types.ModuleType("trainer.compat.v3")
  package.__path__ = []
  monkeypatch.setitem(modules.sys.modules, package.__name__, package)
  monkeypatch.setattr(modules, "_tables", dict(modules._tables))
  package.__getattr__, package.__dir__ = modules.add(
    package.__name__,
    {
      "": modules.Names("math", version="3"),
      "numbers": modules.Names(".graph_mode.notes", homes={"math": "e tau whole=pi"}),
    },
  )
  assert (package.version, package.pi, package.numbers.whole) == ("3", package.pi, package.pi)
  assert dir(package.numbers)[-4:] == ["e", "tau", "tell_of_unused", "whole"]
  with pytest.raises(absent.AbsentNameError, match="trainer.compat.v3 has no numbers.pi"):
    _ = package.numbers.pi
  with pytest.raises(absent.AbsentModuleError, match="trainer.compat.v3 has no letters"):
    importlib.import_module("trainer.compat.v3.letters")


def rooms():
  """The rooms of compat from the bottom to the top, as docs/architecture.md names them."""
  table = architecture.PAGE.read_text().partition("## The rooms of `compat/`")[2]
  cells = [line.split("|")[1] for line in table.partition("\n## ")[0].splitlines() if "`" in line]
  return [name for cell in cells for name in re.findall(r"`(\w+)/`", cell)]


def test_rooms_import_from_rooms_below_them():
  order = rooms()
  compat = pathlib.Path(trainer.__file__).parent / "compat"
  assert sorted(order) == sorted(path.parent.name for path in compat.glob("*/__init__.py"))
  upwards = [
    f"{path}: {module}"
    for room in order
    for path in (compat / room).rglob("*.py")
    for module in syntax.imported(path.read_text())
    if module.startswith("trainer.compat.")
    and order.index(module.split(".")[2]) > order.index(room)
  ]
  assert upwards == []
