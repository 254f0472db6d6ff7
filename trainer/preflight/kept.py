"""Compiles the programs of an experiment for XLA devices of the CPU, and keeps them for its runs.

    config = run_config.RunConfig(device="xla:8", compiled="out/compiled")
    kept.compile_all(asked, config, [Kind.TRAIN], print)

An Estimator on these devices makes the programs, as in a run. So a run with --compiled=out/compiled
finds them.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Sequence

from trainer import errors, experiment, run_config
from trainer.cli import command, formatting
from trainer.estimator import estimator
from trainer.settings.kinds import Kind


def compile_all(
  asked: experiment.Experiment,
  config: run_config.RunConfig,
  kinds: Sequence[Kind],
  show: Callable[[str], None],
) -> bool:
  """Compiles the programs of an experiment, or finds them compiled; returns whether all passed.

  Args:
    asked: the experiment.
    config: of the run, with the device and the folder.
    kinds: of the programs.
    show: is called with a line for each kind.

  Raises:
    SettingError: a kind has no input_fn, or a setting is wrong.
  """
  input_fns = asked.input_fns()
  for kind in kinds:
    if input_fns[kind] is None:
      raise errors.SettingError(
        f"--steps: {kind} needs an input_fn: bind run.{kind}_input_fn in a gin file."
      )
  from trainer.pjrt import compilation, compiled_forms  # which import jax

  forms, passed = compiled_forms.CompiledForms(config.compiled), True
  with tempfile.TemporaryDirectory(prefix="preflight") as folder:
    made = estimator.Estimator(
      asked.model_fn,
      folder,
      config=config,
      params=asked.params,
      **dataclasses.asdict(asked.batch_sizes()),
    )
    for kind in kinds:
      try:
        executable = made.trace(kind, input_fns[kind]).traced.compile()
        digest = compilation.digest(executable.program)
        form, why = forms.find(digest, made.device.xla_devices.key)
        if form is None:  # The compiler has logged what went wrong.
          raise errors.OutputError(
            f"The program was not kept in {config.compiled}: {why} (--save)."
          )
      except errors.OctetError as error:
        show(f"{config.device} {kind}: FAILED: {command.message(error)}")
        passed = False
      else:
        show(f"{config.device} {kind}: kept in {forms.folder}, {formatting.size(len(form))}")
  return passed
