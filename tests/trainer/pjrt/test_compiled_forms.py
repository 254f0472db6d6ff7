"""Compiled forms come back whole for their program and key, or not at all. No jax is needed."""

import os
import pathlib

import pytest

from trainer import errors
from trainer.pjrt import compiled_forms

KEY = {"platform": "cpu", "jaxlib": "0.10.2"}


@pytest.fixture
def forms(tmp_path):
  forms = compiled_forms.CompiledForms(tmp_path / "new" / "compiled")
  forms.add("a", KEY, b"machine\ncode")
  return forms


def file_of(forms):
  (path,) = forms.folder.iterdir()
  return path


def test_a_form_is_for_its_program_and_its_key(forms):
  assert forms.find("a", dict(reversed(KEY.items()))) == (b"machine\ncode", "")
  assert forms.find("b", KEY) == (None, "the folder has compiled forms of other programs")
  why = "the compiled form is for another jaxlib (0.10.2, here 0.8.1)"
  assert forms.find("a", {**KEY, "jaxlib": "0.8.1"}) == (None, why)
  empty = compiled_forms.CompiledForms(forms.folder.parent)
  assert empty.find("a", KEY) == (None, "the folder has no compiled form")


def test_why_is_told_by_the_nearest_form_of_the_program(forms):
  forms.add("a", {"platform": "tpu", "jaxlib": "0.8.1"}, b"another")
  forms.add("b", {"platform": "gpu", "jaxlib": "0.10.2"}, b"of another program")
  (forms.folder / "x.compiled").write_bytes(b"foreign")
  why = "the compiled form is for another platform (cpu, here gpu)"
  assert forms.find("a", {**KEY, "platform": "gpu"}) == (None, why)


@pytest.mark.parametrize(
  "damage, why",
  [
    (lambda content: content[:-1], "does not have its checksum"),
    (lambda content: content[:20], "is damaged"),
    (lambda content: b"", "is damaged"),
    (lambda content: b"\xff\xfe machine code", "is damaged"),
    (lambda content: b'{"key": {}}\n', "is damaged"),
    (lambda content: content.replace(b'"a"', b'"b"'), "of another program"),
  ],
  ids=["cut", "cut in the line", "empty", "foreign", "another line", "of another name"],
)
def test_a_damaged_form_is_told_and_can_be_written_anew(forms, damage, why):
  path = file_of(forms)
  path.write_bytes(damage(path.read_bytes()))
  with pytest.raises(errors.FileDamagedError, match=f"{path.name}.*{why}.*the next run compiles"):
    forms.find("a", KEY)
  forms.add("a", KEY, b"again")
  assert forms.find("a", KEY) == (b"again", "")


def test_failed_write_of_a_form_leaves_the_former_form(forms, monkeypatch):
  def half(path, content):
    with path.open("wb") as file:
      file.write(content[:5])
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(pathlib.Path, "write_bytes", half)
  with pytest.raises(errors.OutputError, match="No space left on device"):
    forms.add("a", KEY, b"another")
  monkeypatch.undo()
  assert file_of(forms).suffix == ".compiled"
  assert forms.find("a", KEY) == (b"machine\ncode", "")


def test_a_writer_does_not_touch_what_another_one_is_writing(forms, monkeypatch):
  """A second process writes the same form while the first one is at it."""
  write = pathlib.Path.write_bytes

  def write_slowly(path, content):
    write(path, content[:5])
    monkeypatch.setattr(pathlib.Path, "write_bytes", write)
    monkeypatch.setattr(compiled_forms.os, "getpid", lambda: 1)
    forms.add("a", KEY, b"of the second")
    assert forms.find("a", KEY) == (b"of the second", "")
    write(path, content)

  monkeypatch.setattr(pathlib.Path, "write_bytes", write_slowly)
  forms.add("a", KEY, b"of the first")
  assert forms.find("a", KEY) == (b"of the first", "")
  assert file_of(forms).suffix == ".compiled"


def test_the_cache_of_a_user_keeps_what_was_used_last(tmp_path, monkeypatch):
  monkeypatch.setenv("OCTET_CACHE", str(tmp_path))
  forms = compiled_forms.in_folder(compiled_forms.AUTO)
  assert forms.folder == tmp_path / "compiled"
  for number, name in enumerate("abc"):
    forms.add(name, KEY, b"machine code")
    path = forms._path(name, KEY)
    size = path.stat().st_size
    os.utime(path, (number, number))
  assert forms.find("a", KEY)[0]  # which is its use
  limited = compiled_forms.CompiledForms(forms.folder, 3 * size)
  limited.add("d", KEY, b"machine code")
  assert [forms.has(name, KEY) for name in "abcd"] == [True, False, True, True]


def test_a_folder_that_is_named_has_no_limit(tmp_path):
  forms = compiled_forms.in_folder(str(tmp_path))
  assert forms.folder == tmp_path
  assert forms._limit_bytes is None
