"""Tests the release without the repository.

Builds the source distribution and the wheel, checks them, installs each in its own environment, and
runs the commands in an empty folder.

    python -m tests.slow.wheel
    python -m tests.slow.wheel --dist=dist                        # and keeps what was built
    python -m tests.slow.wheel --extras=cpu,sweep,plot,serve      # without the TPU compiler

The source distribution runs README's first command. The wheel trains the digits, resumes, predicts,
sweeps, plots, reads checkpoints, makes a project and runs it, compiles for a TPU, and serves; and
every module must come from the environment.
"""

import argparse
import contextlib
import email
import json
import os
import pathlib
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator

from tests import declared

SWEEP = """
sweep.metric = 'accuracy'
sweep.mode = 'max'
sweep.space = {'digits_mlp.model_fn.hidden_units': [(32,), (128, 64)]}
sweep.bindings = {'run.train_steps': 40}
"""

DIGITS = "--gin_file=gin_configs/digits.gin"
SHORT = "--gin_bindings=run.train_steps = 40"
FIRST = f"trainer.main|{DIGITS}|--model_dir=out/digits"  # README's first command
PROJECT = "my_project"

# Command, and the extra that it needs besides TensorFlow, or None.
COMMANDS = (
  (None, FIRST),
  (None, f"trainer.main|{DIGITS}|--model_dir=out/digits|--gin_bindings=run.train_steps = 2040"),
  (None, f"trainer.main|{DIGITS}|--model_dir=out/digits|--mode=predict"),
  (None, f"trainer.main|{DIGITS}|--model_dir=out/eight|--device=cpu:8|{SHORT}"),
  (None, "trainer.devices"),
  (None, "trainer.checkpoints|list|out/digits"),
  (None, "trainer.checkpoints|show|out/digits"),
  (None, "trainer.checkpoints|diff|out/digits/model.ckpt-2000|out/digits/model.ckpt-2040"),
  ("plot", "trainer.plot|out/digits|out/eight|--output=curves.png"),
  ("plot", "trainer.plot|out/digits|--html=report.html"),
  ("sweep", f"trainer.sweep|{DIGITS}|--sweep_file=mine.gin|--sweep_dir=out/sweep|--trials=2"),
  ("sweep", "trainer.sweep_report|--sweep_dir=out/sweep"),
  ("preflight", f"trainer.preflight|{DIGITS}|--topology=v3-8"),
  (None, f"trainer.new|{PROJECT}|--kind=table"),
)
OF_PROJECT = (
  f"trainer.main|--gin_file=configs/{PROJECT}.gin|--model_dir=out/first",
  "trainer.predict|--export=out/first/export|--input=data/test.csv|--output=found.csv",
  "unittest|discover|tests",
)

MOST_BYTES = 3_000_000  # the tree's text; data in it by mistake would be more
WAIT_SECS = 120.0


def run(command: list[str], cwd: pathlib.Path) -> str:
  """Runs a command and returns its output; ends the program if the command fails."""
  done = subprocess.run(
    command,
    cwd=cwd,
    env=environment(),
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  if done.returncode:
    sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}")
  return done.stdout


def environment() -> dict[str, str]:
  """Returns the variables of a process that sees nothing of the repository."""
  kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
  return {**kept, "TF_CPP_MIN_LOG_LEVEL": "3"}


def make_python(folder: pathlib.Path, *requirements: str) -> str:
  """Makes an environment with the requirements, and returns its Python."""
  run([sys.executable, "-m", "venv", str(folder)], folder.parent)
  python = str(folder / "bin" / "python")
  run([python, "-m", "pip", "install", "-q", *requirements], folder)
  return python


