"""Compiles the steps of an experiment for a TPU on a machine without a TPU.

    python -m trainer.preflight --gin_file=gin_configs/cifar10_cnn.gin --topology=v3-8

From Python:

    from trainer import preflight

    for report in preflight.check_steps(model_fn, "v3-8", train_input_fn=..., train_batch_size=64):
      print(preflight.text(report))

`bindings` reads gin's bindings of `run`. `steps` traces and lowers the same programs as a run on a
device (`trainer.programs.xla_program`). `compiler` has XLA compile them, in a process of its own,
and may keep the compiled programs for runs. `memory` and `hlo` read the compiler's output. `check`
runs these stages in order; `report` shows the results.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from trainer.preflight.from_python import check_steps as check_steps
  from trainer.preflight.report import text as text

# Imported at first use, so that --help does not wait for TensorFlow.
_HOMES = {"check_steps": "trainer.preflight.from_python", "text": "trainer.preflight.report"}

__all__ = ["bindings", "check_steps", "compiler", "main", "text", "topology"]


def __getattr__(name: str) -> Any:
  if name not in _HOMES:
    raise AttributeError(f"module 'trainer.preflight' has no attribute {name!r}")
  return getattr(importlib.import_module(_HOMES[name]), name)
