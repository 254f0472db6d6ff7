"""Finds the learning rate or the batch size of an experiment before its training.

  python -m trainer.tune --gin_file=gin_configs/digits.gin --picture=rate.png
  python -m trainer.tune --gin_file=gin_configs/digits.gin --find=batch_size

The learning rate grows from step to step, whatever schedule the experiment has. Its training begins
with new weights, and it writes only the report.
"""

import functools
import json
import shlex
from typing import Any

from absl import flags

from trainer import errors
from trainer.cli import run_flags
from trainer.config import gin_flags
from trainer.io import local_files

flags.adopt_module_key_flags(gin_flags)
_FIND = flags.DEFINE_list(
  "find", ["learning_rate"], "learning_rate, batch_size, or both with a comma between them."
)
_DEVICE = run_flags.define_device()
_PRECISION = run_flags.define_precision()
_SEED = run_flags.define_seed()
_LOW = flags.DEFINE_float("lowest_rate", 1e-6, "The learning rate of the first step.")
_HIGH = flags.DEFINE_float("highest_rate", 10.0, "The learning rate of the last step.")
_STEPS = flags.DEFINE_integer("steps", 200, "The number of steps, each with a higher rate.")
_LARGEST = flags.DEFINE_integer(
  "largest", 65_536, "The largest batch size to try, of all cores together.", lower_bound=1
)
_SECONDS = flags.DEFINE_float(
  "seconds", 2.0, "How long to train with a batch size, to time its steps.", lower_bound=0.1
)
_TIMEOUT = flags.DEFINE_float(
  "timeout_seconds",
  300.0,
  "The longest that one batch size may take, with its compilation.",
  lower_bound=1.0,
)
_PICTURE = flags.DEFINE_string("picture", "", "Draw the results to this PNG file.")
_JSON = flags.DEFINE_string(
  "json", "", "Write the report to this file as JSON; - for the terminal, instead of the text."
)
_KNOWN = ("learning_rate", "batch_size")


def main(argv: list[str]) -> None:
  """Runs the searches of --find, and writes the reports.

  Raises:
    SettingError: a flag or the configuration is wrong, or a search finds nothing.
    OutputError: it cannot write a report.
  """
  del argv
  # 1. Report wrong flags before TensorFlow's import, which takes seconds.
  if not gin_flags.GIN_FILE.value:
    raise errors.SettingError(
      "No --gin_file. Try: python -m trainer.tune --gin_file=gin_configs/digits.gin"
    )
  if not _FIND.value or not set(_FIND.value) <= set(_KNOWN):
    raise errors.SettingError(
      f"--find={','.join(_FIND.value)}: expected learning_rate, batch_size or both."
    )
  if "batch_size" in _FIND.value and _DEVICE.value == "tpu":
    raise errors.SettingError(
      "--find=batch_size with --device=tpu: without a TPU, the TPU compiler finds the largest "
      f"batch: python -m trainer.preflight --gin_file={shlex.quote(gin_flags.GIN_FILE.value[-1])} "
      "--steps=train --search=always --topology=v5e-8"
    )
  gin_flags.load()
  from trainer.tune import find, learning_rates, report

  learning_rates.check(_LOW.value, _HIGH.value, _STEPS.value)

  # 2. The searches.
  quiet = _JSON.value == "-"
  asked = find.Asked(
    device=_DEVICE.value,
    precision=_PRECISION.value,
    seed=_SEED.value,
    gin_files=tuple(gin_flags.GIN_FILE.value),
    gin_bindings=tuple(gin_flags.GIN_BINDINGS.value),
    gin_modules=tuple(gin_flags.GIN_MODULES.value),
    tell=(lambda line: None) if quiet else functools.partial(print, flush=True),
  )
  parts: dict[str, Any] = {}
  if "batch_size" in _FIND.value:
    parts |= asked.batch_size(_LARGEST.value, _SECONDS.value, _TIMEOUT.value)
  if "learning_rate" in _FIND.value:
    parts |= asked.learning_rate(_LOW.value, _HIGH.value, _STEPS.value)
  found = report.Report(name=" ".join(gin_flags.GIN_FILE.value), about=asked.about, **parts)

  # 3. The reports.
  as_json = json.dumps(found.as_dict(), indent=2, allow_nan=False) + "\n"
  print(as_json if quiet else f"\n{found.text()}", end="" if quiet else "\n")
  if _JSON.value and not quiet:
    local_files.write(_JSON.value, as_json, "--json")
    asked.tell(f"Wrote {_JSON.value}")
  if _PICTURE.value:
    found.draw(_PICTURE.value)
    asked.tell(f"Wrote {_PICTURE.value}")
