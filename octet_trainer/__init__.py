"""Octet's second package: commands for programs with their own module `trainer`.

An installed Octet has its models, input pipelines and gin files in here too.

Python searches a program's folder, or the working directory, before everything installed: a file
trainer.py there hides Octet's package. `import_octet` finds Octet's package by its place instead.
"""

import importlib.util
import pathlib
import sys

OCTET = pathlib.Path(__file__).resolve().parents[1] / "trainer"


def import_octet() -> None:
  """Imports Octet's package as `trainer`, regardless of earlier folders on the path."""
  spec = importlib.util.spec_from_file_location(
    "trainer", OCTET / "__init__.py", submodule_search_locations=[str(OCTET)]
  )
  assert spec is not None
  assert spec.loader is not None
  sys.modules["trainer"] = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(sys.modules["trainer"])
