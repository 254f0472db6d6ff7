"""What the package promises to export is there."""

import trainer


def test_every_public_name_loads():
  for name in trainer.__all__:
    assert getattr(trainer, name) is not None
    assert name in dir(trainer)


def test_public_names_are_not_those_of_modules():
  """A module that is imported takes its name in the package."""
  for name in trainer.__all__:
    assert type(getattr(trainer, name)).__name__ != "module"
