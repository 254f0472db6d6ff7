"""Skips tests of a runtime that is not installed."""

import pytest

from trainer import errors
from trainer.pjrt import installed


def require_jax():
  """Skips a test, or at the top of a module all of its tests, where jax cannot be used."""
  try:
    installed.require()
  except errors.VersionError as error:
    pytest.skip(str(error), allow_module_level=True)
