"""The flags of gin files: what they load, and in which order."""

import pytest

from tests.trainer import mains
from trainer.config import loading

NAME = "trainer.config.gin_flags"


@pytest.mark.parametrize(
  ("flags", "more", "expected"),
  [
    ([], (), ([], [], ["octet_trainer"])),
    (
      ["--gin_file=a.gin", "--gin_file=b,c.gin", "--gin_bindings=X = (1, 2)", "--gin_modules=m,n"],
      ("d.gin",),
      (["a.gin", "b,c.gin", "d.gin"], ["X = (1, 2)"], ["m", "n"]),
    ),
  ],
)
def test_files_come_in_their_order_and_then_bindings(monkeypatch, flags, more, expected):
  calls = []
  monkeypatch.setattr(
    loading, "load", lambda files, bindings, modules: calls.append((files, bindings, modules))
  )
  with mains.loaded(NAME, *flags) as found:
    found.load(more)
    assert calls == [(expected[0], expected[1], [found.trust.FOLDER] if not flags else expected[2])]
