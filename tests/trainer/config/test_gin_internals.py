"""What Octet reads of gin's private parts, and how a name gives way to others."""

import ast
import copy
import fractions
import inspect
import math
import pathlib

import gin
import pytest

from trainer.config import files, gin_internals, gin_names

SOURCE = ast.parse(inspect.getsource(gin_internals))


def test_the_installed_gin_has_every_name_that_is_read():
  names = {
    node.attr
    for node in ast.walk(SOURCE)
    if isinstance(node, ast.Attribute)
    and isinstance(node.value, ast.Name)
    and node.value.id == "gin_config"
  }
  assert {"_REGISTRY", "_CONFIG", "_OPERATIVE_CONFIG", "_IMPORTS", "_parse_context"} < names
  assert sorted(name for name in names if not hasattr(gin.config, name)) == []


def test_every_function_has_a_test_here():
  tests = pathlib.Path(__file__).read_text()
  defined = [
    node.name
    for node in SOURCE.body
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
  ]
  assert len(defined) > 20
  assert [name for name in defined if f"gin_internals.{name}(" not in tests] == []


@pytest.fixture
def register(monkeypatch):
  """Registers a function of one parameter under a selector, until the test ends."""
  registry, selectors = gin.config._REGISTRY, []
  for name in ("ranks", "renamed"):
    monkeypatch.setattr(registry, name, dict(getattr(registry, name)))

  def put(selector, decorate=gin.configurable):
    module, _, name = selector.rpartition(".")
    selectors.append(selector)
    return decorate(name, module=module)(lambda size=1: size)

  yield put
  for selector in selectors:
    registry.pop(selector)


@pytest.fixture
def opened():
  """The scope of a gin file with dynamic registration that has imported math and fractions."""
  with gin_internals.file_scope() as scope:
    text = "from __gin__ import dynamic_registration\nimport math\nimport fractions\n"
    for statement in files.parse(text).statements:
      scope.process_import(statement)
    yield scope


# ------------------------------------------------------------- ranks and renaming


def test_a_short_name_that_fits_two_is_ambiguous(register):
  register("one.twin")
  register("two.twin")
  assert gin_internals.matching_selectors("twin") == ["one.twin", "two.twin"]
  with pytest.raises(KeyError):
    gin_internals.find("twin")


def test_what_stands_back_is_found_only_by_the_longer_name(register):
  register("one.twin")
  register("two.twin")
  gin_internals.stand_back("two.twin", 1)
  assert gin_internals.find("twin").selector == "one.twin"
  assert gin_internals.find("two.twin").selector == "two.twin"


def test_among_those_that_stand_back_the_lowest_rank_is_taken(register):
  gin_internals.stand_back("one.twin", 2)  # before it is registered
  gin_internals.stand_back("two.twin", 1)
  register("one.twin")
  assert gin_internals.find("twin").selector == "one.twin"
  register("two.twin")
  assert gin_internals.find("twin").selector == "two.twin"


def test_another_prefix_finds_what_it_stands_for(register):
  register("new.home.thing")
  gin_internals.rename("old.", "new.home.")
  assert gin_internals.find("old.thing").selector == "new.home.thing"
  assert gin_internals.find("old.other") is None
  assert gin_internals.find("very.old.thing") is None


def test_prefix_rename_yields_to_a_registered_name(register):
  register("new.home.thing")
  register("old.thing")
  gin_internals.rename("old.", "new.home.")
  assert gin_internals.find("old.thing").selector == "old.thing"


# -------------------------------------------------------------- who registered it


@pytest.mark.parametrize("decorate", [gin.configurable, gin_names.configurable])
def test_the_registrar_is_the_module_that_called(register, decorate):
  register("one.registered", decorate)
  assert gin_internals.registrar("one.registered") == __name__


def test_the_registrar_of_what_was_there_before_is_its_module():
  assert gin_internals.registrar("gin.macro") == "gin.config"


def test_a_gin_file_is_no_registrar(opened):
  found = gin_internals.find("fractions.Fraction")
  assert found.wrapped is fractions.Fraction
  assert gin_internals.registrar(found.selector) is None


# --------------------------------------------------------------- the scope of a file


def test_dynamic_registration_ends_with_its_file():
  assert not gin_internals.registers_dynamically()
  with gin_internals.file_scope() as scope:
    (statement,) = files.parse("from __gin__ import dynamic_registration\n").statements
    scope.process_import(statement)
    assert gin_internals.registers_dynamically()
  assert not gin_internals.registers_dynamically()


