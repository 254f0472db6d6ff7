"""Compiles the steps of an experiment for a TPU on a machine that has none.

    python -m trainer.preflight --gin_file=gin_configs/cifar10_cnn.gin --topology=v3-8

From Python:

    from trainer import preflight

    for report in preflight.check_steps(model_fn, "v3-8", train_input_fn=..., train_batch_size=64):
      print(preflight.text(report))

`bindings` reads what gin binds to `run`. `steps` traces the programs of one of N replicas, which
`trainer.programs.lowering` lowers to HLO. `bridge` takes the whole device loop through TensorFlow's
TPU bridge. `compiler` compiles the HLO with the TPU compiler, in a process of its own. `memory` and
`hlo` read the compiler's output. `check` runs these stages in order; `report` and `page` show the
results. `kept` compiles for XLA devices of the CPU instead, and keeps the programs for runs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from trainer.preflight.from_python import check_steps as check_steps
  from trainer.preflight.report import text as text

# Imported when they are used, so that --help does not wait for TensorFlow.
_HOMES = {"check_steps": "trainer.preflight.from_python", "text": "trainer.preflight.report"}

__all__ = ["bindings", "check_steps", "compiler", "main", "prices", "text", "topology"]


def __getattr__(name: str) -> Any:
  if name not in _HOMES:
    raise AttributeError(f"module 'trainer.preflight' has no attribute {name!r}")
  return getattr(importlib.import_module(_HOMES[name]), name)
