"""Finds the learning rate or the batch size of an experiment before its training.

  python -m trainer.tune --gin_file=gin_configs/digits.gin --picture=rate.png
  python -m trainer.tune --gin_file=gin_configs/digits.gin --find=batch_size

The learning rate grows from step to step, whatever schedule the experiment has. Its training begins
with new weights, and it writes only the picture.
"""

import shlex

from absl import flags

from trainer import errors
from trainer.cli import run_flags
from trainer.config import gin_flags

flags.adopt_module_key_flags(gin_flags)
_FIND = flags.DEFINE_enum(
  "find", "learning_rate", ["learning_rate", "batch_size"], "The setting to find."
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
_TIMEOUT = flags.DEFINE_float(
  "timeout_seconds",
  300.0,
  "The longest that one batch size may take, with its compilation.",
  lower_bound=1.0,
)
_PICTURE = flags.DEFINE_string("picture", "", "Draw the results to this PNG file.")


def main(argv: list[str]) -> None:
  """Runs the search of --find, prints its result, and draws it.

  Raises:
    SettingError: a flag or the configuration is wrong, or the search finds nothing.
    OutputError: it cannot write the picture.
  """
  del argv
  # 1. Report wrong flags before TensorFlow's import, which takes seconds.
  if not gin_flags.GIN_FILE.value:
    raise errors.SettingError(
      "No --gin_file. Try: python -m trainer.tune --gin_file=gin_configs/digits.gin"
    )
  if _FIND.value == "batch_size" and _DEVICE.value == "tpu":
    raise errors.SettingError(
      "--find=batch_size with --device=tpu: without a TPU, the TPU compiler finds the largest "
      f"batch: python -m trainer.preflight --gin_file={shlex.quote(gin_flags.GIN_FILE.value[-1])} "
      "--steps=train --search=always --topology=v5e-8"
    )
  gin_flags.load()
  from trainer.tune import find, report

  # 2. The search.
  asked = find.Asked.by_gin(
    {"device": _DEVICE.value, "precision": _PRECISION.value, "seed": _SEED.value}
  )
  print(asked.about, flush=True)
  if _FIND.value == "learning_rate":
    sweep = asked.learning_rate(_LOW.value, _HIGH.value, _STEPS.value)
    text, panel = report.rates(sweep), report.losses(sweep)
  else:
    given = {
      "gin_files": gin_flags.GIN_FILE.value,
      "bindings": gin_flags.GIN_BINDINGS.value,
      "modules": gin_flags.GIN_MODULES.value,
    }
    tried = asked.batch_size(_LARGEST.value, _TIMEOUT.value, given)
    text, panel = report.sizes(tried), report.speeds(tried)

  # 3. The result.
  print(f"\n{text}")
  if _PICTURE.value:
    report.draw(_PICTURE.value, panel)
    print(f"Wrote {_PICTURE.value}")
