"""What setup.py declares."""

import functools
import pathlib
import runpy
from unittest import mock

from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]


@functools.cache
def arguments() -> dict:
  """What setup.py gives to setuptools.setup."""
  with mock.patch("setuptools.setup") as setup:
    runpy.run_path(str(ROOT / "setup.py"))
  return setup.call_args.kwargs


def requirements(*extras: str) -> dict[str, Requirement]:
  """By name, those of the package and of these extras."""
  found = arguments()
  texts = [
    *found["install_requires"],
    *(each for name in extras for each in found["extras_require"][name]),
  ]
  return {requirement.name: requirement for requirement in map(Requirement, texts)}


def lowest(requirement: Requirement) -> str:
  """The version from which on it is declared."""
  (version,) = [each.version for each in requirement.specifier if each.operator in (">=", "==")]
  return version
