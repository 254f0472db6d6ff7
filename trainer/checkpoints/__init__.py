"""Checkpoints: writes them, reads them, keeps the right ones, and starts from other models.

`directory` is the folder of a run's checkpoints and the layout on disk; `reader` reads one of them;
`retention` says which are kept; `model_values` knows which values the model's variables have;
`warm_start` takes values from elsewhere.
"""

__all__ = [
  "directory",
  "initial_checkpoints",
  "into_keras",
  "model_values",
  "moving_averages",
  "reader",
  "retention",
  "scaffolds",
  "variable_table",
  "warm_start",
]