def test_a_file_has_what_it_imports_and_gin(opened):
  assert gin_internals.imported_symbol("math") is math
  assert gin_internals.imported_symbol("gin") is None
  with pytest.raises(NameError, match="'cmath' was not provided by an import"):
    gin_internals.imported_symbol("cmath")


def test_what_no_import_gives_is_an_error(opened):
  with pytest.raises(NameError, match="cmath"):
    gin_internals.find("cmath.sqrt")
  with pytest.raises(AttributeError, match="square_root"):
    gin_internals.find("math.square_root")


# -------------------------------------------------------------------------- bindings


def test_each_binding_has_its_scope_and_a_macro_is_a_scope(register):
  register("one.sized")
  gin.parse_config("SIZE = 3\na/b/one.sized.size = %SIZE\nsized.size = 4")
  found = dict(gin_internals.each_binding())
  assert list(found) == [
    ("SIZE", "gin.macro", "value"),
    ("a/b", "one.sized", "size"),
    ("", "one.sized", "size"),
  ]
  assert found["", "one.sized", "size"] == 4
  assert gin_internals.is_macro(found["a/b", "one.sized", "size"])


def test_operative_bindings_hold_nothing_a_caller_passed(register):
  sized = register("one.sized")
  sized(size=5)
  assert gin_internals.operative_bindings() == {("", "one.sized"): {}}
  sized()
  assert gin_internals.operative_bindings() == {("", "one.sized"): {"size": 1}}
  gin.parse_config("sized.size = 4")
  sized()
  assert gin_internals.operative_bindings() == {("", "one.sized"): {"size": 4}}


def test_what_took_effect_is_a_copy(register):
  register("one.sized")()
  gin_internals.operative_bindings()["", "one.sized"]["size"] = 2
  assert gin_internals.operative_bindings() == {("", "one.sized"): {"size": 1}}


def test_a_function_leads_to_its_configurable(register):
  sized = register("one.sized")
  assert gin_internals.configurable_of(sized) is gin_internals.configurable("one.sized")
  assert gin_internals.configurable_of(len) is None


# --------------------------------------------------------------- macros and constants


@pytest.fixture
def constant():
  """The complete name of a constant."""
  gin.constant("one.LIMIT", 3)
  yield "one.LIMIT"
  gin.config._CONSTANTS.pop("one.LIMIT")


def test_a_constant_is_told_from_a_macro(constant):
  kinds = {
    name: (gin_internals.is_macro(reference), gin_internals.is_constant(reference))
    for name in ("LIMIT", "OTHER")
    for reference in [gin_internals.macro_or_constant(name)]
  }
  assert kinds == {"LIMIT": (False, True), "OTHER": (True, False)}


def test_constants_are_found_by_their_last_parts(constant):
  assert gin_internals.constants("LIMIT") == [constant]
  assert gin_internals.constants("OTHER") == []
  assert constant in gin_internals.constants()


def test_gins_own_are_built_in_and_no_others(register):
  register("one.sized")
  own = {
    name: gin_internals.is_builtin(gin_internals.configurable(name))
    for name in ("gin.macro", "gin.constant", "gin.singleton", "one.sized")
  }
  assert own == {"gin.macro": True, "gin.constant": True, "gin.singleton": True, "one.sized": False}


# --------------------------------------------------------- what a binding is made of


def test_bindings_are_gins_own_and_not_a_copy(register):
  register("one.sized")
  gin.parse_config("a/one.sized.size = 3")
  assert gin_internals.bindings() == {("a", "one.sized"): {"size": 3}}
  gin_internals.bindings()["a", "one.sized"]["size"] = 4
  assert gin.query_parameter("a/one.sized.size") == 4


def test_all_that_is_registered_is_found(register):
  register("one.sized")
  assert {"gin.macro", "one.sized"} < set(gin_internals.all_selectors())


def test_a_constant_has_its_value(constant):
  assert gin_internals.value_of_constant(gin_internals.macro_or_constant(constant)) == 3


def test_a_checked_call_checks_what_gin_evaluates(register):
  register("one.sized")
  seen = []

  def check(call):
    seen.append(call())
    return seen[-1] + 1

  reference = gin_internals.CheckedCall("one.sized", check)
  assert seen == []
  assert copy.deepcopy(reference) == 2
  assert seen == [1]


def test_a_text_of_bindings_has_the_imports_that_it_needs():
  with gin_internals.file_scope() as scope:
    text = "from __gin__ import dynamic_registration\nimport fractions\n"
    for statement in files.parse(text).statements:
      scope.process_import(statement)
    known = gin_internals.find("fractions.Fraction")
  manager = gin_internals.import_manager([known])
  assert manager.minimal_selector(known) == "fractions.Fraction"
  assert "import fractions" in [each.format() for each in manager.sorted_imports]
