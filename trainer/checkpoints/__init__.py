"""Checkpoints: writes, reads and keeps them, and starts a model from the values of another.

`directory` has a run's checkpoints, describes their layout on disk, and removes those that no rule
of `retention` keeps. `saver` writes the variables of a training: `background_save` in a thread of
its own, `commit` so that a checkpoint is there completely or not at all. `inspector` tells valid
checkpoints from damaged ones, and `reader` reads one. `leases` holds a checkpoint for a reader that
comes back to it. `going_back` goes back to an earlier checkpoint that a person has named.
`model_values` knows the source of the variables' values. `warm_start` takes values from elsewhere.
"""

__all__ = [
  "data_position",
  "directory",
  "file_names",
  "initial_checkpoints",
  "into_keras",
  "leases",
  "model_values",
  "moving_averages",
  "own_names",
  "reader",
  "retention",
  "saver",
  "scaffolds",
  "variable_table",
  "warm_start",
]
