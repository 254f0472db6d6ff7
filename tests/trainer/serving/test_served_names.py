"""The flags --model and --version_label."""

import re

import pytest

from trainer import errors
from trainer.serving import served_names

MODELS = {"cats": "out/cats", "dogs": "out/dogs"}


def test_models_and_labels_are_read():
  assert served_names.parse_models(["cats=out/cats", "dogs=out/dogs"]) == MODELS
  assert served_names.parse_labels(["cats/stable=17", "dogs/stable=18"], MODELS) == {
    ("cats", "stable"): "17",
    ("dogs", "stable"): "18",
  }


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


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    (["cats/new=x"], "--version_label=cats/new=x: expected NAME/LABEL=VERSION, as cats/stable="),
    (["ants/new=1"], "--version_label=ants/new=1: there is no model ants; there is cats, dogs."),
    (["cats/a=1", "cats/a=2"], "--version_label=cats/a=2: a is version 1 already."),
  ],
)
def test_labels_that_cannot_be_served(flags, message):
  with pytest.raises(errors.SettingError, match=f"^{re.escape(message)}"):
    served_names.parse_labels(flags, MODELS)
