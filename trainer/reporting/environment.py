"""What a training ran on, written down as it starts.

    <model_dir>/environment.json    {"started": "2026-11-21T19:30:00+00:00", "command": "...",
                                    "device": "cpu, 1 core", ..., "earlier": [...]}

"earlier" has the same of the trainings that this one goes on from, the oldest first.
"""

import datetime
import json
import os
import platform
import shlex
import sys

from absl import logging

from trainer import config

NAME = "environment.json"


def save(model_dir, device, run_config):
  """Writes environment.json.

  Args:
    model_dir: the folder of the run.
    device: a device.Device.
    run_config: a RunConfig.

  Raises:
    errors.OutputError: it cannot be written.
  """
  path = os.path.join(model_dir, NAME)
  earlier = _read(path)
  before = earlier.pop("earlier", [])
  found = dict(describe(device, run_config), earlier=[*before, earlier] if earlier else [])
  config.save(path, json.dumps(found, indent=1) + "\n")


def describe(device, run_config):
  """dict of what a training runs on: texts and ints."""
  import keras
  import tensorflow as tf

  import trainer

  return {
    "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    "command": _command(),
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
  }


def _command():
  """The command line, with `-m module` where a module was run."""
  spec = getattr(sys.modules["__main__"], "__spec__", None)
  program = ["-m", spec.name.removesuffix(".__main__")] if spec else sys.argv[:1]
  return shlex.join(["python", *program, *sys.argv[1:]])


def _read(path):
  import tensorflow as tf

  if not tf.io.gfile.exists(path):
    return {}
  try:
    with tf.io.gfile.GFile(path) as file:
      return dict(json.loads(file.read()))
  except (ValueError, TypeError) as error:
    logging.warning("%s is damaged (%s): what earlier trainings ran on is lost.", path, error)
    return {}
