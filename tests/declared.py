"""What setup.py declares, and what commands take."""

import functools
import pathlib
import re
import runpy
from unittest import mock

from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]


# Which file defines a command's flags.
COMMANDS = {
  "trainer.main": "trainer/main.py",
  "trainer.serve": "trainer/serving/serve_main.py",
  "trainer.sweep": "trainer/sweep/main.py",
  "trainer.checkpoints": "trainer/checkpoints/main.py",
  "trainer.compare": "trainer/compare/main.py",
  "trainer.data_service": "trainer/inputs/data_service_main.py",
  "trainer.devices": "trainer/devices/main.py",
  "trainer.new": "trainer/new/main.py",
  "trainer.pjrt": "trainer/pjrt/main.py",
  "trainer.plot": "trainer/plot/main.py",
  "trainer.predict": "trainer/serving/predict_main.py",
  "trainer.preflight": "trainer/preflight/main.py",
  "trainer.reproduce": "trainer/reproduce.py",
  "trainer.sweep_report": "trainer/sweep/report_main.py",
  "trainer.tune": "trainer/tune/main.py",
}


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


def flags_of(command: str) -> set[str]:
  """The names of a command's flags, but for --debug, which all have."""
  source = (ROOT / COMMANDS[command]).read_text()
  for shared in re.findall(r"adopt_module_key_flags\((\w+)\)", source):
    (path,) = (ROOT / "trainer").rglob(f"{shared}.py")
    source += path.read_text()
  own = re.findall(r'flags\.DEFINE_\w+\(\s*"(\w+)"', source)
  return {*own, *re.findall(r"run_flags\.define_(\w+)\(", source)}
