"""Runs what a guide says: its marked blocks, in order, in a copy of the repository.

  python tests/docs/guide.py docs/gin.md /tmp/copy

The language of a fenced block is followed by what to do with it:

    ```bash run          every line is a command; one that begins with "!" must fail. `python -m
                         ...` runs in a fork of this process, so that
                         TensorFlow is imported once a guide; with "&" at its end, while the guide goes on
    ```python run        a program of its own
    ```python models/moons.py      a file to write; any language
    ```text output       what the block before must have printed, line by line; "..." stands for
                         anything

Blocks without a mark are not looked at. `NAME.modules` has the modules that `python -m NAME` has
imported at its end, one a line. Leaves with 1 at the first block that does not do what the
guide says, and tells which.
"""

import atexit
import contextlib
import multiprocessing
import os
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w+) +(\S+)\n(.*?)^```$", re.M | re.S)


def blocks(text):
  """(language, mark, code) of the marked blocks of a Markdown text."""
  return _FENCE.findall(text)


def copy_repository(folder):
  """Fills a folder with what commands need; guides may write files next to those that are there."""
  for name in ("models", "input_pipelines", "gin_configs", "trainer"):
    shutil.copytree(ROOT / name, folder / name)  # with bytecode, which fits: it keeps the times


def run(text):
  """Does what a text says, in the current folder; AssertionError where something else comes out."""
  printed = ""
  for language, mark, code in blocks(text):
    if mark == "output":
      _check_output(code, printed)
    elif mark != "run":
      pathlib.Path(mark).parent.mkdir(parents=True, exist_ok=True)
      pathlib.Path(mark).write_text(code)
    elif language == "python":
      pathlib.Path("program.py").write_text(code)
      printed = _python(runpy.run_path, "program.py", ["program.py"], code)
    else:
      printed = "".join(_command(line) for line in code.replace("\\\n", " ").splitlines())


def _command(line):
  words = shlex.split(line, comments=True)
  if not words:
    return ""
  fails = words[0] == "!"
  if words[:2] == ["python", "-m"] and words[-1] == "&":
    process = _fork(_run_module, words[2], words[2:-1], pathlib.Path("background.log"))
    atexit.register(process.kill)
    return ""
  if words[fails : fails + 2] == ["python", "-m"]:
    words = words[fails + 2 :]
    return _python(_run_module, words[0], words, line, fails)
  done = subprocess.run(
    line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
  )
  assert done.returncode == 0, f"{line}\nleft with {done.returncode} and said:\n{done.stdout}"
  return done.stdout


def _run_module(name, run_name):
  """As `python -m`: a training records the name of the main module."""
  runpy.run_module(name, run_name=run_name, alter_sys=True)


def _python(runner, name, argv, shown, fails=False):
  log = pathlib.Path("printed.log")
  process = _fork(runner, name, argv, log)
  process.join()
  printed = log.read_text()
  assert (process.exitcode != 0) == fails, (
    f"{shown}\nleft with {process.exitcode} and said:\n{printed}"
  )
  return printed


def _fork(runner, name, argv, log):
  process = multiprocessing.get_context("fork").Process(
    target=_in_fork, args=(runner, name, argv, log)
  )
  process.start()
  return process


def _in_fork(runner, name, argv, log):
  with log.open("w") as file:
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
  sys.argv = argv
  with contextlib.ExitStack() as stack:
    stack.callback(sys.stdout.flush)
    stack.callback(lambda: pathlib.Path(f"{name}.modules").write_text("\n".join(sys.modules)))
    runner(name, run_name="__main__")


def _check_output(expected, printed):
  position = 0
  for line in expected.splitlines():
    pattern = ".*".join(re.escape(part) for part in line.split("..."))
    found = re.compile(pattern).search(printed, position)
    assert found, f"expected the line\n  {line}\nafter character {position} of:\n{printed}"
    position = found.end()


if __name__ == "__main__":
  _, guide, folder = sys.argv
  text = pathlib.Path(guide).read_text()
  copy_repository(pathlib.Path(folder))
  os.chdir(folder)
  os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
  # A script's `python` is this one, also where its virtual environment is not activated.
  os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
  sys.path[0] = ""  # as `python -m` has it, in place of this file's folder
  if "trainer" in text:
    import tensorflow  # noqa: F401  for all forks

  try:
    run(text)
  except AssertionError as error:
    sys.exit(f"{guide}: {error}")
