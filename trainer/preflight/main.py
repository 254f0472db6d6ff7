"""Compiles an experiment for TPUs without a TPU: does it compile, does it fit, what does it waste?

    python -m trainer.preflight --gin_file=gin_configs/cifar10_cnn.gin --topology=v3-8

And keeps the compiled programs for its runs:

    python -m trainer.preflight --gin_file=gin_configs/digits.gin --topology=xla:8 --save=compiled

The exit status is 1 if a step does not pass all stages on a topology, and 2 if a flag or the
configuration is wrong.
"""

import functools
import json
import sys

from absl import flags

from trainer import errors
from trainer.cli import command, run_flags
from trainer.config import gin_flags
from trainer.io import local_files
from trainer.preflight import compiler, report
from trainer.preflight import topology as topology_lib
from trainer.settings.kinds import Kind

flags.adopt_module_key_flags(gin_flags)
_TOPOLOGY = flags.DEFINE_multi_string(
  "topology", ["v3-8"], f"Repeat the flag for several: {topology_lib.names()}. Or xla:8."
)
_STEPS = flags.DEFINE_list(
  "steps",
  [],
  "Steps to compile: train, eval, predict. Default: all with an input_fn in the configuration.",
)
_PRECISION = run_flags.define_precision()
_SEARCH = flags.DEFINE_enum(
  "search",
  "auto",
  ["never", "auto", "always"],
  "Search for the largest per-core batch; auto: where a step does not fit.",
)
_TIMEOUT = flags.DEFINE_float(
  "timeout_seconds", 900.0, "The longest that one compilation may take.", lower_bound=1.0
)
_JSON = flags.DEFINE_string(
  "json", "", "Write the report to this file as JSON; - for the terminal, instead of the text."
)
_SAVE = flags.DEFINE_string(
  "save",
  "",
  "Keep the compiled programs in this folder. A run on such a device with --compiled=FOLDER finds "
  "them.",
)


def main(argv: list[str]) -> None:
  """Checks the steps on the topologies, and writes the reports.

  Raises:
    SettingError: a flag or the configuration is wrong.
    OutputError: it cannot write a report.
  """
  del argv
  # 1. Report wrong flags before TensorFlow's import, which takes seconds.
  if not gin_flags.GIN_FILE.value:
    raise errors.SettingError(
      "No --gin_file. Try: python -m trainer.preflight "
      "--gin_file=gin_configs/digits.gin --topology=v3-8"
    )
  topologies = [topology_lib.find(name) for name in _TOPOLOGY.value]
  if not set(_STEPS.value) <= set(Kind):
    raise errors.SettingError(
      f"--steps={','.join(_STEPS.value)}: expected some of train, eval, predict."
    )
  if _SAVE.value:
    command.require_local(_SAVE.value, "--save")
  compiler.require_extra(topologies)

  # 2. Load the experiment as `python -m trainer.main` does.
  gin_flags.load()
  from trainer.preflight import bindings, check

  experiment = bindings.from_gin(_PRECISION.value)

  # 3. Check every step on every topology.
  quiet = _JSON.value == "-"
  checker = check.Check(
    experiment, _TIMEOUT.value, _SEARCH.value, kept=_SAVE.value, tell=_silent if quiet else _tell
  )
  show = _silent if quiet else functools.partial(print, flush=True)
  dicts = []
  for topology in topologies:
    for kind in map(Kind, _STEPS.value or experiment.kinds()):
      found = checker.check_step(kind, topology)
      show(f"\n{report.text(found)}\n")
      dicts.append(report.as_dict(found))

  # 4. Write the report.
  as_json = json.dumps(dicts, indent=2) + "\n"
  if quiet:
    print(as_json, end="")
  elif _JSON.value:
    local_files.write(_JSON.value, as_json, "--json")
  if not all(each["passed"] for each in dicts):
    sys.exit(1)


def _tell(result, stage, value):
  if stage == "search":
    print(f"{result.topology.name} {result.kind}: trying {value} examples a core", flush=True)
  else:
    print(
      f"{result.topology.name} {result.kind}: {stage} "
      f"{'FAILED' if value is None else f'{value:.1f} s'}",
      flush=True,
    )


def _silent(*what):
  del what
