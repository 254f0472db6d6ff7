"""Records the command, device, versions and machine of a training when it starts.

    <model_dir>/environment.json    {"started": "2026-11-21T19:30:00+00:00", "command": "...",
                                    "device": "cpu, 1 replica", ..., "earlier": [...]}

"earlier" has the records of the trainings that this training continues, the oldest first. In a git
repository the record has the commit and the changes, see `working_tree`; everywhere it has digests
of the user's own modules. An earlier record leaves out a LONG value that equals the next record's.
The record has no environment variable.
"""

import datetime
import hashlib
import importlib.metadata
import os
import platform
import shlex
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from absl import logging

from trainer import errors
from trainer.cli import user_code
from trainer.io import json_form
from trainer.reporting import working_tree

if TYPE_CHECKING:  # These import TensorFlow, and trainer.plot works without it.
  from trainer import run_config as run_config_lib
  from trainer.devices import device as device_lib

NAME = "environment.json"
LONG = ("packages", "modules", "diff", "untracked")  # Tables leave these out.
_FORM = {"earlier": list[dict], ...: str | int | dict}


def save(
  model_dir: str, device: "device_lib.Device", run_config: "run_config_lib.RunConfig"
) -> None:
  """Writes environment.json, with the records that the file had before under "earlier".

  Args:
    model_dir: the folder of the run.
    device: the device of the training.
    run_config: the configuration of the training.

  Raises:
    OutputError: it cannot write the file.
  """
  try:
    earlier = read(model_dir)
  except errors.FileDamagedError as error:
    logging.warning("%s The new file lacks the environments of earlier trainings.", error)
    earlier = []
  newest = describe(device, run_config)
  for later, record in zip([newest, *earlier], earlier, strict=False):
    for key in LONG:
      if key in record and record[key] == later.get(key):
        del record[key]
  json_form.write(os.path.join(model_dir, NAME), dict(newest, earlier=earlier[::-1]))


def describe(device: "device_lib.Device", run_config: "run_config_lib.RunConfig") -> dict[str, Any]:
  """Returns the record of a training that starts now: texts, ints, and dicts of texts."""
  import keras
  import tensorflow as tf

  import trainer

  return {
    "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "command": _command(),
    "folder": os.getcwd(),
    "device": str(device),
    "cores": device.replicas,
    "hosts": device.hosts,
    "precision": run_config.precision,
    "seed": run_config.tf_random_seed,
    "octet": trainer.__version__,
    "tensorflow": tf.__version__,
    "keras": keras.__version__,
    "python": platform.python_version(),
    "machine": (
      f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPU cores, host "
      f"{platform.node()}"
    ),
    **here(),
  }


def here() -> dict[str, Any]:
  """Returns the part of a record about code: the commit, the changes, modules and packages."""
  return {
    **working_tree.describe(os.getcwd()),
    "modules": digests(_modules()),
    "packages": _packages(),
  }


def digests(files: Iterable[str]) -> dict[str, str]:
  """Returns the SHA-256 of each file that exists.

  Args:
    files: paths, absolute or relative to the working directory.
  """
  found = {}
  for path in sorted(files):
    if os.path.isfile(path):
      with open(path, "rb") as file:
        found[path] = hashlib.file_digest(file, "sha256").hexdigest()
  return found


def _modules():
  """Returns the paths of the user's own modules that are imported by now, for `digests`."""
  own = {
    os.path.abspath(path)
    for name, module in [*sys.modules.items()]
    # AutoGraph imports code that it writes to files of its own, anew in each process.
    if not name.startswith("__autograph_generated_file")
    # Not getattr: a lazy module would be imported.
    and (path := getattr(module, "__dict__", {}).get("__file__"))
    and user_code.is_users(path)
  }
  # A path below the working directory also fits a copy of the program on another machine.
  here = os.path.join(os.getcwd(), "")
  return [path.removeprefix(here) for path in own]


def _packages():
  """Returns the name of each installed distribution → its version."""
  found = importlib.metadata.distributions()
  # Of a distribution in two places, Python imports the first. A damaged one has no name. Read
  # `metadata` once: each access parses it anew.
  pairs = [(each["Name"], each["Version"]) for each in (one.metadata for one in found)]
  named = [(name, version) for name, version in reversed(pairs) if name]
  return dict(sorted(named, key=lambda pair: pair[0].lower()))


def read(model_dir: str) -> list[dict[str, Any]]:
  """Returns the records of a run, the newest first; [] if there is no file.

  Raises:
    FileDamagedError: the file is damaged.
  """
  newest = json_form.read(os.path.join(model_dir, NAME), _FORM, "remove it")
  return [newest, *reversed(newest.pop("earlier"))] if newest else []


def _command():
  """Returns the command line that repeats this run, with `-m module` for a run of a module."""
  spec = getattr(sys.modules["__main__"], "__spec__", None)
  program = ["-m", spec.name.removesuffix(".__main__")] if spec else sys.argv[:1]
  return shlex.join(["python", *program, *sys.argv[1:]])
