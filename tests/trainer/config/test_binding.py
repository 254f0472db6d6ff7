"""Mistakes in gin are told in a sentence or two, with the line and near names."""

import sys

import gin
import pytest

from tests.trainer import configurables
from trainer import config, errors
from trainer.config import files

IMPORT = f"import {configurables.__name__}"


def load(text, modules=(".",)):
  config.load([], [f"{IMPORT}\n{text}"], root=None, modules=modules)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (
      "points.inptu_fn.split = 'a'",
      r"no configurable has the name points\.inptu_fn\. Did you mean "
      r"points\.input_fn\?",
    ),
    (
      "line.model_fn.optimizer = @Momentun()",
      r"no configurable has the name Momentun\. Did you mean "
      r"Momentum\?",
    ),
    (
      "optimize.Momentun:\n  rate = 1",
      r"no configurable has the name optimize\.Momentun\. Did you "
      r"mean optimize\.Momentum",
    ),
    (
      "line.model_fn.optimizer = [{'a': @nothing.like.it}]",
      r"no configurable has the name "
      r"nothing\.like\.it\. Does the gin "
      r"file import the module",
    ),
    (
      "points.input_fn.splt = 'a'",
      r"points\.input_fn has no parameter splt\. Did you mean "
      r"split\?",
    ),
    (
      "points.input_fn.zzz = 'a'",
      r"points\.input_fn has no parameter zzz\. It has: params, split, "
      r"training\.",
    ),
    ("layer.units = 1", r"layer is ambiguous: write one of line\.layer, other\.layer\."),
    ("start.model_dir = 'a'", r"gin cannot set start\.model_dir: give the flag --model_dir"),
    (
      "import models.digits_mpl",
      r"there is no module models\.digits_mpl\. Did you mean "
      r"models\.digits_mlp",
    ),
    ("import surely_not_there.at_all", r"there is no module surely_not_there\.at_all\."),
    (
      "from __gin__ import dynamic_registration\nimport math",
      "Dynamic registration should be enabled before",
    ),
  ],
)
def test_the_message_names_what_was_given_and_what_to_write(text, message):
  with pytest.raises(errors.SettingError, match=f"^--gin_bindings: {message}"):
    load(text)


def test_the_message_has_file_and_line(tmp_path):
  path = tmp_path / "a.gin"
  path.write_text(f"{IMPORT}\n\npoints.input_fn:\n  split = 'a'\n  traning = True\n")
  with pytest.raises(
    errors.SettingError,
    match=r"a\.gin:5: points\.input_fn has no parameter "
    r"traning\. Did you mean training\?",
  ):
    config.load([path], root=None)


def test_a_module_that_fails_is_told_with_the_line_that_failed(tmp_path, monkeypatch):
  (tmp_path / "module_that_fails.py").write_text("x = 1\nx.y\n")
  (tmp_path / "module_that_lacks.py").write_text("import surely_not_there\n")
  (tmp_path / "module_that_explains.py").write_text(
    "from trainer import errors\nraise errors.SettingError('Set this.')\n"
  )
  monkeypatch.syspath_prepend(tmp_path)
  with pytest.raises(
    errors.SettingError,
    match=r"cannot import .*\. AttributeError: 'int' .* "
    r"\(module_that_fails\.py:2\)",
  ) as raised:
    load("import module_that_fails", modules=None)
  assert isinstance(raised.value.__cause__, AttributeError)
  with pytest.raises(
    errors.SettingError,
    match=r"cannot import module_that_lacks\. "
    r"ModuleNotFoundError: No module named "
    r"'surely_not_there'",
  ):
    load("import module_that_lacks", modules=None)
  with pytest.raises(errors.SettingError, match=r"^Set this\.$"):
    load("import module_that_explains", modules=None)


@pytest.mark.parametrize("code", ["sys.exit(3)", "sys.exit('no')", "raise SystemExit(3)"])
def test_a_module_that_ends_the_program_is_told(code, tmp_path, monkeypatch):
  (tmp_path / "module_that_exits.py").write_text(f"import sys\n{code}\n")
  (tmp_path / "a.gin").write_text("\nimport module_that_exits\n")
  monkeypatch.syspath_prepend(tmp_path)
  with pytest.raises(
    errors.SettingError,
    match=r"a\.gin:2: cannot import module_that_exits: it ends the program, by "
    r"sys\.exit\((3|'no')\) in module_that_exits\.py:2\. Is it a script\?",
  ):
    config.load([tmp_path / "a.gin"], root=None, modules=None)


def test_a_model_that_is_not_imported_is_told_by_its_import(tmp_path, monkeypatch):
  (tmp_path / "models").mkdir()
  (tmp_path / "models" / "lonely_net.py").write_text("")
  monkeypatch.setattr(files, "SHIPPED", tmp_path)
  with pytest.raises(
    errors.SettingError,
    match=r"has the name lonely_net\.model_fn\. Add `import "
    r"models\.lonely_net` to the gin file",
  ):
    load("start.model_fn = @lonely_net.model_fn")
  monkeypatch.setitem(sys.modules, "models.lonely_net", object())
  with pytest.raises(
    errors.SettingError,
    match=r"has the name lonely_net\.model_fn\. Did you "
    r"mean (\w+\.model_fn or )?line\.model_fn",  # or a model that another test has imported
  ):
    load("start.model_fn = @lonely_net.model_fn")


def test_an_allowlist_is_told():
  gin.configurable("only_rate", module="allow", allowlist=["rate"])(lambda rate, other: None)
  with pytest.raises(
    errors.SettingError, match=r"allow\.only_rate has no parameter other\. It has: rate\."
  ):
    load("allow.only_rate.other = 1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """A working directory, from which `python -m` imports first."""
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(tmp_path)
  return tmp_path


def test_file_for_installed_octet_finds_modules_of_a_clone():
  text = "import octet_trainer.models.digits_mlp\nx/digits_mlp.model_fn.dropout = 0.5"
  config.load([], [text], root=None)
  assert "octet_trainer" not in sys.modules
  assert "import models.digits_mlp" in config.parsed_text()


def test_a_package_without_init_is_found(folder):
  (folder / "without_init").mkdir()
  (folder / "without_init" / "mine.py").write_text(
    "import gin\n@gin.configurable\ndef of_a_package_without_init(x=1): pass\n"
  )
  text = "import without_init.mine\nof_a_package_without_init.x = 2"
  config.load([], [text], root=None)
  with pytest.raises(errors.SettingError, match=r"no module without_init\.other\."):
    config.load([], ["import without_init.other"], root=None)
