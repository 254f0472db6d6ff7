"""Tests Octet with each declared TensorFlow, the oldest and newest fitting Keras, and each Python.

    python -m tests.slow.versions                                  all corners, one after another
    python -m tests.slow.versions --only=2.18 --only=2.19
    python -m tests.slow.versions --python=/usr/bin/python3.12 --quick --keep=out/versions

For each TensorFlow and Python it makes an environment with `pip install '.[cpu,test]'` and these
versions. There it runs, with the newest Keras and then with the oldest,

1. the README's first command, from the installed package, which must reach more than 97 % of the
  digits;
2. the tests of private names, of hostile gin files, and of the checkpoints that version
  0.1.0 wrote under Keras 3.15: restored, evaluated, predicted from, trained on, on one core and on
  eight, to the values of then. With --conformance also the conformance tests, half an hour of a
  core for each environment.

The first Python runs with every TensorFlow; each other Python with its oldest TensorFlow, and with
the newest. It prints the table of docs/versions.md.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from packaging.requirements import Requirement
from packaging.version import Version

from tests import declared

TENSORFLOWS = ("2.18", "2.19", "2.20", "2.21")
PYTHONS = ("3.11", "3.12", "3.13")
FIRST_TENSORFLOW = {"3.13": "2.20"}  # Python → its first TensorFlow, or all
TESTS = (
  "tests/trainer/internals/test_keras_internals.py",
  "tests/trainer/internals/test_tensorflow_internals.py",
  "tests/golden/test_programs.py",
  "tests/trainer/config/test_trust.py",
)
CONFORMANCE = ("tests/conformance",)


@dataclasses.dataclass
class Result:
  """A line of the table."""

  python: str
  tensorflow: str = ""
  keras: str = ""
  command: str = ""
  tests: str = ""

  @property
  def is_good(self) -> bool:
    return self.command.endswith("%") and "failed" not in self.tests and "error" not in self.tests


class Environment:
  """A Python with a TensorFlow.

  Args:
    folder: the environment's folder.
    python: the interpreter.
    tensorflow: such as "2.18".
    wheel: Octet's wheel.
  """

  def __init__(self, folder: pathlib.Path, python: str, tensorflow: str, wheel: pathlib.Path):
    self.python = str(folder / "bin" / "python")
    _run([python, "-m", "venv", folder])
    # An environment from an earlier run gets this wheel and the newest Keras too.
    self._install("--force-reinstall", "--no-deps", str(wheel))
    self._install(f"{wheel}[cpu,test]", f"tensorflow-cpu=={tensorflow}.*")
    self._install("--upgrade", str(declared.requirements()["keras"]))

  def _install(self, *requirements: str) -> None:
    # Compiling all of TensorFlow takes longer than importing the used part.
    _run([self.python, "-m", "pip", "install", "-q", "--no-compile", *requirements])

  def use_oldest_keras(self) -> bool:
    """Installs the oldest Keras; returns whether it differs from the newest, installed first."""
    before = self.version("keras")
    code = "import importlib.metadata as m; print('\\n'.join(m.requires('tensorflow-cpu')))"
    needs = next(r for r in map(Requirement, self.output(code).splitlines()) if r.name == "keras")
    oldest = max(map(declared.lowest, (needs, declared.requirements()["keras"])), key=Version)
    self._install(f"keras=={oldest}.*" if oldest.count(".") < 2 else f"keras=={oldest}")
    return self.version("keras") != before

  def version(self, package: str) -> str:
    return self.output(f"import importlib.metadata as m; print(m.version({package!r}))")

  def output(self, code: str) -> str:
    done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()

  def try_out(self, tests: tuple[str, ...]) -> Result:
    versions = [self.output("import platform; print(platform.python_version())")]
    versions += [self.version(name) for name in ("tensorflow-cpu", "keras")]
    result = Result(*versions, command=self._first_command())
    if tests:
      result.tests = self._tests(tests)
    return result

  def _first_command(self) -> str:
    """Returns the command's final accuracy, or its failure."""
    text = (declared.ROOT / "README.md").read_text()
    (line,) = re.findall(r"^\S*python (-m trainer\.main .*)$", text, re.M)[:1]
    with tempfile.TemporaryDirectory() as folder:
      run = _captured([self.python, *line.split()], cwd=folder)
    found = re.findall(r"accuracy = ([\d.]+)", run)
    if not found or float(found[-1]) < 0.97:
      print(run)
      return "failed: " + (run.splitlines() or [""])[-1][:80]
    return f"{100 * float(found[-1]):.1f} %"

  def _tests(self, tests: tuple[str, ...]) -> str:
    """Returns pytest's last line."""
    command = [self.python, "-m", "pytest", "-n", "0", "-q", "--timeout=900", *tests]
    run = _captured(command, cwd=declared.ROOT, PYTHONPATH=str(declared.ROOT))
    last = (run.splitlines() or [""])[-1]
    if " failed" in last or " error" in last or " passed" not in last:
      print(run)
    return re.sub(r" in .*| warnings?|\x1b\[\d+m|, \d+ warnings?", "", last)


