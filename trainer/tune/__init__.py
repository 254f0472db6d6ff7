"""Finds a learning rate and a batch size before a training.

    python -m trainer.tune --gin_file=gin_configs/digits.gin
    python -m trainer.tune --gin_file=gin_configs/digits.gin --find=batch_size

From Python:

    from trainer import tune

    found = tune.find_learning_rate(estimator, train_input_fn)
    print(found.suggestion)

`learning_rates` trains with a growing rate. `batch_sizes` measures each batch size with `worker`,
in a process of its own. `report` shows the results.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from trainer.tune.learning_rates import sweep as find_learning_rate

__all__ = ["find_learning_rate", "main"]


def __getattr__(name: str) -> Any:
  # Imported at first use, so that --help does not wait for TensorFlow.
  if name != "find_learning_rate":
    raise AttributeError(f"module 'trainer.tune' has no attribute {name!r}")
  return importlib.import_module("trainer.tune.learning_rates").sweep