def build(folder: pathlib.Path, dist: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
  """Builds the source distribution, and the wheel from it; returns both."""
  python = make_python(folder / "tools", "build", "twine")
  run([python, "-m", "build", "-q", "--outdir", str(dist), str(declared.ROOT)], folder)
  (source,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
  print(run([python, "-m", "twine", "check", "--strict", str(source), str(wheel)], folder).strip())
  return source, wheel


def check(source: pathlib.Path, wheel: pathlib.Path) -> None:
  """Checks names, metadata, the licence and sizes."""
  with zipfile.ZipFile(wheel) as file:
    names = file.namelist()
    (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    (licence,) = [name for name in names if ".dist-info/" in name and name.endswith("LICENSE")]
    told = email.message_from_bytes(file.read(metadata))
    text = file.read(licence).decode()
  with tarfile.open(source) as archive:
    of_source = {name.partition("/")[2] for name in archive.getnames()}
  given = declared.arguments()
  licence_told = told.get("License-Expression") or told["License"]
  assert (told["Name"], told["Version"]) == (given["name"], given["version"]), told.items()
  assert licence_told == given["license"], licence_told
  assert text == (declared.ROOT / "LICENSE").read_text()
  assert set(told.get_all("Provides-Extra")) == set(given["extras_require"])
  assert told.get_payload().strip() == (declared.ROOT / "README.md").read_text().strip()
  assert {"LICENSE", "README.md", "setup.py"} <= of_source
  tops = {name.split("/")[0] for name in names} - {metadata.split("/")[0]}
  assert tops == {"trainer", "octet_trainer"}, tops
  for built in (source, wheel):
    assert built.stat().st_size < MOST_BYTES, f"{built.name}: {built.stat().st_size} bytes"
    print(f"{built.name}: {built.stat().st_size:,} bytes")


def try_it(python: str, commands: list[str], folder: pathlib.Path) -> None:
  """Runs commands of Octet, and prints the last line of each."""
  for line in commands:
    start = time.monotonic()
    last = (run([python, "-m", *line.split("|")], folder).strip().splitlines() or [""])[-1]
    print(f"{line.replace('|', ' ')}\n    {last} ({time.monotonic() - start:.0f} s)", flush=True)


def try_server(python: str, folder: pathlib.Path) -> None:
  """Serves the project's export, and sends a row of its table."""
  with serving(python, folder) as address:
    rows = [{"age": 33, "job": "cook", "hours": None}]
    body = json.dumps({"signature_name": "from_raw", "instances": rows}).encode()
    request = urllib.request.Request(f"{address}/v1/models/{PROJECT}:predict", body)
    with urllib.request.urlopen(request, timeout=WAIT_SECS) as answer:
      (found,) = json.load(answer)["predictions"]
  print(f"trainer.serve\n    {found}", flush=True)


@contextlib.contextmanager
def serving(python: str, folder: pathlib.Path) -> Iterator[str]:
  """Yields a server's address; the server ends with the block."""
  with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
  flags = ["--export_base=out/first/export", f"--name={PROJECT}", f"--port={port}"]
  command = [python, "-m", "trainer.serve", "--engine=tensorflow", *flags]
  server = subprocess.Popen(command, cwd=folder, env=environment())
  address = f"http://127.0.0.1:{port}"
  try:
    end = time.monotonic() + WAIT_SECS
    while True:
      with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/readyz"):
        break
      if server.poll() is not None or time.monotonic() > end:
        sys.exit("The server does not answer.")
      time.sleep(0.5)
    yield address
  finally:
    server.terminate()
    server.wait()


def main() -> None:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--extras", default="cpu,sweep,plot,serve,preflight")
  parser.add_argument("--dist", help="where to build; a temporary folder if it is not given")
  flags = parser.parse_args()
  extras = flags.extras.split(",")
  with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    source, wheel = build(folder, pathlib.Path(flags.dist or folder / "dist").absolute())
    check(source, wheel)

    python = make_python(folder / "of_source", f"{source}[cpu]")
    (folder / "first").mkdir()
    try_it(python, [FIRST], folder / "first")

    python = make_python(folder / "of_wheel", f"{wheel}[{','.join(extras)}]")
    empty = folder / "empty"
    empty.mkdir()
    where = "import trainer, octet_trainer.models as m; print(trainer.__file__, m.__path__)"
    assert run([python, "-c", where], empty).count(str(folder / "of_wheel")) == 2, where
    (empty / "mine.gin").write_text(SWEEP)
    wanted = [command for extra, command in COMMANDS if extra is None or extra in extras]
    try_it(python, wanted, empty)
    try_it(python, list(OF_PROJECT), empty / PROJECT)
    if "serve" in extras:
      try_server(python, empty / PROJECT)
  print(f"{wheel.name}[{','.join(extras)}]: every command ran in an empty folder.")


if __name__ == "__main__":
  main()
