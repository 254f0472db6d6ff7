"""The flag --model."""

import re

import pytest

from trainer import errors
from trainer.serving import served_names


def test_models_are_read():
  found = served_names.parse_models(["cats=out/cats", "dogs=out/dogs"])
  assert found == {"cats": "out/cats", "dogs": "out/dogs"}


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    (["cats"], "--model=cats: expected NAME=DIR, as cats=out/cats/export."),
    (["a/b=out"], "--model=a/b=out: expected letters, digits, dots and dashes."),
    (["cats=a", "cats=b"], "--model=cats=b: cats is a already."),
  ],
)
def test_models_that_cannot_be_served(flags, message):
  with pytest.raises(errors.SettingError, match=f"^{re.escape(message)}$"):
    served_names.parse_models(flags)