def _captured(command, cwd, **environment):
  run = subprocess.run(
    command,
    cwd=cwd,
    env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  return run.stdout


def _run(command):
  print("$", *command, flush=True)
  subprocess.run(list(map(str, command)), check=True)


def interpreters(given: list[str]) -> dict[str, str]:
  """Returns path by "3.11": the given Pythons, or those on PATH."""
  found = {}
  for path in [*filter(None, (shutil.which(f"python{name}") for name in PYTHONS)), *given]:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    run = subprocess.run([path, "-c", code], capture_output=True, text=True, check=path in given)
    if run.returncode == 0:  # PATH may have a stub that reports a missing Python
      found[run.stdout.strip()] = path
  return {name: found[name] for name in PYTHONS if name in found}


def corners(pythons: dict[str, str], only: list[str]) -> list[tuple[str, str]]:
  """Returns (Python, TensorFlow) of each environment."""
  first, *others = pythons
  found = [(first, tensorflow) for tensorflow in TENSORFLOWS]
  for python in others:
    oldest = FIRST_TENSORFLOW.get(python, TENSORFLOWS[0])
    found += [(python, oldest), (python, TENSORFLOWS[-1])]
  return [corner for corner in found if not only or corner[1] in only]


def table(results: list[Result]) -> str:
  lines = ["| Python | TensorFlow | Keras | digits | tests |", "|---|---|---|---|---|"]
  lines += [f"| {' | '.join(dataclasses.astuple(result))} |" for result in results]
  return "\n".join(lines) + "\n"


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--python", action="append", default=[], help="an interpreter")
  parser.add_argument("--only", action="append", default=[], help="a TensorFlow, such as 2.18")
  parser.add_argument("--quick", action="store_true", help="the first command alone")
  parser.add_argument("--conformance", action="store_true", help="the conformance tests too")
  parser.add_argument("--keep", type=pathlib.Path, help="a folder for the environments")
  arguments = parser.parse_args()
  pythons = interpreters(arguments.python)
  tests = () if arguments.quick else (*TESTS, *(CONFORMANCE if arguments.conformance else ()))
  results = []
  with tempfile.TemporaryDirectory() as scratch:
    wheels = pathlib.Path(scratch, "wheel")
    pip = [next(iter(pythons.values())), "-m", "pip", "wheel", "-q", "--no-deps"]
    _run([*pip, "-w", wheels, declared.ROOT])
    (wheel,) = wheels.iterdir()
    for python, tensorflow in corners(pythons, arguments.only):
      folder = (arguments.keep or pathlib.Path(scratch)).absolute() / f"{python}-{tensorflow}"
      environment = Environment(folder, pythons[python], tensorflow, wheel)
      results.append(environment.try_out(tests))
      if environment.use_oldest_keras():
        results.append(environment.try_out(tests))
      if not arguments.keep:
        shutil.rmtree(folder)
      print(table(results), flush=True)
  sys.exit(not all(result.is_good for result in results))


if __name__ == "__main__":
  main()
