"""Gin files are found, expanded and checked before anything is imported."""

import contextlib
import io

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer import errors
from trainer.config import files

WHOLE = """import a.b
SIZE = 3
net.fn.sizes = [1, (2.5, -3), {'k': "it's", 4: None}]
train/net.fn.make = @scope/maker.make()
net.fn.size = %SIZE
block.fn:
  x = 1
  # between
  y = @z
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  return tmp_path


def bindings(file):
  return {
    (s.scope, s.selector, s.arg_name): s.value
    for s in file.statements
    if isinstance(s, files.config_parser.BindingStatement)
  }


def test_statements_are_read_in_order_with_includes_in_place(folder):
  (folder / "base.gin").write_text("net.fn.x = 1\n", encoding="utf-8-sig")
  (folder / "top.gin").write_text("import a\ninclude 'base.gin'\nnet.fn.x = 2\n")
  statement, base, binding = files.read("top.gin").statements
  assert statement.module == "a"
  assert (base.name, bindings(base)) == ("base.gin", {("", "net.fn", "x"): 1})
  assert binding.value == 2
  assert files.place(binding.location) == "top.gin:3"


def test_references_stay_as_written():
  found = bindings(files.parse(WHOLE))
  assert found["train", "net.fn", "make"] == files.Reference("scope/maker.make", True)
  assert found["", "net.fn", "size"] == files.Macro("SIZE")
  assert found["", "block.fn", "y"] == files.Reference("z", False)


def test_a_file_is_found_where_the_packages_are_installed(folder, monkeypatch):
  installed = folder / "installed"
  (installed / "gin_configs").mkdir(parents=True)
  (installed / "gin_configs" / "a.gin").write_text("include 'gin_configs/b.gin'\nX = 'installed'\n")
  (installed / "gin_configs" / "b.gin").write_text("Y = 1\n")
  monkeypatch.setattr(files, "SHIPPED", installed)
  assert bindings(files.read("gin_configs/a.gin")) == {("", "X", ""): "installed"}
  (folder / "gin_configs").mkdir()
  (folder / "gin_configs" / "a.gin").write_text("X = 'here'\n")
  assert bindings(files.read("gin_configs/a.gin")) == {("", "X", ""): "here"}


def test_missing_file_error_lists_searched_places_and_near_names(folder, monkeypatch):
  (folder / "gin_configs").mkdir()
  (folder / "gin_configs" / "digits.gin").write_text("")
  monkeypatch.setattr(files, "SHIPPED", folder)
  for given_path in ("gin_configs/digts.gin", "digits.gin", "configs/digits.gin"):
    with pytest.raises(errors.SettingError, match="Did you mean gin_configs/digits.gin?") as raised:
      files.read(given_path)
    assert f"no gin file {given_path}" in str(raised.value)
    assert str(folder) in str(raised.value)


def test_a_missing_include_names_the_line_that_includes_it(folder):
  (folder / "top.gin").write_text("\ninclude 'nowhere.gin'\n")
  with pytest.raises(errors.SettingError, match=r"nowhere.gin \(included at top.gin:2\)"):
    files.read("top.gin")


def test_a_file_that_includes_itself_is_told(folder):
  (folder / "a.gin").write_text("include 'b.gin'\n")
  (folder / "b.gin").write_text("include 'a.gin'\n")
  with pytest.raises(errors.SettingError, match="a.gin:1 → b.gin:1 → a.gin"):
    files.read("a.gin")


@pytest.mark.parametrize(
  ("name", "make", "message"),
  [
    ("folder.gin", lambda path: path.mkdir(), "is a folder"),
    ("bytes.gin", lambda path: path.write_bytes(b"\xff\xfe\x00"), "is not a text file"),
  ],
)
def test_what_cannot_be_read_is_told(folder, name, make, message):
  make(folder / name)
  with pytest.raises(errors.SettingError, match=message):
    files.read(name)


def test_addresses_are_read_by_tensorflow(monkeypatch):
  def remote(path, mode):
    if (path, mode) != ("gs://bucket/a.gin", "rb"):
      raise tf.errors.NotFoundError(None, None, "The specified object does not exist.")
    return io.BytesIO(b"\xef\xbb\xbfX = 1\n")

  monkeypatch.setattr(tf.io.gfile, "GFile", remote)
  assert bindings(files.read("gs://bucket/a.gin")) == {("", "X", ""): 1}
  with pytest.raises(
    errors.SettingError,
    match=r"gs://bucket/b.gin: The specified object does not "
    r"exist",
  ):
    files.read("gs://bucket/b.gin")


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("run.x = test", r"a.gin:2: test is not a value: strings need quotes \(.test.\)"),
    ("run.x = true", r"a.gin:2: true is not a value: .*True, False and None"),
    ("run.x 3", r"a.gin:2: Couldn't parse statement"),
    ("run.x =", r"a.gin:2: Unable to parse value"),
    ("run.x = 1 2", r"a.gin:2: Expected newline"),
    ("run.x = [1,\n", r"a.gin:\d+: .*bracket or a quote"),
    ("run.x = {[1]: 2}", r"a.gin:2: .*unhashable"),
    ("run:\n  x = 1\n y = 2", r"a.gin:\d: "),
  ],
)
def test_a_syntax_error_has_file_line_and_text(text, message):
  with pytest.raises(errors.SettingError, match=message):
    files.parse(f"# comment\n{text}\n", "a.gin")


def test_a_syntax_error_on_the_command_line_shows_what_was_given():
  with pytest.raises(
    errors.SettingError, match="--gin_bindings: Unable to parse value.\n  run.steps ="
  ):
    files.parse("run.steps = ")


@settings(deadline=None)  # which would measure the machine
@given(
  st.integers(0, len(WHOLE)),
  st.sampled_from(["", "$", "'", "[", "=", "@", "%", "/", "\\", "\t", "é", "()"]),
)
def test_nothing_but_a_setting_error_comes_of_broken_text(position, extra):
  with contextlib.suppress(errors.SettingError):
    files.parse(WHOLE[:position] + extra, "a.gin")
